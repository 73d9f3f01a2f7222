"""A figure or table of the paper, or one of its open questions: rows, scales, claims, and how it is shown."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

from debiased_contrastive.files import write_atomically
from debiased_contrastive.report.numbers import align_tables, count, mean_and_interval, paired_differences
from debiased_contrastive.reproduce.results import Seeds, read_results
from debiased_contrastive.reproduce.runner import Job

ScaleName: TypeAlias = Literal["smoke", "small", "paper"]
ENOUGH_SEEDS = 5
"""Number of seeds below which there is no verdict."""
NO_VERDICT = "No verdict: runs of this scale only show that the code works.\n"
_VERDICTS = {True: ("reproduced", "not reproduced", "contradicted"), False: ("yes", "no answer", "no")}
"""Words for an interval above 0, around it and below it: for a claim of the paper, and for a question of ours."""


@dataclass(frozen=True)
class Scale:
    """How large the runs are."""

    what: str
    """Data, encoder and length in words."""
    cost: str
    """What a run takes."""
    settings: Any
    """Settings to start from."""
    seeds: int = ENOUGH_SEEDS
    data: str = ""
    """What must be there; empty where the data are in the package."""


@dataclass(frozen=True)
class Request:
    """What is asked for: flags of the command that change what is run."""

    scale: ScaleName
    seeds: int
    epochs: int | None = None
    """Length of the runs, instead of the scale's."""
    data: Path | None = None
    task_data: Path | None = None
    task: str | None = None
    frames: int | None = None


@dataclass(frozen=True)
class Claim:
    """That one row is better than another."""

    words: str
    """What it says, as the beginning of a sentence."""
    own: str
    other: str
    value: Callable[[Mapping[str, Any]], float | None]
    """The number of a result that decides, None where it has none."""
    what: str = "linear accuracy"
    unit: str = " points"
    is_published: bool = True
    """Whether the paper claims it; else it is a question that the paper leaves open."""

    def differences(self, results: Mapping[str, Seeds]) -> list[float]:
        """Of runs with the same seed."""
        own, other = (
            {seed: value for seed, run in results.get(name, {}).items() if (value := self.value(run)) is not None}
            for name in (self.own, self.other)
        )
        return paired_differences(own, other)

    def judge(self, results: Mapping[str, Seeds]) -> str:
        """One sentence: the verdict, and the figure that decides."""
        found = self.differences(results)
        if not found:
            return f"{self.words}: no verdict yet, {self.own} and {self.other} have no runs of the same seed."
        mean, half_width = mean_and_interval(found)
        interval = f" ± {half_width:.1f}" if len(found) > 1 else ""
        figure = f"{self.what} differs by {mean:+.1f}{interval}{self.unit} over {count(len(found), 'seed')}"
        if len(found) < ENOUGH_SEEDS:
            return f"{self.words}: no verdict before {ENOUGH_SEEDS} seeds; so far {figure}."
        above, around, below = _VERDICTS[self.is_published]
        verdict = above if mean - half_width > 0 else below if mean + half_width < 0 else around
        return f"{self.words}: {verdict} at this scale; {figure}."


@dataclass(frozen=True)
class Item:
    """A figure or table of the paper, or one of its open questions."""

    name: str
    title: str
    """What it shows."""
    scales: Mapping[ScaleName, Scale]
    jobs: Callable[[Request], Iterable[Job]]
    tables: Sequence[Callable[[Path], str]]
    """From a folder of results to Markdown, empty where there is nothing to show."""
    claims: tuple[Claim, ...]
    """The first of them decides; further ones explain it."""
    plot: Callable[[Path], Mapping[str, str]] = lambda _folder: {}
    """From a folder of results to drawings by their names."""
    check: Callable[[Request], None] = lambda _request: None
    """Raises where something is missing that training alone would not miss."""
    note: str = ""
    """What a reader of the table must know: what the paper states in numbers, and what it does not."""
    folders: Mapping[str, str] = field(default_factory=dict)
    """Folders of results that have other names than the item, by scale."""

    def folder(self, out: Path, scale: str) -> Path:
        """Where its results of a scale are."""
        return out / self.folders.get(scale, f"{self.name}-{scale}")

    def parts(self, folder: Path) -> list[Path]:
        """The folders that make a table each: that of the results, or those in it."""
        if any(folder.glob("*-seed*.json")):
            return [folder]
        return [part for part in sorted(folder.glob("*")) if part.is_dir() and any(part.glob("*-seed*.json"))]

    def text(self, part: Path, scale: ScaleName, what: str) -> str:
        """The tables and sentences of the results in a folder.

        Args:
            part: The folder.
            scale: How large the runs are.
            what: The same in words: data, encoder and length.
        """
        try:
            tables = [align_tables(table) for make in self.tables if (table := make(part))]
            verdicts = NO_VERDICT if scale == "smoke" else self.judge(read_results(part))
        except KeyError as error:
            raise ValueError(f"a result in {part} has no {error}: remove it to make it anew") from error
        is_whole = part.name == self.folder(Path(), scale).name
        heading = self.title if is_whole else f"{self.title}: {part.name}"
        notes = [f"{self.note}\n"] if self.note else []
        return "\n".join([f"{heading}\n--scale {scale}: {what}\n", *tables, *notes, verdicts])

    def write(self, part: Path, text: str) -> None:
        """Write them, and the drawings, beside the results."""
        write_atomically(part / f"{self.name}.md", text)
        for name, picture in self.plot(part).items():
            write_atomically(part / f"{name}.svg", picture)

    def judge(self, results: Mapping[str, Seeds]) -> str:
        """A line for each claim; a further one whose rows were not run has nothing to say."""
        told = (claim for place, claim in enumerate(self.claims) if not place or claim.differences(results))
        return "".join(f"{claim.judge(results)}\n" for claim in told)


def with_request(settings: Any, request: Request) -> Any:
    """The settings with the length and the place of the data that were asked for."""
    if request.epochs is not None:
        settings = replace(settings, training=replace(settings.training, epochs=request.epochs))
    if request.data is not None:
        settings = replace(settings, data=replace(settings.data, root=request.data.resolve()))
    return settings
