"""What is knowledge about classes worth in training: share of the gap closed against what was known.

    python -m studies.membership --out results/membership
    python -m studies.membership --tables results/membership

Two data sets, each where biased training is done (studies.membership_length). All differences are paired by seed.
The environment variable DEBIASED_DATA names the folder of the images, of both sets.
"""

from argparse import Namespace
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any, Literal

import numpy as np

from debiased_contrastive.images.membership import ImageMembership
from debiased_contrastive.images.settings import SimCLRSettings
from debiased_contrastive.report.numbers import gap_closed, markdown_table, mean_cell, paired_differences
from debiased_contrastive.reproduce.runner import (
    Job,
    Study,
    main,
    read_percent,
    read_results,
    settings_without_places,
)
from debiased_contrastive.runs import Run
from studies.membership_controls import train_regression, train_with_classifier
from studies.membership_length import PROBES, Setting, probe, read_course
from studies.membership_sources import make_patches, worth_before, write_groups

BASES = {"fashion": Setting("fashion", 16, 128, 0.2, 60), "cifar10": Setting("cifar10", 16, 128, 0.2, 120)}
"""Where biased training is done."""
TITLES = {"fashion": "Fashion-MNIST, 5,000 images", "cifar10": "CIFAR10, five classes, 5,000 images"}


@dataclass(frozen=True)
class Row:
    """What is known in one row, and by which way it enters the training."""

    label: str
    """What it is, for the table."""
    kind: Literal["biased", "unbiased", "debiased"] = "debiased"
    known: dict[str, Any] = field(default_factory=dict)
    """Settings of its membership."""
    groups: float | str = ""
    """Groups that a file is written with: the share of right labels, or how else they are made."""
    cross_entropy: float = 0.0
    """Share of the labels that a classifier beside the loss reads."""
    regression: bool = False
    epochs: int = 1
    """Length, as a multiple of the usual one."""
    twin: str = ""
    """The row that has all but the knowledge."""


_CLASSIFIER: dict[str, Any] = {"source": "classifier"}
_WALK: dict[str, Any] = {"source": "guide", "form": "walk", "strength": 4.0}
_ATTRACTION: dict[str, Any] = {"attraction": 0.2}
ROWS = {
    "biased": Row("biased", "biased"),
    "unbiased": Row("unbiased: all labels", "unbiased"),
    "classifier-10": Row("10 % of the labels", known=_CLASSIFIER),
    "classifier-10-attraction": Row(
        "10 % of the labels, attraction", known=_CLASSIFIER | _ATTRACTION, twin="random-groups"
    ),
    "random-groups": Row(
        "control: random groups, attraction",
        known={"source": "groups", "warm_up": 10} | _ATTRACTION,
        groups="random",
    ),
    "guide-walk-attraction": Row("guide, walk, attraction", known=_WALK | _ATTRACTION, twin="random-graph"),
    "random-graph": Row("control: random graph, attraction", known=_WALK | _ATTRACTION | {"form": "random"}),
    "guide-walk": Row("guide, walk", known=_WALK),
    "guide-consensus": Row("guide, consensus", known={"source": "guide", "strength": 2.0}),
    "classifier-2": Row("2 % of the labels", known=_CLASSIFIER | {"known": 0.02}),
    "classifier-2-attraction": Row(
        "2 % of the labels, attraction", known=_CLASSIFIER | {"known": 0.02} | _ATTRACTION, twin="random-groups"
    ),
    "groups-85": Row("groups, 85 % right", known={"source": "groups"}, groups=0.85),
    "groups-70": Row("groups, 70 % right", known={"source": "groups"}, groups=0.7),
    "own": Row("own features, consensus", known={"source": "own"}),
    "cross-entropy-10": Row("control: biased and cross-entropy, 10 % of the labels", "biased", cross_entropy=0.1),
    "cross-entropy-2": Row("control: biased and cross-entropy, 2 % of the labels", "biased", cross_entropy=0.02),
    "regression": Row("control: regression on the guide alone", "biased", regression=True),
    "guide-clusters": Row("guide, one hard clustering", known={"source": "groups"}, groups="clusters"),
    "biased-twice": Row("control: biased, twice as long", "biased", epochs=2),
    "labels-100": Row("check: all labels as membership", known={"source": "labels", "known": 1.0}),
}
"""In the order in which they are run: those that carry claims, and their controls, first."""


def make_jobs(flags: Namespace) -> Iterator[Job]:
    """All rows of both data sets for one seed, then for the next."""
    for seed, row, data in product(range(flags.seeds), ROWS, flags.data):
        settings = replace(BASES[data].settings(), seed=seed)
        yield make_job(f"{data}/{row}-seed{seed}", ROWS[row], settings, flags.runs)


