"""The pictures of a report: accuracies with intervals, curves over training, embeddings in the plane."""

from collections.abc import Sequence
from textwrap import shorten

from matplotlib.ticker import MaxNLocator, PercentFormatter

from debiased_contrastive.report.curve import Axis, Curve
from debiased_contrastive.report.drawing import FAINT, INK, PAPER, axes, inline_svg, own_style
from debiased_contrastive.report.measure import values
from debiased_contrastive.report.palette import Stroke, class_look
from debiased_contrastive.report.record import Cloud
from debiased_contrastive.report.table import Row

WIDTH = 4.8
"""Inches. Narrow, since letters of a wide figure are too small on a phone."""
LONGEST = 56
"""Letters of a name for which that width has room; the table beside has the whole name."""
MOST_MARKS = 4000
"""A picture of more points is smaller as pixels than as shapes."""


def interval_plot(name: str, rows: Sequence[Row], strokes: Sequence[Stroke]) -> tuple[str, bool]:
    """Numbers of one unit: seeds as ticks, mean with its 95 % interval; and whether the paper's are in it."""
    published = _near(rows)
    with own_style():
        ax = axes(WIDTH, 0.5 + 0.46 * len(rows))
        for place, (row, stroke) in enumerate(zip(rows, strokes, strict=True)):
            low, mean, high = _ends(row)
            if low < high:
                found = [one.get(row.main.key) for one in map(values, row.group.records)]
                seeds = [row.main.scale * value for value in found if value is not None]
                ax.plot([low, high], [place] * 2, color=stroke.colour, linewidth=2)
                ax.plot(seeds, [place] * len(seeds), "|", color=stroke.colour, markersize=9, mew=1.1)
            ax.plot([mean], [place], "o", color=stroke.colour, markersize=7.5, mec=PAPER, mew=1.2)
            if published and row.paper is not None:
                ax.plot([row.paper], [place], "D", mfc="none", mec=INK, markersize=5.5)
            title = ax.annotate(
                shorten(row.label, LONGEST, placeholder="…"),
                (0, place),
                (0, 7),
                xycoords=("axes fraction", "data"),
                textcoords="offset points",
            )
            # A name over a line must not move the axes.
            title.set_in_layout(False)
        ax.set(ylim=(len(rows) - 0.6, -0.75), yticks=[], xlabel=_heading(rows, " (%)"))
        ax.grid(visible=True, axis="x")
        ax.grid(visible=False, axis="y")
        ax.margins(x=0.08)
        return inline_svg(ax, name, _spoken(rows)), published


def curve_plot(
    curves: Sequence[tuple[str, Curve, Stroke]], *, name: str, heading: str, axis: Axis, percent: bool
) -> str:
    """One logged number over training: a line per row, and a band from the smallest to the largest seed."""
    with own_style():
        ax = axes(WIDTH, 3.0)
        scale = 100 if percent else 1
        for _, course, stroke in curves:
            low, mean, high = ([scale * value for value in part] for part in (course.low, course.mean, course.high))
            ax.fill_between(course.x, low, high, color=stroke.colour, alpha=0.16, linewidth=0)
            marker = "o" if len(course.x) == 1 else ""
            (line,) = ax.plot(course.x, mean, color=stroke.colour, linewidth=1.7, marker=marker)
            if stroke.dash:
                line.set_dashes(stroke.dash)
        ax.set(xlabel=axis)
        ax.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        if not any(value for _, course, _ in curves for value in course.high):
            # Nothing throughout: around it there would be numbers below nothing.
            ax.set_ylim(0, 1)
        if percent:
            ax.yaxis.set_major_formatter(PercentFormatter(decimals=None, symbol=" %"))
        ends = "; ".join(f"{label} {scale * course.mean[-1]:.4g}" for label, course, _ in curves)
        return inline_svg(ax, name, f"{heading} by {axis}. At the end: {ends}.")


def cloud_plot(cloud: Cloud, *, name: str, label: str) -> str:
    """The embeddings of one run in the plane, coloured by class."""
    with own_style():
        ax = axes(3.4, 3.4)
        looks = [class_look(one) for one in cloud.labels]
        raster = len(cloud.points) > MOST_MARKS
        for marker in dict.fromkeys(marker for _, marker, _ in looks):
            chosen = [i for i, look in enumerate(looks) if look[1] == marker]
            x, y = ([cloud.points[i][side] for i in chosen] for side in (0, 1))
            colours = [looks[i][0] for i in chosen]
            ax.scatter(x, y, s=9, c=colours, marker=marker, linewidths=0, alpha=0.8, rasterized=raster)
        ax.set(xticks=[], yticks=[], aspect="equal", adjustable="datalim")
        ax.grid(visible=False)
        ax.spines[:].set(visible=True, color=FAINT)
        classes = len(set(cloud.labels))
        return inline_svg(ax, name, f"t-SNE of {len(cloud.points)} embeddings of {classes} classes: {label}.")


def _ends(row: Row) -> tuple[float, float, float]:
    """The interval and its middle as they are shown; a single seed is all three."""
    mean, half_width, n = row.measures[row.main.key]
    width = half_width if n > 1 else 0.0
    low, middle, high = (row.main.scale * value for value in (mean - width, mean, mean + width))
    return low, middle, high


def _near(rows: Sequence[Row]) -> bool:
    """Whether the published numbers are so near that ours stay readable beside them."""
    ours = [end for row in rows for end in _ends(row)]
    theirs = [row.paper for row in rows if row.paper is not None]
    span = max(ours) - min(ours)
    return bool(theirs) and max(*ours, *theirs) - min(*ours, *theirs) <= 2.5 * span


def _spoken(rows: Sequence[Row]) -> str:
    unit = " %" if rows[0].main.percent else ""
    said = "; ".join(
        f"{row.label} {row.main.scale * row.measures[row.main.key].mean:.{row.main.decimals}f}{unit}"
        for row in rows
    )
    return f"{_heading(rows)}: {said}.".capitalize()


def _heading(rows: Sequence[Row], unit: str = "") -> str:
    """What the numbers are, and of which kind where it is one kind."""
    if not rows[0].main.percent:
        return rows[0].main.heading.lower()
    headings = {row.main.heading for row in rows}
    return f"{headings.pop().lower() if len(headings) == 1 else ''} accuracy{unit}".strip()
