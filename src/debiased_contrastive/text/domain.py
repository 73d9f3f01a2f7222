"""What the command line and the report know of text. Never imports torch."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePath
from statistics import fmean

from debiased_contrastive.domain import (
    KNN,
    LINEAR,
    LINEAR_TOP5,
    MEAN_CLASSIFIER,
    Content,
    Demo,
    Domain,
    Metric,
    PublishedTable,
    Work,
    number_at,
    section,
)
from debiased_contrastive.paper import SENTENCE_SCORES, SENTENCE_TASKS
from debiased_contrastive.text.settings import TEXT_PRESETS, TextSettings, with_corpus
from debiased_contrastive.training.settings import from_json

_MEANINGS = (
    "reviews of films, good or bad",
    "reviews of products, good or bad",
    "subjective or objective",
    "polarity of phrases",
    "what a question asks for",
    "whether two sentences say the same",
    "F1 of the same",
)
_PROBE = "of logistic regression on the frozen vectors"


def _place(name: str) -> tuple[str, ...]:
    task, _, measure = name.partition(" ")
    return "tasks", task, measure.lower() or "accuracy"


def _mean_of_six(_settings: Content, _metrics: Sequence[Content], evaluation: Content) -> float | None:
    """The mean accuracy, once all six tasks are scored."""
    names = [name for name in SENTENCE_TASKS if name != "MSRP F1"]
    accuracies = [value for name in names if (value := number_at(evaluation, *_place(name))) is not None]
    return fmean(accuracies) if len(accuracies) == len(names) else None


def _describe_data(settings: Content) -> str:
    text = section(settings, "text")
    if not text:
        return ""
    # Only the name of the file: the rest of the path is private to a machine.
    return PurePath(text["path"]).name if isinstance(text.get("path"), str) else "novels of Jane Austen"


_SIX = Metric(
    "six_tasks",
    "Six tasks",
    "mean of the accuracies on the six sentence tasks",
    compute=_mean_of_six,
    in_words=f"the mean over six sentence tasks {_PROBE}",
)
_TASKS = tuple(
    Metric(name, name, meaning, place=_place(name), in_words=f"that on the sentence task {name} {_PROBE}")
    for name, meaning in zip(SENTENCE_TASKS, _MEANINGS, strict=True)
)


@dataclass(frozen=True)
class TextFlags:
    """Flags of `debiased train` beside the settings."""

    corpus: Path | None = field(default=None, metadata={"replaces": "text.path"})
    """The text to train on: a .txt file with one sentence a line and blank lines as breaks, a .tsv or .parquet
    file, or a folder of such files. The default is six novels of Jane Austen that come with the package."""


def _load() -> Work:
    from debiased_contrastive.text import frozen, run

    return Work(run.open_corpus, run.train, run.evaluate, run.embed, frozen.load_encoder)


def _demo() -> Demo:
    from debiased_contrastive.text.demo import DEMO

    return DEMO


def _settle(settings: TextSettings, flags: TextFlags) -> TextSettings:
    if flags.corpus is not None and settings.text.path is not None:
        raise ValueError(
            f"give --corpus or --text.path, which are the same; got {flags.corpus} and {settings.text.path}"
        )
    return with_corpus(settings, flags.corpus)


def _cost(settings: TextSettings) -> tuple[str, str, str, str]:
    return "?", str(settings.training.epochs), "depends on the text", "?"


TEXT = Domain(
    name="text",
    extra="text",
    unit="sentences",
    presets=TEXT_PRESETS,
    read_settings=partial(from_json, TextSettings),
    load=_load,
    flags=TextFlags,
    settle=_settle,
    move=with_corpus,
    evaluate_flags=frozenset({"tasks", "task_data"}),
    embeds="sentences",
    demo=_demo,
    cost=_cost,
    results=(LINEAR, LINEAR_TOP5, KNN, MEAN_CLASSIFIER, _SIX, *_TASKS),
    mains=(LINEAR, _SIX, *_TASKS),
    describe_data=_describe_data,
    label_words={"towers.name": "towers {}", "text.path": "path = {}"},
    summary_words={"towers.name": ("with towers {}", "with towers {}")},
    published_table=PublishedTable(
        "The paper's Table 2, trained on BookCorpus (columns as printed; SUBJ and MPQA look exchanged)",
        {
            f"debiased, τ⁺ = {tau_plus}" if tau_plus else "biased": scores
            for tau_plus, scores in SENTENCE_SCORES.items()
        },
    ),
)