def make_job(name: str, row: Row, settings: SimCLRSettings, runs: Path) -> Job:
    """The job of one row."""
    # Three measurements on the way: more of them would take as long as a part of the training.
    epochs = row.epochs * settings.training.epochs
    training = replace(settings.training, epochs=epochs, knn_every=max(1, epochs // 3))
    settings = replace(settings, objective=replace(settings.objective, kind=row.kind), training=training)
    if row.cross_entropy or row.regression:
        return Job(name, partial(measure_control, settings, row, runs / name))
    if row.groups:
        return Job(name, partial(measure_groups, name, row, settings, runs))
    return Job(name, measure, _with_knowledge(settings, row), "images")


def _with_knowledge(settings: SimCLRSettings, row: Row, file: Path | None = None) -> SimCLRSettings:
    if not row.known:
        return settings
    refresh = 10 if row.known["source"] in ("classifier", "own") else 20
    told = {"num_classes": len(settings.data.classes) or 10, "refresh": refresh, "file": file, **row.known}
    return replace(settings, membership=ImageMembership(**told))


def measure_groups(name: str, row: Row, settings: SimCLRSettings, runs: Path) -> dict[str, Any]:
    """Write the groups, train with them and measure; what the file holds is a function of the seed."""
    file = write_groups(runs / f"{name}.npy", settings, row.groups)
    content: dict[str, Any] = Job(name, measure, _with_knowledge(settings, row, file), "images").make(runs)
    content["settings"]["membership"]["file"] = None
    return {"groups": row.groups, **content}


def measure(settings: Any, run: Run, images: Any) -> dict[str, Any]:
    """The three probes, neighbours on the way, and what the knowledge was worth before and on the way."""
    found: dict[str, Any] = {"measures": probe(settings, run), "knn": read_course(run)}
    if settings.membership.source == "none":
        return found
    lines = [line for line in run.metrics() if "force_share" in line]
    worth = [{key: line[key] for key in ("step", "force_share", "membership_accuracy")} for line in lines]
    before = worth_before(settings, images, run.folder.with_name(f"biased-seed{settings.seed}"))
    return {**found, "worth": worth, "worth_before": before}


def measure_control(settings: SimCLRSettings, row: Row, folder: Path) -> dict[str, Any]:
    """The probes of a control that the package does not train itself."""
    if row.regression:
        run = train_regression(settings, make_patches(settings), folder)
    else:
        run = train_with_classifier(settings, row.cross_entropy, folder)
    return {
        "settings": settings_without_places(settings),
        "control": {"cross_entropy": row.cross_entropy, "regression": row.regression},
        "measures": probe(settings, run),
        **{key: run.environment[key] for key in ("revision", "modified", "versions")},
    }


def markdown(folder: Path) -> str:
    """A table for each data set."""
    return "\n".join(f"{TITLES[data]}\n\n{_table(folder / data)}" for data in BASES if (folder / data).is_dir())


def _table(folder: Path) -> str:
    """Accuracies in percent, gains on biased and on the twin seed by seed, and the share of the gap closed."""
    results = read_results(folder, "biased", "unbiased")
    found = {name: [read_percent(runs, key) for key in PROBES.values()] for name, runs in results.items()}
    lines = []
    for name in (name for name in ROWS if name in found):
        compared = list(zip(found["biased"], found[name], found["unbiased"], strict=True))
        twin = found.get(ROWS[name].twin, [{}] * len(PROBES))
        lines.append([
            ROWS[name].label,
            *(mean_cell(list(accuracies.values())) for accuracies in found[name]),
            *(mean_cell(paired_differences(own, biased), "+") for biased, own, _ in compared),
            " / ".join(_share(*three) for three in compared),
            " / ".join(mean_cell(paired_differences(*two), "+") for two in zip(found[name], twin, strict=True))
            if ROWS[name].twin
            else "",
            str(len(results[name])),
        ])  # fmt: skip
    gains = [f"{name} - biased" for name in PROBES]
    return markdown_table(["what is known", *PROBES, *gains, "gap closed", "above its control", "seeds"], lines)


def _share(biased: dict[int, float], own: dict[int, float], unbiased: dict[int, float]) -> str:
    share = _closed(biased, own, unbiased)
    return "-" if share is None else f"{100 * share:.0f} %"


def _closed(biased: dict[int, float], own: dict[int, float], unbiased: dict[int, float]) -> float | None:
    """The share of the gap that is closed, over the seeds that all three have; None where there are none."""
    seeds = biased.keys() & own.keys() & unbiased.keys()
    return gap_closed(*(fmean(part[seed] for seed in seeds) for part in (biased, own, unbiased))) if seeds else None


def force_markdown(folder: Path) -> str:
    """For each data set: force share of the sources before any training with them, and what training closed."""
    parts = (f"{TITLES[data]}\n\n{_force_table(folder / data)}" for data in BASES if (folder / data).is_dir())
    return "\n".join(parts)


def _force_table(folder: Path) -> str:
    results = read_results(folder, "biased", "unbiased")
    # The force share is that of the weights, so rows with attraction have no place here.
    names = [
        name for name in ROWS if name in results and ROWS[name].known and not ROWS[name].known.get("attraction")
    ]
    lines, points = [], []
    for name in names:
        runs = results[name].values()
        before = [run["worth_before"]["force_share"] for run in runs]
        after = [run["worth"][-1]["force_share"] for run in runs]
        closed = [
            _closed(*(read_percent(results[row], key) for row in ("biased", name, "unbiased")))
            for key in PROBES.values()
        ]
        points.append([fmean(before), *closed])
        shown = ["-" if share is None else f"{100 * share:.0f} %" for share in closed]
        lines.append([ROWS[name].label, f"{fmean(before):.2f}", f"{fmean(after):.2f}", *shown, str(len(before))])
    head = ["source", "force share before", "at the end", *(f"gap closed, {name}" for name in PROBES), "seeds"]
    columns = np.array([point for point in points if None not in point], float).T
    if columns.size == 0 or columns.shape[1] < 3:
        return markdown_table(head, lines)
    found = ", ".join(
        f"{np.corrcoef(columns[0], one)[0, 1]:.2f} {name}" for name, one in zip(PROBES, columns[1:], strict=True)
    )
    return (
        markdown_table(head, lines)
        + f"\nCorrelation of force share and gap closed over {columns.shape[1]} sources: {found}.\n"
    )


_DATA = {"nargs": "+", "choices": list(BASES), "default": list(BASES), "help": "The data sets; both by default."}
STUDY = Study(make_jobs, (markdown, force_markdown), flags={"data": _DATA}, seeds=5)

if __name__ == "__main__":
    main("studies.membership")
