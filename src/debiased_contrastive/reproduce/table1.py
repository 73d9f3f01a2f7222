"""Table 1: contrastive multiview coding, biased and debiased, by what happens at the floor.

    python -m debiased_contrastive.reproduce table1 --images DIR --out results/cmc
    python -m debiased_contrastive.reproduce table1 --tables results/cmc

DIR holds `train` and `val`, with a folder for each class. What order does to a bank takes fewer epochs:
`--rows biased epochs --epochs 10 --seeds 1 --out results/cmc_order`.
"""

import math
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from statistics import fmean
from typing import Any

from debiased_contrastive.images.evaluate import evaluate
from debiased_contrastive.images.settings import PRESETS
from debiased_contrastive.images.sources import read_probe_images
from debiased_contrastive.paper import published_number
from debiased_contrastive.report.numbers import markdown_table, mean_cell, paired_differences
from debiased_contrastive.reproduce import runner
from debiased_contrastive.reproduce.runner import Job, Study, grid, read_percent, read_results
from debiased_contrastive.runs import Run

SCALES = {"small": PRESETS["cmc-small"].settings, "paper": PRESETS["cmc-imagenet100"].settings}
TAU_PLUS = (0.005, 0.01)
RULES = {"clamp": "clamped", "biased": "biased loss below", "smooth": "smooth", "cap_tau": "capped tau_plus"}
"""What happens at the floor."""
ROWS: dict[str, tuple[str, dict[str, Any]]] = {
    "biased": ("biased", {"kind": "biased"}),
    **{
        f"tau-{tau}-{rule}": (f"tau_plus {tau}, {what}", {"kind": "debiased", "tau_plus": tau, "on_floor": rule})
        for tau in TAU_PLUS
        for rule, what in RULES.items()
    },
    # Told the prior of a hundred classes.
    "auto": ("tau_plus auto", {"kind": "debiased", "tau_plus": 0.01, "auto": True}),
    "epochs": ("biased, each image once in an epoch", {"kind": "biased"}),
}
"""Labels, and the changes to the objective of a preset; the last row also changes the order of the images."""
PAPER = {"biased": ("biased", 0.0), **{f"tau-{tau}-biased": ("debiased", tau) for tau in TAU_PLUS}}
"""Objective and tau_plus of the rows that the paper has: below the floor it took the biased loss."""
LOGGED = ("step", "loss", "floored", "tau_plus", "tau_cap_median", "tau_cap_low", "images_per_second")
CURVE_LINES = 100
"""Number of lines of a curve in a result: three in an epoch."""
_read_images = lru_cache(maxsize=1)(read_probe_images)
"""Reads the images once, since they are the same in every run."""


def make_jobs(base: Any, seeds: int, *, official: bool = False) -> Iterator[Job]:
    """Every row with every seed."""
    rows = {name: replace(base, objective=replace(base.objective, **change)) for name, (_, change) in ROWS.items()}
    rows["epochs"] = replace(rows["epochs"], data=replace(base.data, order="epochs"))
    return grid(rows, seeds, "images", partial(measure, official=official))


def measure(settings: Any, run: Run, _images: object, *, official: bool) -> dict[str, Any]:
    """The evaluation and the curves."""
    evaluate(run, official=official, images=_read_images(settings.data))
    curve = runner.shorten(list(run.metrics()), LOGGED, CURVE_LINES)
    return {"measures": runner.read_measures(run), "course": curve}


def markdown(folder: Path) -> str:
    """One row for each objective: accuracies in percent, gains on biased seed by seed, and the paper's."""
    results = read_results(folder, "biased")
    biased, lines = read_percent(results["biased"], "linear_top1"), []
    for name in filter(results.__contains__, ROWS):
        found = [read_percent(results[name], key) for key in ("linear_top1", "linear_top5", "knn")]
        gains = "" if name == "biased" else mean_cell(paired_differences(found[0], biased), "+")
        cells = [mean_cell(list(accuracies.values())) for accuracies in found]
        paper = [_published(name, key) for key in ("top1", "top5")]
        lines.append([ROWS[name][0], *cells, gains, *paper, str(len(found[0]))])
    theirs = ["ImageNet-100 in the paper: top-1", "top-5"]
    return markdown_table(["objective", "top-1", "top-5", "kNN", "top-1 - biased", *theirs, "seeds"], lines)


def _published(name: str, measure: str) -> str:
    objective, tau_plus = PAPER.get(name, ("", 0.0))
    value = published_number("imagenet100", objective, tau_plus=tau_plus, measure=measure)
    return "" if value is None else f"{value:.2f}"


def floors_markdown(folder: Path) -> str:
    """By fifths of a run: the largest safe tau_plus in biased training, and the share of anchors on the floor."""
    results, lines = read_results(folder, "biased"), []
    for name in filter(results.__contains__, ROWS):
        label, change = ROWS[name]
        for key in ("tau_cap_median", "tau_cap_low") if change["kind"] == "biased" else ("floored",):
            form = "{:.1%}" if key == "floored" else "{:.3f}"
            lines.append([f"{label}: {key}", *runner.cells_by_part(results[name], key, 5, form)])
    return markdown_table(["", *(f"{20 * k} %" for k in range(1, 6))], lines)


def thirds_markdown(folder: Path) -> str:
    """The loss of biased training by the third of an epoch, in the second half; empty without the row epochs."""
    results, lines = read_results(folder, "biased"), []
    for name in ("biased", "epochs") if "epochs" in results else ():
        thirds: list[list[float]] = [[], [], []]
        for run in results[name].values():
            epochs = run["settings"]["training"]["epochs"]
            epoch = run["course"][-1]["step"] / epochs
            for step, loss in runner.curve_points(run["course"], "loss"):
                if 2 * step > epochs * epoch:
                    thirds[int(3 * ((step - 1) % epoch) / epoch)].append(loss)
        lines.append(
            [ROWS[name][0], *(f"{fmean(third or [math.nan]):.2f}" for third in thirds), str(len(results[name]))]
        )
    return markdown_table(["", "first third", "second", "last", "seeds"], lines) if lines else ""


def _jobs(flags: Namespace) -> Iterator[Job]:
    base, images = SCALES[flags.scale], flags.images.resolve()
    data = replace(base.data, root=images / "train", test_root=images / "val")
    training = base.training if flags.epochs is None else replace(base.training, epochs=flags.epochs)
    return make_jobs(replace(base, data=data, training=training), flags.seeds, official=flags.official)


STUDY = Study(
    jobs=_jobs,
    tables=(markdown, floors_markdown, thirds_markdown),
    scales=SCALES,
    seeds=3,
    flags={
        "images": {"type": Path, "required": True, "help": "A folder with train and val."},
        "epochs": {"type": int, "help": "Number of epochs, instead of the scale's."},
        "official": {"action": "store_true", "help": "Evaluate with the probe of the released code, too."},
    },
)
