"""A domain, such as images, as the command line, the report and the runner see it. Never imports torch."""

import math
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, NoReturn, Protocol, TypeAlias, TypeVar

if TYPE_CHECKING:
    from lightning_fabric import Fabric

    from debiased_contrastive.runs import Run
    from debiased_contrastive.training.loop import Update

S = TypeVar("S")
"""The settings of a domain."""

Content: TypeAlias = Mapping[str, Any]
"""Settings, metrics or an evaluation, as a run directory holds them: parts may be missing or damaged."""
Compute: TypeAlias = Callable[[Content, Sequence[Content], Content], float | None]
"""Computes a number from the settings, lines of metrics and evaluation of a run; None where it cannot be known."""


def finite_number(value: object) -> float | None:
    """The value as a float, None unless it is a finite number.

    >>> finite_number(1), finite_number(math.nan), finite_number(True), finite_number("1")
    (1.0, None, None, None)
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:  # an integer of hundreds of digits
        return None
    return number if math.isfinite(number) else None


def number_at(content: object, *place: str) -> float | None:
    """The number at a place of nested content; a mapping there stands for its `top1`, else its `accuracy`.

    >>> number_at({"linear": {"top1": 0.7}}, "linear"), number_at({}, "linear", "top5")
    (0.7, None)
    """
    for name in place:
        content = content.get(name) if isinstance(content, Mapping) else None
    if isinstance(content, Mapping):
        content = content.get("top1", content.get("accuracy"))
    return finite_number(content)


def section(settings: Content, name: str) -> Content:
    """Return a part of the settings, empty where there is none."""
    value = settings.get(name)
    return value if isinstance(value, Mapping) else {}


@dataclass(frozen=True)
class Metric:
    """A column of the tables, or a curve."""

    key: str
    heading: str
    meaning: str
    percent: bool = True
    decimals: int = 1
    place: tuple[str, ...] = ()
    """The path of keys to it in evaluation.json, such as ("linear", "top5"); its own key if not given."""
    compute: Compute | None = None
    """Computes it where evaluation.json does not hold it as it is."""
    quantity: str = "accuracy"
    """What is measured, in a word; numbers of one quantity share a plot."""
    in_words: str = ""
    """Ends the sentence "accuracy is ..."; the meaning if not given."""

    @property
    def scale(self) -> float:
        """The factor from the number to what is shown."""
        return 100.0 if self.percent else 1.0

    def read(self, settings: Content, metrics: Sequence[Content], evaluation: Content) -> float | None:
        """Return its value in a run, None where the run has none."""
        if self.compute is not None:
            return self.compute(settings, metrics, evaluation)
        return number_at(evaluation, *(self.place or (self.key,)))


LINEAR = Metric(
    "linear_top1",
    "Linear top-1",
    "test accuracy of a linear classifier on frozen features",
    place=("linear",),
    in_words="that of a linear classifier on the frozen features, on test samples",
)
LINEAR_TOP5 = Metric(
    "linear_top5", "Linear top-5", "the class is among its five likeliest", place=("linear", "top5")
)
KNN = Metric("knn", "kNN", "vote of the nearest training samples")
MEAN_CLASSIFIER = Metric("mean_classifier", "Mean classifier", "the nearest class mean, as in Lemma 4")
LOSS = Metric("loss", "Loss", "Levels of different objectives do not compare; courses do.", percent=False)


@dataclass(frozen=True)
class Preset(Generic[S]):
    """Settings, with a line that says what they are."""

    what: str
    settings: S


def name_presets(presets: Mapping[str, Preset[S]]) -> dict[str, Preset[S]]:
    """Write the name of each preset into its settings."""
    return {
        name: Preset(preset.what, replace(preset.settings, preset=name))  # type: ignore[type-var]
        for name, preset in presets.items()
    }


class Bar(Protocol):
    """A progress bar."""

    def at(self, done: int, total: int, note: str = "") -> None:
        """Show that `done` of `total` are done."""


Progress: TypeAlias = Callable[[str], AbstractContextManager[Bar]]
"""From the name of a piece of work to its progress bar."""


@dataclass(frozen=True)
class Work:
    """The functions of a domain. They import torch, so they are loaded only when they are needed."""

    open_data: Callable[[Any, "Fabric", Any, Progress], Any]
    """(settings, fabric, flags, progress): open the data; raises one line where they cannot be trained on."""
    train: Callable[..., "Generator[Update, None, None]"]
    """(settings, run, fabric, data, *, log): train to the end of the run, yielding after every step."""
    evaluate: Callable[..., Any]
    """(run, bar, **flags): evaluate a finished run, and write its evaluation.json."""
    embed: Callable[[Path, Path, Progress], dict[str, Any]] | None = None
    """(folder, source, progress): return arrays by name, `features` (n, d) the first of them."""
    load_encoder: Callable[[Path], Any] | None = None
    """(folder): return the frozen encoder of a finished run, a module in evaluation mode."""
    watch: Callable[[Path, Path, int, int], str] | None = None
    """(folder, out, size, episode): write a film, and say in a line what it shows."""


@dataclass(frozen=True)
class Demo:
    """A few runs that show a newcomer what the package does."""

    title: str
    """The heading of its page."""
    seeds: int
    settings: Callable[[Path], Mapping[str, Any]]
    """Settings to train with seed 0, by the names of their runs; it may write a text to train on to the folder."""
    result: str
    """The entry of evaluation.json that shows that a run was evaluated."""
    evaluate: Callable[["Run", Bar], Any]
    finish: Callable[[Path, "list[Run]"], list[Path]] = lambda _folder, _runs: []
    """Writes further files from the finished runs, and returns them."""
    columns: tuple[Metric, ...] = ()
    """What the terminal shows, the number first that the page opens with; all of the domain's if not given."""
    meaning: str = ""
    """What a newcomer should know to read its page, in a few sentences."""


