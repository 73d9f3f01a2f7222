"""What each floor does while a text is learnt by heart: how many pairs it stops training, how low the loss gets.

    python -m studies.sentence_floors --out results/sentence_floors
    python -m studies.sentence_floors --tables results/sentence_floors

The text is that of the package, so small that towers come to know it: the state in which large towers end on a
large one. Floors differ only there.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

from debiased_contrastive.objectives.checks import FloorName
from debiased_contrastive.report.numbers import markdown_table
from debiased_contrastive.reproduce.results import read_results
from debiased_contrastive.reproduce.runner import Job, grid
from debiased_contrastive.runs import Run
from debiased_contrastive.text.settings import TEXT_PRESETS, TextObjective
from studies.command import Study, main

FLOORS: tuple[FloorName, ...] = ("zero", "small", "relative", "biased")
"""The floors that are possible for raw products."""
LOGGED = ("step", "epoch", "loss", "biased_loss", "floored", "tau_cap_median")
EPOCHS = (5, 10, 20)
"""The epochs after which floors are compared."""


def make_jobs(seeds: int) -> Iterator[Job]:
    """The biased loss and every floor, with every seed."""
    preset = TEXT_PRESETS["quickthoughts-small"].settings
    base = replace(preset, training=replace(preset.training, epochs=20, log_every=15))
    objectives = {"biased": TextObjective("biased"), **{f"floor-{one}": TextObjective(floor=one) for one in FLOORS}}
    rows = {name: replace(base, objective=objective) for name, objective in objectives.items()}
    return grid(rows, seeds, "text", measure)


def measure(_settings: object, run: Run, _corpus: object) -> dict[str, Any]:
    """The curves."""
    return {"course": [{key: line[key] for key in LOGGED} for line in run.metrics()]}


def markdown(folder: Path) -> str:
    """Pairs on the floor, and the biased loss, after some epochs of learning a text by heart."""
    results, lines = read_results(folder, "biased"), []
    for name in sorted(results, key=lambda name: (name != "biased", name)):
        cells = []
        for epoch in EPOCHS:
            last = [_last_line(run["course"], epoch) for run in results[name].values()]
            cells.append(f"{100 * fmean(line['floored'] for line in last):.0f} %")
            cells.append(f"{fmean(line['biased_loss'] for line in last):.2f}")
        lines.append([name.replace("floor-", "floor "), *cells])
    columns = [f"{what}, epoch {epoch}" for epoch in EPOCHS for what in ("floored", "biased loss")]
    return markdown_table(["", *columns], lines)


def _last_line(curve: Sequence[Mapping[str, float]], epoch: int) -> Mapping[str, float]:
    """The last line up to the end of an epoch."""
    return [line for line in curve if line["epoch"] <= epoch][-1]


STUDY = Study(lambda flags: make_jobs(flags.seeds), (markdown,), seeds=3)

if __name__ == "__main__":
    main("studies.sentence_floors")
