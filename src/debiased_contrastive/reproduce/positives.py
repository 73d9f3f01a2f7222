"""How positives are drawn: crops and colours of the views, and what they do to the gap and to its correction.

The correction takes views for samples of the class. The nearer views are to their anchor, the smaller the tau_plus
that would be right (tau_eff), and the more anchors the class prior puts on the floor.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from statistics import fmean

from debiased_contrastive.images.settings import SimCLRSettings
from debiased_contrastive.report.numbers import markdown_table, mean_cell, paired_differences
from debiased_contrastive.reproduce.item import Claim, Item, Request, with_request
from debiased_contrastive.reproduce.results import read_percent, read_results
from debiased_contrastive.reproduce.runner import Job, grid
from debiased_contrastive.reproduce.simclr_rows import SCALES, measure, percent, with_objective

SMALLEST = (0.08, 0.2, 0.5)
"""Smallest areas of a crop, as shares of the image's; 0.08 is the paper's."""
COLOURS = {"colour": "on", "plain": "off"}
"""Changes of colour, grey and blur: as in the paper, and none."""
KINDS = ("biased", "debiased", "unbiased")


def make_rows(base: SimCLRSettings) -> dict[str, SimCLRSettings]:
    """Every objective with every way to draw views."""
    rows = {}
    for smallest, colour, kind in product(SMALLEST, COLOURS, KINDS):
        views = replace(base.views, scale=(smallest, 1.0))
        if colour == "plain":
            views = replace(views, jitter_probability=0.0, grayscale_probability=0.0, blur_probability=0.0)
        rows[f"crop{smallest}-{colour}-{kind}"] = with_objective(replace(base, views=views), kind=kind)
    return rows


def make_jobs(request: Request) -> Iterator[Job]:
    base = with_request(SCALES[request.scale].settings, request)
    return grid(make_rows(base), request.seeds, "images", measure)


def markdown(folder: Path) -> str:
    """One row for each way: the biased accuracy, the gap, the gain of M = 1, and what explains it."""
    results, lines = read_results(folder), []
    for smallest, colour in product(SMALLEST, COLOURS):
        biased, debiased, unbiased = (results.get(f"crop{smallest}-{colour}-{kind}", {}) for kind in KINDS)
        if not biased:
            continue
        differences = [
            mean_cell(paired_differences(*(read_percent(runs, key) for runs in (own, biased))), "+")
            for key in ("linear_top1", "few_shot_10")
            for own in (unbiased, debiased)
        ]
        tau = fmean(run["measures"]["tau_effective"] for run in biased.values())
        floored = list(read_percent(debiased, "floored").values())
        lines.append([
            f"from {smallest}",
            COLOURS[colour],
            mean_cell(list(read_percent(biased, "linear_top1").values())),
            *differences,
            f"{tau:.3f}",
            f"{fmean(floored):.1f} %" if floored else "-",
            str(len(biased)),
        ])  # fmt: skip
    gains = ["gap, linear", "gain, linear", "gap, 10 labels", "gain, 10 labels"]
    return markdown_table(
        ["crops", "colours", "biased, linear", *gains, "tau_eff", "floored", "seeds"], lines, "ll"
    )


ITEM = Item(
    "positives",
    "How positives are drawn: crops and colours",
    SCALES,
    make_jobs,
    (markdown,),
    (
        Claim(
            "With the paper's views, M = 1 and the class prior beat the biased loss",
            "crop0.08-colour-debiased", "crop0.08-colour-biased", percent("linear_top1"), is_published=False,
        ),
        Claim(
            "With plain crops from half of the image, M = 1 and the class prior beat the biased loss",
            "crop0.5-plain-debiased", "crop0.5-plain-biased", percent("linear_top1"), is_published=False,
        ),
    ),
    note="gap: unbiased - biased; gain: debiased - biased, both in points; tau_eff is of the biased runs.",
)  # fmt: skip
