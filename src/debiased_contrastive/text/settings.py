"""Settings of a training on sentences, as frozen data: what a run directory keeps and the command line changes."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from debiased_contrastive.objectives.checks import check_tau_plus
from debiased_contrastive.text.quickthoughts import Denominator, Floor
from debiased_contrastive.text.towers import TowerName, check_heads
from debiased_contrastive.training.settings import Training, check_at_least, check_words


@dataclass(frozen=True)
class Text:
    """Which sentences, and which of their words are known."""

    path: Path | None = None
    """A text, one sentence a line, a blank line for a break; .tsv or .parquet; or a folder. None: six novels of
    Jane Austen that come with the package."""
    vocabulary: int = 50_000
    """Words, the unknown one included."""
    longest: int = 50
    """Words of a sentence; the rest is cut."""
    lowercase: bool = False
    held_out: int = 0
    """Sentences at the beginning that are not trained on."""
    breaks: bool = True
    """Whether sentences on two sides of a break are no neighbours; the original did not look."""
    column: str = "sentence"
    """Of .tsv and .parquet files: where the sentences stand."""
    break_columns: tuple[str, ...] | None = None
    """Of such files: between two rows that differ in one of these there is a break; if not given, those of book,
    document and paragraph that there are."""
    cache: Path | None = None
    """Folder for the tokens; beside the text if not given."""

    def __post_init__(self) -> None:
        check_at_least(2, vocabulary=self.vocabulary)
        check_at_least(1, longest=self.longest)
        check_at_least(0, held_out=self.held_out)


@dataclass(frozen=True)
class Towers:
    """The two encoders of sentences."""

    name: TowerName = "gru"
    """Recurrent in both directions as the paper's, bag of words, or a small Transformer."""
    word_dim: int = 620
    hidden_dim: int = 600
    """A sentence has twice as many dimensions in each tower."""
    words: Path | None = None
    """Vectors of words to start from, as GloVe's and word2vec's text files have them; none if not given."""

    def __post_init__(self) -> None:
        check_words(self)
        check_at_least(1, word_dim=self.word_dim, hidden_dim=self.hidden_dim)
        if self.name == "transformer":
            check_heads(self.hidden_dim)


@dataclass(frozen=True)
class TextObjective:
    """Which loss between a sentence and its neighbours."""

    kind: Literal["biased", "debiased"] = "debiased"
    tau_plus: float = 0.01
    """Probability that another sentence of the batch is as fit a neighbour; for debiased alone."""
    temperature: float | None = None
    """Of unit vectors; None takes raw products, as the original."""
    denominator: Denominator = "others"
    """Unlabeled samples: all but the sentence and its neighbours, or as in the original biased code."""
    floor: Floor = "zero"
    """Below which the estimate may not fall, for debiased alone: bound is e^(-1/t), for unit vectors; small e^-10;
    relative a twentieth of the unlabeled mean; biased takes the biased loss there, cap_tau a smaller
    tau_plus."""

    def __post_init__(self) -> None:
        check_words(self)
        check_tau_plus(self.tau_plus)
        if self.temperature is not None and not self.temperature > 0:
            raise ValueError(f"temperature must be positive; got {self.temperature}: 0.1 is usual for unit vectors")
        if self.floor == "bound" and self.temperature is None:
            raise ValueError(
                "floor=bound is that of unit vectors, so it needs a temperature; raw products have none"
            )

    @property
    def correction(self) -> float:
        """The tau_plus that the loss is given."""
        return self.tau_plus if self.kind == "debiased" else 0.0


@dataclass(frozen=True)
class TextSettings:
    """Everything that a run depends on."""

    preset: str = ""
    """The name of the preset that these settings started from."""
    seed: int = 0
    text: Text = field(default_factory=Text)
    towers: Towers = field(default_factory=Towers)
    objective: TextObjective = field(default_factory=TextObjective)
    training: Training = field(default_factory=Training)

    def __post_init__(self) -> None:
        if self.training.knn_every:
            raise ValueError(f"knn_every is for images; got {self.training.knn_every}: leave it at 0")
