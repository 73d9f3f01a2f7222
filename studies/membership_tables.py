"""Tables and figures of the study of memberships."""

import math
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from debiased_contrastive.report.numbers import (
    gap_closed,
    markdown_table,
    mean_and_interval,
    mean_cell,
    paired_differences,
)
from debiased_contrastive.report.plots import DEBIASED, INK, WIDTH, axes, own_style, svg_file
from debiased_contrastive.reproduce.results import read_percent, read_results
from studies.membership_length import PROBES
from studies.membership_rows import BASES, ROWS, TITLES

WORTH = {"force share": "force_share", "repulsion removed": "repulsion_removed"}
"""What is measured before training with a source."""


def markdown(folder: Path) -> str:
    """A table for each data set."""
    return "\n".join(f"{TITLES[data]}\n\n{_table(folder / data)}" for data in BASES if (folder / data).is_dir())


def _table(folder: Path) -> str:
    """Accuracies in percent, gains on biased and on the twin seed by seed, and the share of the gap closed."""
    results = read_results(folder, "biased", "unbiased")
    names = [name for name in ROWS if name in results]
    found = {name: [read_percent(results[name], key) for key in PROBES.values()] for name in names}
    lines = []
    for name in names:
        compared = list(zip(found["biased"], found[name], found["unbiased"], strict=True))
        lines.append([
            ROWS[name].label,
            *(mean_cell(list(accuracies.values())) for accuracies in found[name]),
            *(mean_cell(paired_differences(own, biased), "+") for biased, own, _ in compared),
            " / ".join(_share(*three) for three in compared),
            *(_above(found[name], found.get(other)) for other in (ROWS[name].twin, ROWS[name].rival)),
            str(len(results[name])),
        ])  # fmt: skip
    gains = [f"{name} - biased" for name in PROBES]
    return markdown_table(
        ["what is known", *PROBES, *gains, "gap closed", "- random twin", "- plainer use", "seeds"], lines
    )


def _above(own: list[dict[int, float]], others: list[dict[int, float]] | None) -> str:
    """Differences to another row in all probes, empty where there is no such row."""
    pairs = zip(own, others or [], strict=others is not None)
    return " / ".join(mean_cell(paired_differences(*two), "+") for two in pairs)


def _share(biased: dict[int, float], own: dict[int, float], unbiased: dict[int, float]) -> str:
    share = _closed(biased, own, unbiased)
    return "-" if share is None else f"{100 * share:.0f} %"


def _closed(biased: dict[int, float], own: dict[int, float], unbiased: dict[int, float]) -> float | None:
    """The share of the gap that is closed, over the seeds that all three have; None where there are none."""
    seeds = biased.keys() & own.keys() & unbiased.keys()
    return gap_closed(*(fmean(part[seed] for seed in seeds) for part in (biased, own, unbiased))) if seeds else None


def force_markdown(folder: Path) -> str:
    """For each data set: what the sources are worth before any training with them, and what training closed."""
    parts = (f"{TITLES[data]}\n\n{_force_table(folder / data)}" for data in BASES if (folder / data).is_dir())
    return "\n".join(parts)


def plot(folder: Path) -> dict[str, str]:
    """For each data set, the share of the gap that each row closes; the interval is that of its paired gains."""
    return {f"gap-{data}": _bars(folder / data, TITLES[data]) for data in BASES if (folder / data).is_dir()}


def _bars(folder: Path, title: str) -> str:
    results = read_results(folder, "biased", "unbiased")
    names = [name for name in reversed(ROWS) if name in results and name not in ("biased", "unbiased")]
    with own_style():
        ax = axes(1.8 * WIDTH, 1.5 + 0.34 * len(names))
        for number, (probe, key) in enumerate(list(PROBES.items())[1:]):
            biased, unbiased = (read_percent(results[name], key) for name in ("biased", "unbiased"))
            shares, widths = [], []
            for name in names:
                own = read_percent(results[name], key)
                gain, width = mean_and_interval(paired_differences(own, biased))
                # The gap of the same seeds, as in the table.
                gap = fmean(unbiased[seed] - biased[seed] for seed in own.keys() & unbiased.keys() & biased.keys())
                shares.append(100 * gain / gap)
                widths.append(0.0 if math.isnan(width) else 100 * width / gap)
            places = [place + 0.17 - 0.34 * number for place in range(len(names))]
            look: dict[str, Any] = {
                "color": DEBIASED[number],
                "label": probe,
                "error_kw": {"ecolor": INK, "elinewidth": 0.8},
            }
            ax.barh(places, shares, 0.32, xerr=widths, **look)
        for place, word, side in ((0, "biased ", "right"), (100, " unbiased", "left")):
            ax.axvline(place, color=INK, linewidth=0.8)
            ax.text(place, -0.62, word, ha=side, va="top")
        ax.set_yticks(range(len(names)), [ROWS[name].label for name in names])
        ax.grid(visible=True, axis="x")
        ax.grid(visible=False, axis="y")
        ax.set_ylim(-1.1, len(names) - 0.4)
        ax.set_title(title)
        ax.set_xlabel("share of the gap that is closed, %")
        # Above the bars, which may be anywhere.
        ax.figure.legend(loc="outside upper right", ncols=2, frameon=False)
        return svg_file(ax, title)


def _force_table(folder: Path) -> str:
    results = read_results(folder, "biased", "unbiased")
    before = [run["before"] for run in results.get("before", {}).values()]
    names = [name for name in ROWS if name in results and before and name in before[0]]
    lines, points = [], []
    for name in names:
        worth = [fmean(one[name][key] for one in before) for key in WORTH.values()]
        closed = [
            _closed(*(read_percent(results[row], key) for row in ("biased", name, "unbiased")))
            for key in PROBES.values()
        ]
        points.append([*worth, *closed])
        shown = ["-" if share is None else f"{100 * share:.0f} %" for share in closed]
        lines.append([ROWS[name].label, *(f"{one:.2f}" for one in worth), *shown, str(len(results[name]))])
    table = markdown_table(["source", *WORTH, *(f"gap closed, {name}" for name in PROBES), "seeds"], lines)
    columns = np.array([point for point in points if None not in point], float).T
    if not columns.size or columns.shape[1] < 3:
        return table
    sentences = []
    for word, own in zip(WORTH, columns, strict=False):
        found = (np.corrcoef(own, closed)[0, 1] for closed in columns[len(WORTH) :])
        shown = [f"{one:.2f} {name}" for name, one in zip(PROBES, found, strict=True)]
        sentences.append(
            f"Correlation of {word} and gap closed over {columns.shape[1]} sources: {', '.join(shown)}."
        )
    return table + "\n" + "\n".join(sentences) + "\n"
