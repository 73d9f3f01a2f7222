"""Settings of a training on sentences, as frozen data: what a run directory keeps and the command line changes."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar, Literal, TypeAlias

from debiased_contrastive.domain import Preset, name_presets
from debiased_contrastive.objectives.checks import FloorName
from debiased_contrastive.training.membership import Membership, check_membership
from debiased_contrastive.training.settings import Objective, Training, check_at_least, check_words, whole_path

Denominator: TypeAlias = Literal["others", "original"]

TowerName: TypeAlias = Literal["gru", "bag", "transformer"]
HEADS = 4
"""Number of attention heads of the Transformer."""


@dataclass(frozen=True)
class Text:
    """The text that is trained on."""

    path: Path | None = None
    """The text to train on: a .txt file with one sentence a line and blank lines as breaks, a .tsv or .parquet
    file, or a folder of such files. The default is six novels of Jane Austen that come with the package."""
    vocabulary: int = 50_000
    """Number of words that are known, the unknown word included."""
    longest: int = 50
    """Number of words after which sentences are cut."""
    lowercase: bool = False
    """Whether words are turned to lower case."""
    held_out: int = 0
    """Number of sentences at the beginning that are not trained on."""
    breaks: bool = True
    """Whether a break separates neighbours. The original code has no breaks."""
    column: str = "sentence"
    """The column of .tsv and .parquet files that holds the sentences."""
    break_columns: tuple[str, ...] | None = None
    """Columns of .tsv and .parquet files: a change in one of them is a break. The default is those of book,
    document and paragraph that the file has."""
    cache: Path | None = None
    """Folder for the token ids of the text. The default is the folder of the text."""

    def __post_init__(self) -> None:
        check_at_least(2, vocabulary=self.vocabulary)
        check_at_least(1, longest=self.longest)
        check_at_least(0, held_out=self.held_out)


@dataclass(frozen=True)
class Towers:
    """The two encoders of sentences."""

    name: TowerName = "gru"
    """gru is the paper's bidirectional recurrent network, bag a bag of words, transformer a small Transformer."""
    word_dim: int = 620
    """Dimension of the word vectors."""
    hidden_dim: int = 600
    """Half the dimension of the sentence vectors of each tower."""
    words: Path | None = None
    """A text file of pretrained word vectors, as GloVe and word2vec write it. The default is to start from none."""

    def __post_init__(self) -> None:
        check_words(self)
        check_at_least(1, word_dim=self.word_dim, hidden_dim=self.hidden_dim)
        if self.name == "transformer" and self.hidden_dim % HEADS:
            raise ValueError(
                f"hidden_dim must be a multiple of {HEADS}, the number of heads; got {self.hidden_dim}"
            )


@dataclass(frozen=True)
class TextObjective(Objective):
    """The loss between a sentence and its neighbours."""

    kind: Literal["biased", "debiased"] = "debiased"
    """The usual loss, or the one that is corrected for false negatives."""
    tau_plus: float = 0.01
    """Probability that another sentence of the batch is as fit a neighbour. The biased loss ignores it."""
    temperature: float | None = None
    """Divisor of the cosines between sentences. The default is raw scalar products, as in the original."""
    denominator: Denominator = "others"
    """others: the unlabeled samples of a sentence are all but itself and its neighbours. original: they are those
    of the released biased code."""
    floor: FloorName = "zero"
    """The smallest value of the debiased loss's estimate: zero; bound is e^(-1/temperature), for unit vectors;
    small is e^-10; relative a twentieth of the unlabeled mean. Where the estimate is negative, biased takes the
    biased loss and cap_tau a smaller tau_plus."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.floor == "bound" and self.temperature is None:
            raise ValueError(
                "floor=bound is that of unit vectors, so it needs a temperature; raw products have none"
            )


@dataclass(frozen=True)
class TextMembership(Membership):
    """What is known about classes beside the similarity: pairs that probably share one weigh less as negatives."""

    source: Literal["none", "groups", "guide"] = "none"
    """Where it is from: nowhere (none), a file of groups, or a guide, a file with embeddings of another model. With
    a source, tau_plus plays no part."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.source == "guide" and self.file is None:
            raise ValueError("a guide of sentences is a file with an embedding of each: pass --membership.file")


@dataclass(frozen=True)
class TextTraining(Training):
    """How long and how fast to train on sentences, and on which device."""

    EARLIER: ClassVar[frozenset[str]] = frozenset({"knn_every"})


@dataclass(frozen=True)
class TextSettings:
    """Everything that a run on text depends on."""

    LATER: ClassVar[frozenset[str]] = frozenset({"membership"})

    preset: str = ""
    """The name of the preset that these settings started from."""
    seed: int = 0
    """Seed of the weights and of the order of the batches."""
    text: Text = field(default_factory=Text)
    towers: Towers = field(default_factory=Towers)
    objective: TextObjective = field(default_factory=TextObjective)
    training: TextTraining = field(default_factory=TextTraining)
    membership: TextMembership = field(default_factory=TextMembership)

    def __post_init__(self) -> None:
        check_membership(self.membership, self.objective.kind, self.training.epochs)


def with_corpus(settings: TextSettings, corpus: Path | None = None) -> TextSettings:
    """The settings with the given corpus, if there is one, and with absolute paths."""
    text, towers = settings.text, settings.towers
    text = replace(text, path=whole_path(corpus or text.path), cache=whole_path(text.cache))
    membership = replace(settings.membership, file=whole_path(settings.membership.file))
    towers = replace(towers, words=whole_path(towers.words))
    return replace(settings, text=text, towers=towers, membership=membership)


_PAPER = TextSettings(
    text=Text(held_out=50_000),
    training=TextTraining(
        epochs=1, batch=400, learning_rate=5e-4, weight_decay=0.0, clip=5.0, log_every=100, checkpoint_every=5000
    ),
)
_SMALL = TextSettings(
    text=Text(vocabulary=20_000, longest=30),
    towers=Towers(word_dim=100, hidden_dim=64),
    # The steps are few, so they are larger than the 114,466 steps of the paper.
    training=replace(_PAPER.training, epochs=2, batch=200, learning_rate=3e-3, log_every=10, checkpoint_every=200),
)

TEXT_PRESETS = name_presets(
    {
        "quickthoughts-small": Preset("neighbouring sentences of any text, small towers", _SMALL),
        "quickthoughts-normalised": Preset(
            "the same between unit vectors, with a temperature",
            replace(_SMALL, objective=TextObjective(temperature=0.1, floor="bound")),
        ),
        "quickthoughts": Preset("the paper's towers and batch; give --corpus, such as BookCorpus", _PAPER),
    }
)
