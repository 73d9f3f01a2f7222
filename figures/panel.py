"""What a figure shows, as plain data: rows with intervals, lines, or points; and how each of them is drawn."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from debiased_contrastive.report.numbers import mean_and_interval
from debiased_contrastive.report.plots import BIASED, DEBIASED, FAINT, INK, OTHER, PAPER, UNBIASED

COLOURS = {
    "biased": BIASED,
    "unbiased": UNBIASED,
    "other": OTHER,
    **{f"debiased{place}": colour for place, colour in enumerate(DEBIASED)},
}
"""Colours by what they mean, the same in every figure and in the report of a run."""


@dataclass(frozen=True)
class Row:
    """A mean with the ends of its interval, None for a single number."""

    label: str
    value: float
    ends: tuple[float, float] | None
    colour: str


@dataclass(frozen=True)
class Line:
    """One curve."""

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    colour: str
    dashed: bool = False


@dataclass(frozen=True)
class Point:
    """One labelled point."""

    label: str
    x: float
    y: float
    colour: str


@dataclass(frozen=True)
class Panel:
    """One pair of axes: what it shows, and lines that mark a value."""

    what: tuple[Row, ...] | tuple[Line, ...] | tuple[Point, ...]
    x: str
    y: str = ""
    title: str = ""
    marks: tuple[tuple[str, float], ...] = ()
    log: tuple[Literal["x", "y"], ...] = ()


def row(label: str, values: Sequence[float], colour: str) -> Row:
    """The mean of values over seeds, with its 95 % interval."""
    mean, half_width = mean_and_interval(values)
    return Row(label, mean, (mean - half_width, mean + half_width) if len(values) > 1 else None, colour)


def draw(ax: Axes, panel: Panel) -> None:
    """Draw one panel."""
    first = panel.what[0]
    for side in panel.log:
        getattr(ax, f"set_{side}scale")("log")
        axis = getattr(ax, f"{side}axis")
        axis.set_major_locator(LogLocator(10))
        axis.set_minor_locator(NullLocator())
        axis.set_major_formatter(FuncFormatter(lambda value, _place: f"{value:,g}"))
    if isinstance(first, Row):
        _draw_rows(ax, panel)
    else:
        for one in panel.what:
            if isinstance(one, Line):
                _draw_line(ax, one)
            elif isinstance(one, Point):
                _draw_point(ax, one, below=_hides(panel, one))
        for label, value in panel.marks:
            ax.axhline(value, color=INK, linewidth=0.8, linestyle=(0, (4, 3)))
            ax.annotate(label, (1, value), (-2, 3), xycoords=("axes fraction", "data"), ha="right",
                        textcoords="offset points", fontsize=8.5)  # fmt: skip
        if isinstance(first, Point):
            ax.grid(visible=True, axis="x")
            ax.margins(x=0.3, y=0.14)
        elif "x" not in panel.log:
            ax.xaxis.set_major_locator(MaxNLocator(5))
    ax.set(xlabel=panel.x, ylabel=panel.y)
    if panel.title:
        ax.set_title(panel.title, fontsize=10, loc="left")


def _draw_rows(ax: Axes, panel: Panel) -> None:
    for place, one in enumerate(panel.what):
        assert isinstance(one, Row)
        colour = COLOURS[one.colour]
        if one.ends is not None:
            ax.plot(one.ends, [place] * 2, color=colour, linewidth=2.2)
        ax.plot([one.value], [place], "o", color=colour, markersize=7, mec=PAPER, mew=1.2)
    for label, value in panel.marks:
        ax.axvline(value, color=INK, linewidth=0.8, linestyle=(0, (4, 3)))
        # Above the first row, on the side of the line that has more room.
        side = "right" if value > sum(ax.get_xlim()) / 2 else "left"
        ax.annotate(label, (value, -0.95), (-3 if side == "right" else 3, 0), textcoords="offset points",
                    fontsize=8.5, ha=side, va="top")  # fmt: skip
    ax.set_yticks(range(len(panel.what)), [one.label for one in panel.what])
    ax.set_ylim(len(panel.what) - 0.4, -1.0 if panel.marks else -0.6)
    ax.axvline(0, color=FAINT, linewidth=1.2, zorder=0)
    # A dot at the end of the axis would be cut in half.
    ax.margins(x=0.06)
    ax.grid(visible=True, axis="x")
    ax.grid(visible=False, axis="y")


def _draw_line(ax: Axes, line: Line) -> None:
    style: dict[str, Any] = {"linestyle": (0, (5, 2))} if line.dashed else {}
    marker = "o" if len(line.x) < 12 else ""
    ax.plot(line.x, line.y, color=COLOURS[line.colour], linewidth=1.8, marker=marker, markersize=4.5,
            label=line.label, **style)  # fmt: skip


def _hides(panel: Panel, point: Point) -> bool:
    """Whether the label of a point, to its upper right, would lie on that of a point a little higher."""
    points = [one for one in panel.what if isinstance(one, Point)]
    width = max(one.x for one in points) - min(one.x for one in points)
    height = max(one.y for one in points) - min(one.y for one in points)
    return any(
        one is not point and abs(one.x - point.x) < 0.3 * width and 0 <= one.y - point.y < 0.05 * height
        for one in points
    )


def _draw_point(ax: Axes, point: Point, *, below: bool) -> None:
    ax.plot([point.x], [point.y], "o", color=COLOURS[point.colour], markersize=7, mec=PAPER, mew=1)
    place = (6, -11) if below else (6, 4)
    ax.annotate(point.label, (point.x, point.y), place, textcoords="offset points", fontsize=8)
