"""How much of the gap between the biased and the unbiased loss each correction closes, with labels and without.

    python -m studies.gap --out results/cifar10_small
    python -m studies.gap --tables results/cifar10_small

The environment variable DEBIASED_DATA names the folder of the images. Figures 2 and 4 of the paper are items of
`debiased reproduce`.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

from debiased_contrastive.images.presets import PRESETS
from debiased_contrastive.images.settings import SimCLRObjective
from debiased_contrastive.report.numbers import gap_closed, markdown_table, mean_cell, paired_differences
from debiased_contrastive.reproduce.results import read_percent, read_results
from debiased_contrastive.reproduce.runner import Job, grid
from debiased_contrastive.reproduce.simclr_rows import measure
from studies.command import Study, main

LABELS = {
    "biased": "biased",
    "tau": "debiased, M = 1, tau_plus {}",
    "auto": "debiased, M = 1, tau_plus auto",
    "views": "debiased, M = {} views",
    "labels": "debiased, positives by {:.0%} of the labels",
    "unbiased": "unbiased, all labels",
}
"""Labels of the rows by the first word of their names; the number after it goes into the braces."""
PROBES = {"linear": "linear_top1", "kNN": "knn", "mean classifier": "mean_classifier"}


def make_jobs(base: Any, seeds: int) -> Iterator[Job]:
    """Jobs for priors up to the true one of the settings, more views, and positives by some or all labels."""
    true = base.objective.tau_plus
    debiased = SimCLRObjective("debiased", tau_plus=true)
    objectives = {
        "biased": SimCLRObjective("biased"),
        "unbiased": SimCLRObjective("unbiased"),
        **{f"tau-{tau}": replace(debiased, tau_plus=tau) for tau in (true / 4, true / 2, true)},
        "auto": replace(debiased, auto=True),
        **{f"labels-{known}": replace(debiased, known_labels=known) for known in (1.0, 0.1, 0.01)},
        **{f"views-{m}": replace(debiased, num_positives=m) for m in (2, 4)},
    }
    rows = {name: replace(base, objective=objective) for name, objective in objectives.items()}
    return grid(rows, seeds, "images", measure)


def markdown(folder: Path) -> str:
    """One row for each objective: accuracies in percent, what they gain on biased seed by seed, the gap closed."""
    results = read_results(folder, "biased", "unbiased")
    found = {name: [read_percent(runs, key) for key in PROBES.values()] for name, runs in results.items()}
    lines = []
    for name in sorted(results, key=lambda name: _read_name(name)[:2]):
        compared = list(zip(found["biased"], found[name], found["unbiased"], strict=True))[:2]
        shares = [gap_closed(*(fmean(accuracies.values()) for accuracies in three)) for three in compared]
        lines.append([
            _read_name(name)[2],
            *(mean_cell(list(accuracies.values())) for accuracies in found[name]),
            *(mean_cell(paired_differences(own, biased), "+") for biased, own, _ in compared),
            ", ".join(f"{100 * share:.0f} %" for share in shares),
            f"{fmean(read_percent(results[name], 'floored').values()):.1f} %",
            f"{fmean(run['measures']['tau_effective'] for run in results[name].values()):.3f}",
            str(len(results[name])),
        ])  # fmt: skip
    gains = ["linear - biased", "kNN - biased", "gap closed: linear, kNN"]
    return markdown_table(["objective", *PROBES, *gains, "floored", "tau_eff", "seeds"], lines)


def _read_name(name: str) -> tuple[int, float, str]:
    """The place of a row in the table, in two numbers, and its label."""
    kind, _, number = name.partition("-")
    label = LABELS[kind].format(float(number) if kind == "labels" else number)
    return list(LABELS).index(kind), float(number or 0), label


STUDY = Study(
    jobs=lambda flags: make_jobs(PRESETS["cifar10-small"].settings, flags.seeds), tables=(markdown,), seeds=3
)

if __name__ == "__main__":
    main("studies.gap")
