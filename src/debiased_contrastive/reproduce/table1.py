"""Table 1: contrastive multiview coding, biased and debiased, by what happens at the floor.

`--data DIR` holds `train` and `val`, with a folder for each class. What order does to a bank takes fewer epochs:
`--rows biased epochs --epochs 10 --seeds 1`, in another `--out`.
"""

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Any

from debiased_contrastive.images.presets import CMC_PRESETS
from debiased_contrastive.images.settings import CMCSettings
from debiased_contrastive.paper import published_number
from debiased_contrastive.report.numbers import markdown_table, mean_cell, paired_differences
from debiased_contrastive.reproduce.item import Claim, Item, Request, Scale
from debiased_contrastive.reproduce.results import (
    cells_by_part,
    curve_points,
    read_measures,
    read_percent,
    read_results,
    shorten,
)
from debiased_contrastive.reproduce.runner import Job, grid
from debiased_contrastive.reproduce.simclr_rows import percent
from debiased_contrastive.runs import Run

SMALL, PAPER_SETTING = CMC_PRESETS["cmc-small"].settings, CMC_PRESETS["cmc-imagenet100"].settings
SMOKE = replace(
    SMALL,
    data=replace(SMALL.data, folder_size=16),
    views=replace(SMALL.views, size=16),
    encoder=replace(SMALL.encoder, width=4, out_dim=8),
    objective=replace(SMALL.objective, bank_negatives=20),
    training=replace(SMALL.training, epochs=2, batch=24, log_every=1),
)
SCALES: dict[Any, Scale] = {
    "smoke": Scale("96 coloured images of Fashion-MNIST, 2 epochs", "5 s", SMOKE, seeds=1),
    "small": Scale(
        "a folder of images, small encoders, 30 epochs", "8 min on a core for 12,500 images", SMALL,
        data="--data DIR with train and val, such as 100 classes of Tiny ImageNet",
    ),
    "paper": Scale(
        "ImageNet-100, two ResNet-50 of half width, 240 epochs", "half a day on a GPU at 10 TFLOP/s", PAPER_SETTING,
        data="--data DIR with train and val of ImageNet-100",
    ),
}  # fmt: skip
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


def make_jobs(base: Any, seeds: int, *, official: bool = False) -> Iterator[Job]:
    """Every row with every seed."""
    rows = {name: replace(base, objective=replace(base.objective, **change)) for name, (_, change) in ROWS.items()}
    rows["epochs"] = replace(rows["epochs"], data=replace(base.data, order="epochs"))
    return grid(rows, seeds, "images", partial(measure, official=official))


def measure(_settings: Any, run: Run, _images: object, *, official: bool = False) -> dict[str, Any]:
    """The evaluation and the curves."""
    from debiased_contrastive.images.evaluate import evaluate

    evaluate(run, official=official, draw_map=False)
    curve = shorten(list(run.metrics()), LOGGED, CURVE_LINES)
    return {"measures": read_measures(run), "course": curve}


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
            lines.append([f"{label}: {key}", *cells_by_part(results[name], key, 5, form)])
    return markdown_table(["", *(f"{20 * k} %" for k in range(1, 6))], lines)


def thirds_markdown(folder: Path) -> str:
    """The loss of biased training by the third of an epoch, in the second half; empty without the row epochs."""
    results, lines = read_results(folder, "biased"), []
    for name in ("biased", "epochs") if "epochs" in results else ():
        thirds: list[list[float]] = [[], [], []]
        for run in results[name].values():
            epochs = run["settings"]["training"]["epochs"]
            epoch = run["course"][-1]["step"] / epochs
            for step, loss in curve_points(run["course"], "loss"):
                if 2 * step > epochs * epoch:
                    thirds[int(3 * ((step - 1) % epoch) / epoch)].append(loss)
        lines.append(
            [ROWS[name][0], *(f"{fmean(third or [math.nan]):.2f}" for third in thirds), str(len(results[name]))]
        )
    return markdown_table(["", "first third", "second", "last", "seeds"], lines) if lines else ""


def measure_stand_ins(settings: CMCSettings) -> dict[str, Any]:
    """The same of images that are made of those in the package, and thrown away with the run."""
    from debiased_contrastive.reproduce.smoke_data import write_coloured_images

    with TemporaryDirectory() as folder:
        own = with_images(settings, write_coloured_images(Path(folder) / "images"))
        content: dict[str, Any] = Job("run", measure, own, "images").make(Path(folder))
    return content


def with_images(settings: CMCSettings, images: Path) -> CMCSettings:
    """The settings on a folder that holds train and val."""
    images = images.resolve()
    return replace(settings, data=replace(settings.data, root=images / "train", test_root=images / "val"))


def _jobs(request: Request) -> Iterator[Job]:
    base = SCALES[request.scale].settings
    if request.epochs is not None:
        base = replace(base, training=replace(base.training, epochs=request.epochs))
    if request.scale == "smoke":
        for job in make_jobs(base, request.seeds):
            yield replace(job, domain="", measure=partial(measure_stand_ins, job.settings))
        return
    yield from make_jobs(base if request.data is None else with_images(base, request.data), request.seeds)


def _check(request: Request) -> None:
    if request.scale != "smoke" and request.data is None:
        raise ValueError("table1 needs --data DIR, a folder with train and val that hold a folder for each class")


ITEM = Item(
    "table1",
    "Table 1: multiview coding with memory banks (ImageNet-100)",
    SCALES,
    _jobs,
    (markdown, floors_markdown, thirds_markdown),
    (
        Claim(
            "Debiasing with tau_plus 0.01, biased below the floor, beats the biased loss",
            "tau-0.01-biased", "biased", percent("linear_top1"),
        ),
    ),
    note="Levels of other images than ImageNet-100 do not compare with the paper's; differences may.",
    check=_check,
    folders={"small": "cmc"},
)  # fmt: skip
