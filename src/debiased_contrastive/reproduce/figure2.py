"""Figure 2: what sampling bias costs, by the biased, debiased and unbiased loss over training (CIFAR10)."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from statistics import fmean

from debiased_contrastive.images.settings import SimCLRSettings
from debiased_contrastive.reproduce.item import Claim, Item, Request, with_request
from debiased_contrastive.reproduce.results import read_results
from debiased_contrastive.reproduce.runner import Job, grid
from debiased_contrastive.reproduce.simclr_rows import (
    LEGEND,
    SMALL,
    measure_with_map,
    percent,
    probe_table,
    scales_from,
    with_objective,
)

WIDE = replace(SMALL, encoder=replace(SMALL.encoder, width=32))
"""Wider than the other small runs: the gap between biased and unbiased grows with what an encoder can learn."""
SCALES = scales_from(
    WIDE, "five classes of CIFAR10, 5,000 images, width 32, batch 128, 60 epochs", "5 min on a core"
)
LABELS = {"biased": "biased", "debiased": "debiased, M = 1, the class prior", "unbiased": "unbiased, all labels"}


def make_rows(base: SimCLRSettings) -> dict[str, SimCLRSettings]:
    return {kind: with_objective(base, kind=kind) for kind in LABELS}


def make_jobs(request: Request) -> Iterator[Job]:
    base = with_request(SCALES[request.scale].settings, request)
    return grid(make_rows(base), request.seeds, "images", measure_with_map)


def markdown(folder: Path) -> str:
    return probe_table(folder, LABELS)


def plot(folder: Path) -> Mapping[str, str]:
    """kNN accuracy over training: means over seeds, with bands from the smallest to the largest."""
    from debiased_contrastive.report.plots import BIASED, DEBIASED, UNBIASED, axes, own_style, svg_file

    results = read_results(folder)
    with own_style():
        ax = axes(6.4, 3.6)
        for name, colour in (("biased", BIASED), ("debiased", DEBIASED[0]), ("unbiased", UNBIASED)):
            if not (runs := results.get(name)):
                continue
            curves = [{int(step): 100 * value for step, value in run["knn"].items()} for run in runs.values()]
            steps = sorted(set.intersection(*map(set, curves)))
            at = [[curve[step] for curve in curves] for step in steps]
            ax.fill_between(steps, list(map(min, at)), list(map(max, at)), color=colour, alpha=0.16, linewidth=0)
            ax.plot(steps, list(map(fmean, at)), color=colour, label=LABELS[name])
        ax.set(xlabel="step", ylabel="kNN accuracy, %")
        ax.legend(frameon=False)
        return {"figure2": svg_file(ax, "figure2")}


ITEM = Item(
    "figure2",
    "Figure 2: sampling bias costs accuracy (CIFAR10)",
    SCALES,
    make_jobs,
    (markdown,),
    (
        Claim("Unbiased negatives beat the biased loss", "unbiased", "biased", percent("linear_top1")),
        Claim("The debiased loss beats the biased one", "debiased", "biased", percent("linear_top1")),
    ),
    plot,
    note=f"The paper shows this figure without numbers.\n{LEGEND}",
)