def name_run(settings: Any) -> str:
    """Name the folder of a run for which none is given."""
    source = getattr(getattr(settings, "membership", None), "source", "none")
    return f"{settings.preset}-{settings.objective.kind if source == 'none' else source}-seed{settings.seed}"


def keep_settings(settings: S, _flags: Any = None) -> S:
    """Return the settings: the default of a domain that changes nothing."""
    return settings


def load_nothing() -> NoReturn:
    """Raise: the default of a domain that cannot be trained."""
    raise ValueError("nobody said how to train runs of this domain: hand over its Domain record to `main`")


@dataclass(frozen=True)
class PublishedTable:
    """A table of the paper, shown below ours."""

    caption: str
    rows: Mapping[str, Mapping[str, float]]
    """The numbers of each row, by the key of their metric."""


@dataclass(frozen=True)
class Domain:
    """One kind of data to learn from; a run's settings.json names its domain."""

    name: str
    extra: str
    """The extra of the package that brings its libraries."""
    unit: str
    """What speed is counted in, such as images; metrics.jsonl then logs images_per_second."""
    presets: Mapping[str, Preset[Any]]
    results: tuple[Metric, ...]
    """Columns of the results, in their order."""
    mains: tuple[Metric, ...]
    """The metrics that count most; a comparison uses the first of them that any of its runs has."""
    read_settings: Callable[[dict[str, Any]], Any] = keep_settings
    """Makes settings from settings.json, also from those of earlier versions."""
    load: Callable[[], Work] = load_nothing
    """Imports torch, and returns the functions that train and evaluate."""
    flags: type | None = None
    """A dataclass of flags of `debiased train` that are no settings."""
    settle: Callable[[Any, Any], Any] = keep_settings
    """Makes the settings that the run keeps from settings and these flags."""
    move: Callable[[Any, Path], Any] | None = None
    """Changes the place of the data in the settings; None where there are no data."""
    name_run: Callable[[Any], str] = name_run
    evaluate_flags: frozenset[str] = field(default_factory=frozenset)
    """Flags of `debiased evaluate` that its runs take."""
    embeds: str | None = None
    """The flag of `debiased embed` that names a source for its runs."""
    demo: Callable[[], Demo] | None = None
    cost: Callable[[Any], tuple[str, str, str, str]] = lambda _settings: ("?", "-", "?", "?")
    """Samples, epochs, operations and time on a GPU of a preset, in words."""
    describe_data: Callable[[Content], str] = lambda _settings: ""
    """Describes the data of a run by its settings, as JSON holds them; empty where they do not say."""
    curves: tuple[Metric, ...] = (LOSS,)
    """What is plotted over training, by the keys of metrics.jsonl; the meaning is the caption."""
    has_classes: bool = True
    """Whether an unbiased run, which needs labels, is possible."""
    label_words: Mapping[str, str] = field(default_factory=dict)
    """Words for dotted settings of its own in the name of a row, {} being the value; a bare {} is tried first."""
    summary_words: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Dotted settings that the summary mentions: words for one value, and for several."""
    published: Callable[[Content], float | None] = lambda _settings: None
    """Finds the published number of the same objective on the same data."""
    describe_published: Callable[[Sequence[Content]], str] = lambda _all_settings: ""
    """Says what must be known to compare runs with their published numbers."""
    published_table: PublishedTable | None = None
    strips: tuple[str, str] = ("", "")
    """Heading and note of the report's section of picture strips, if the runs have any."""


def find_domain(domains: Iterable[Domain], name: str) -> Domain:
    """Return the domain of that name."""
    known = {domain.name: domain for domain in domains}
    if name not in known:
        raise ValueError(f"a run must be of one of the domains {', '.join(known)}; got {name!r}")
    return known[name]


def unknown_domain(name: str, evaluations: Iterable[Content]) -> Domain:
    """Make up a domain that nobody described: every number in the evaluations of its runs is a result.

    >>> [metric.heading for metric in unknown_domain("sound", [{"probe": {"top1": 0.7}, "words": 12}]).results]
    ['probe.top1', 'words']
    """
    places = dict.fromkeys(place for evaluation in evaluations for place in _places(evaluation))
    results = tuple(
        Metric(".".join(place), ".".join(place), "as its evaluation calls it", False, 3, place, quantity="result")
        for place in places
    )
    nothing = Metric("result", "Result", "what its evaluation finds", False, 3, quantity="result")
    mains = results or (nothing,)
    return Domain(name, "", "samples", {}, results, mains, describe_data=lambda _settings: name)


def _places(content: Content, *above: str) -> list[tuple[str, ...]]:
    """List the paths of keys to the numbers in nested content."""
    found = []
    for key, value in content.items():
        if isinstance(value, Mapping):
            found += _places(value, *above, key)
        elif finite_number(value) is not None:
            found.append((*above, key))
    return found
