"""What is knowledge about classes worth in training: share of the gap closed against what was known.

    python -m studies.membership --out results/membership
    python -m studies.membership --tables results/membership

Two data sets, each where biased training is done (studies.membership_length). All differences are paired by seed.
The environment variable DEBIASED_DATA names the folder of the images, of both sets.
"""

from argparse import Namespace
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any

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
from studies.membership_controls import train_with_classifier
from studies.membership_length import PROBES, Setting, probe, read_course

BASES = {"fashion": Setting("fashion", 16, 128, 0.2, 30), "cifar10": Setting("cifar10", 16, 128, 0.2, 60)}
"""Where biased training is done."""
TITLES = {"fashion": "Fashion-MNIST, 5,000 images", "cifar10": "CIFAR10, five classes, 5,000 images"}
LABELS = {
    "biased": "biased",
    "unbiased": "unbiased: all labels",
    "cross-entropy-0.1": "control: biased and cross-entropy, 10 % of the labels",
    "cross-entropy-0.02": "control: biased and cross-entropy, 2 % of the labels",
}
"""Names of the rows and what they are, in the order of the table."""


def make_jobs(flags: Namespace) -> Iterator[Job]:
    """All rows of both data sets for one seed, then for the next: those that carry claims first."""
    for seed, row, data in product(range(flags.seeds), LABELS, BASES):
        settings = replace(BASES[data].settings(), seed=seed)
        yield make_job(data, row, settings, flags.runs)


def make_job(data: str, row: str, settings: SimCLRSettings, runs: Path) -> Job:
    """The job of one row."""
    name = f"{data}/{row}-seed{settings.seed}"
    kind, _, number = row.rpartition("-")
    if kind == "cross-entropy":
        return Job(name, partial(measure_classifier, settings, float(number), runs / name))
    objective = replace(settings.objective, kind=row)  # type: ignore[arg-type]
    return Job(name, measure, replace(settings, objective=objective), "images")


def measure(settings: Any, run: Run, images: Any) -> dict[str, Any]:
    """The three probes at the end, and the accuracy of neighbours on the way."""
    del images
    return {"measures": probe(settings, run), "knn": read_course(run)}


def measure_classifier(settings: SimCLRSettings, share: float, folder: Path) -> dict[str, Any]:
    """The probes of the control with cross-entropy on a share of the labels."""
    return measure_control(settings, train_with_classifier(settings, share, folder), {"cross_entropy_on": share})


def measure_control(settings: SimCLRSettings, run: Run, told: dict[str, Any]) -> dict[str, Any]:
    """A result of a control, with what it was told beyond its settings."""
    return {
        "settings": settings_without_places(settings),
        "control": told,
        "measures": probe(settings, run),
        **{key: run.environment[key] for key in ("revision", "modified", "versions")},
    }


def markdown(folder: Path) -> str:
    """A table for each data set."""
    return "\n".join(f"{TITLES[data]}\n\n{_table(folder / data)}" for data in BASES if (folder / data).is_dir())


def _table(folder: Path) -> str:
    """Accuracies in percent, what they gain on biased seed by seed, and the share of the gap closed."""
    results = read_results(folder, "biased", "unbiased")
    found = {name: [read_percent(runs, key) for key in PROBES.values()] for name, runs in results.items()}
    lines = []
    for name in (name for name in LABELS if name in found):
        compared = list(zip(found["biased"], found[name], found["unbiased"], strict=True))
        lines.append([
            LABELS[name],
            *(mean_cell(list(accuracies.values())) for accuracies in found[name]),
            *(mean_cell(paired_differences(own, biased), "+") for biased, own, _ in compared),
            ", ".join(_share(*three) for three in compared),
            str(len(results[name])),
        ])  # fmt: skip
    gains = [f"{name} - biased" for name in PROBES]
    return markdown_table(["what is known", *PROBES, *gains, "gap closed", "seeds"], lines)


def _share(biased: dict[int, float], own: dict[int, float], unbiased: dict[int, float]) -> str:
    """The share of the gap that is closed, over the seeds that all three have."""
    seeds = biased.keys() & own.keys() & unbiased.keys()
    if not seeds:
        return "-"
    return f"{100 * gap_closed(*(fmean(part[seed] for seed in seeds) for part in (biased, own, unbiased))):.0f} %"


STUDY = Study(make_jobs, (markdown,), seeds=5)

if __name__ == "__main__":
    main("studies.membership")
