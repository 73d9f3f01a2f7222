"""Figure 4c: more positives, beside biased training that costs as much or has as many views in its numerator.

The paper compares M = 1 to 8 with 50 % more epochs of the biased loss. More views are more computation and more
positives, whatever the correction: two further rows have the one and the other without it.
"""

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from statistics import fmean

from debiased_contrastive.images.settings import SimCLRSettings
from debiased_contrastive.report.numbers import mean_and_interval
from debiased_contrastive.reproduce.item import Claim, Item, Request, with_request
from debiased_contrastive.reproduce.results import Seeds, read_percent, read_results
from debiased_contrastive.reproduce.runner import Job, grid
from debiased_contrastive.reproduce.simclr_rows import LEGEND, SCALES, measure, percent, probe_table, with_objective

POSITIVES = (1, 2, 4, 8)
LONGER, CHOSEN = 1.5, 4
"""The paper's longer baseline; the M whose computation another one has."""
LABELS = {
    "biased": "biased",
    "biased-longer": "biased, 50 % longer",
    "biased-compute": f"biased, as costly as M = {CHOSEN}",
    **{f"biased-views-{m}": f"biased, {m + 1} views as positives" for m in POSITIVES[1:]},
    **{f"M-{m}": f"debiased, M = {m}" for m in POSITIVES},
    "unbiased": "unbiased, all labels",
}
TWINS = {f"M-{m}": f"biased-views-{m}" for m in POSITIVES[1:]}
"""Rows with the same views, which differ in the correction alone."""


def make_rows(base: SimCLRSettings) -> dict[str, SimCLRSettings]:
    """All rows, those that decide first."""
    biased, debiased = partial(with_objective, base, kind="biased"), partial(with_objective, base, kind="debiased")
    rows = {
        "biased": biased(),
        f"M-{CHOSEN}": debiased(num_positives=CHOSEN),
        f"biased-views-{CHOSEN}": biased(num_positives=CHOSEN),
        "biased-longer": biased(epochs=LONGER),
        "biased-compute": biased(epochs=(CHOSEN + 1) / 2),
        "unbiased": with_objective(base, kind="unbiased"),
    }
    for m in POSITIVES:
        rows |= {f"M-{m}": debiased(num_positives=m)}
        rows |= {f"biased-views-{m}": biased(num_positives=m)} if m > 1 else {}
    return rows


def make_jobs(request: Request) -> Iterator[Job]:
    base = with_request(SCALES[request.scale].settings, request)
    return grid(make_rows(base), request.seeds, "images", measure)


def markdown(folder: Path) -> str:
    """The probes; the twin of a debiased row has the same views without the correction."""
    return probe_table(folder, LABELS, twins=TWINS)


def plot(folder: Path) -> Mapping[str, str]:
    """Linear accuracy against M, as the paper draws it, with the baselines as lines across."""
    from debiased_contrastive.report.plots import BIASED, DEBIASED, OTHER, UNBIASED, axes, own_style, svg_file

    results = read_results(folder)
    with own_style():
        ax = axes(6.4, 3.6)
        for prefix, label, colour in (
            ("M-", "debiased", DEBIASED[0]),
            ("biased-views-", "biased, M + 1 views", OTHER),
        ):
            found = {m: values for m in POSITIVES if (values := _linear(results, f"{prefix}{m}"))}
            means, widths = zip(*map(mean_and_interval, found.values()), strict=True) if found else ((), ())
            ax.errorbar(list(found), means, widths, color=colour, marker="o", capsize=3, label=label)
        for name, colour, dash in (
            ("biased", BIASED, "-"), ("biased-longer", BIASED, "--"), ("biased-compute", BIASED, ":"),
            ("unbiased", UNBIASED, "-"),
        ):  # fmt: skip
            if values := _linear(results, name):
                ax.axhline(fmean(values), color=colour, linestyle=dash, label=LABELS[name])
        ax.set(xlabel="M", ylabel="linear accuracy, %", xticks=POSITIVES)
        ax.legend(frameon=False)
        return {"figure4c": svg_file(ax, "figure4c")}


def _linear(results: Mapping[str, Seeds], name: str) -> list[float]:
    return list(read_percent(results.get(name, {}), "linear_top1").values())


ITEM = Item(
    "figure4c",
    "Figure 4c: more positives in the correction (CIFAR10)",
    SCALES,
    make_jobs,
    (markdown,),
    (
        Claim(f"M = {CHOSEN} beats the biased loss", f"M-{CHOSEN}", "biased", percent("linear_top1")),
        Claim(
            f"M = {CHOSEN} beats 50 % more biased epochs", f"M-{CHOSEN}", "biased-longer", percent("linear_top1")
        ),
        Claim(
            "The gain is the correction's, not that of more views in the numerator",
            f"M-{CHOSEN}",
            f"biased-views-{CHOSEN}",
            percent("linear_top1"),
            is_published=False,
        ),
        Claim(
            f"M = {CHOSEN} beats biased training of equal cost",
            f"M-{CHOSEN}",
            "biased-compute",
            percent("linear_top1"),
            is_published=False,
        ),
    ),
    plot,
    note="The paper shows this figure without numbers. A twin has the same views without the correction."
    f"\n{LEGEND}",
)
