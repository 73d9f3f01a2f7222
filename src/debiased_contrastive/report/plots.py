"""Plots by matplotlib as SVG, the same bytes each time: intervals, curves over training, embeddings."""

import io
import math
import re
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from html import escape
from statistics import fmean
from textwrap import shorten
from typing import Any, Literal, NamedTuple, TypeAlias

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from debiased_contrastive.domain import Metric, finite_number
from debiased_contrastive.report.groups import Row, is_cost_clear
from debiased_contrastive.report.records import Cloud, Record

INK, FAINT, PAPER = "#1a1b1c", "#d7d8d9", "#fcfdfe"
"""Stand-ins, replaced by variables of the page, so that figures follow it into the dark."""
VARIABLES = {INK: "var(--ink)", FAINT: "var(--line)", PAPER: "var(--paper)"}

STYLE: dict[Any, Any] = {
    **dict.fromkeys(("axes.labelcolor", "text.color", "xtick.labelcolor", "ytick.labelcolor"), INK),
    **dict.fromkeys(("axes.edgecolor", "grid.color", "xtick.color"), FAINT),
    **dict.fromkeys(("axes.spines.left", "axes.spines.right", "axes.spines.top", "ytick.left"), False),
    **dict.fromkeys(("axes.labelsize", "font.size"), 9.5),
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.linewidth": 0.7,
    "svg.fonttype": "none",
    # A dollar sign in the name of a preset does not begin a formula.
    "text.parse_math": False,
}

CLASSES = (
    "#3f90da", "#ffa90e", "#bd1f01", "#94a4a2", "#832db6", "#a96b59", "#e76300", "#b9ac70", "#717581", "#92dadd",
)  # fmt: skip
"""Petroff's sequence of ten (2021), which people with any colour vision can tell apart."""
SHAPES = (("o", "●"), ("s", "■"), ("^", "▲"), ("D", "◆"))
"""After ten classes the colours start again in another shape: the name for drawing, the letter for legends."""

BIASED, UNBIASED, OTHER = "#d55e00", "#009e73", "#7f7f7f"
DEBIASED = ("#0072b2", "#56b4e9", "#cc79a7", "#8a63b8")
"""These and the three above are from Okabe and Ito (2008), but for grey and the last."""
DASHES = ((), (5, 2), (1.5, 1.5), (7, 2, 1.5, 2))
"""Lengths of line and gap, in line widths; none is a solid line."""

WIDTH = 4.8
"""Inches. Narrow, since letters of a wide figure are too small on a phone."""
LABEL_LETTERS = 66
"""Longest label for which that width has room; the table has the whole label."""
MAX_MARKS = 4000
"""Above so many points a picture is smaller as pixels than as shapes."""
MAX_POINTS = 200
"""Above so many points a curve is thinned: a picture has too few pixels for more."""

TimeAxis: TypeAlias = Literal["epoch", "step"]


class Stroke(NamedTuple):
    """How the line of a row looks."""

    colour: str
    dash: tuple[float, ...]


class ClassMark(NamedTuple):
    """How a class looks: in a figure, and as a letter in its legend."""

    colour: str
    marker: str
    letter: str


class Curve(NamedTuple):
    """One logged number of one row over time: the mean over seeds, between the smallest and the largest."""

    x: tuple[float, ...]
    mean: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]


def strokes(rows: Sequence[Row]) -> tuple[Stroke, ...]:
    """One look per row: the colour says which kind it is, repeated colours get other dashes."""
    counts: Counter[str] = Counter()
    result = []
    for row in rows:
        colours = {"biased": (BIASED,), "unbiased": (UNBIASED,), "debiased": DEBIASED}.get(row.kind, (OTHER,))
        repeat, colour = divmod(counts[row.kind], len(colours))
        result.append(Stroke(colours[colour], DASHES[repeat % len(DASHES)]))
        counts[row.kind] += 1
    return tuple(result)


def class_mark(label: int) -> ClassMark:
    """The look of a class, by its number."""
    return ClassMark(CLASSES[label % len(CLASSES)], *SHAPES[label // len(CLASSES) % len(SHAPES)])


@contextmanager
def own_style() -> Iterator[None]:
    """Our look alone, whatever the reader's own matplotlibrc says."""
    with matplotlib.rc_context(), warnings.catch_warnings():
        # The browser has the letters that the font used for measuring lacks.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        # Without room for both labels and axes the figure is as good as it can be.
        warnings.filterwarnings("ignore", message="constrained_layout not applied")
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(STYLE)
        yield


def axes(width: float, height: float) -> Axes:
    """Empty axes that fill a figure of that many inches."""
    return Figure(figsize=(width, height), layout="constrained").add_subplot()


def svg_file(ax: Axes, name: str) -> str:
    """The figure of these axes as a file of its own."""
    figure = ax.figure
    assert isinstance(figure, Figure)
    buffer = io.StringIO()
    matplotlib.rcParams["svg.hashsalt"] = name
    figure.savefig(buffer, format="svg", metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
    return buffer.getvalue()


def inline_svg(ax: Axes, name: str, description: str) -> str:
    """The figure of these axes as an element of a page, with its colours of text and grid left to the page.

    The name, unique on the page, keeps ids apart.
    """
    ax.figure.patch.set_visible(False)
    ax.patch.set_visible(False)
    document = svg_file(ax, name)
    svg = document[document.index("<svg") :].strip()
    svg = re.sub(r"<defs>\s*<style.*?</style>\s*</defs>", "", svg, count=1, flags=re.S)
    used = set(re.findall(r'(?:href="#|url\(#)([^")]+)', svg))
    # Other figures of the page have a figure_1, too.
    svg = re.sub(r' id="([^"]+)"', lambda match: match[0] if match[1] in used else "", svg)
    svg = re.sub(r"font-family: [^;\"<]+;? ?", "", svg)
    for stand_in, variable in VARIABLES.items():
        svg = svg.replace(stand_in, variable)
    view = re.search(r'viewBox="[^"]+"', svg)
    assert view is not None
    label = escape(description)
    head = f'<svg {view[0]} role="img" aria-label="{label}" xmlns:xlink="http://www.w3.org/1999/xlink">'
    return head + svg[svg.index(">") + 1 :]


def plot_intervals(name: str, rows: Sequence[Row], looks: Sequence[Stroke]) -> tuple[str, str]:
    """Numbers of one quantity: seeds as ticks, mean with its 95 % interval; and in words what is in it."""
    has_paper, cost = _is_paper_near(rows), _find_cost(rows)
    with own_style():
        ax = axes(WIDTH, 0.5 + 0.46 * len(rows))
        if cost is not None:
            ax.axvspan(*cost, color=FAINT, alpha=0.45, linewidth=0, zorder=0)
        for place, (row, look) in enumerate(zip(rows, looks, strict=True)):
            low, mean, high = _ends(row)
            if low < high:
                seeds = [row.main.scale * value for value in row.by_seed(row.main.key).values()]
                ax.plot([low, high], [place] * 2, color=look.colour, linewidth=2)
                ax.plot(seeds, [place] * len(seeds), "|", color=look.colour, markersize=9, mew=1.1)
            ax.plot([mean], [place], "o", color=look.colour, markersize=7.5, mec=PAPER, mew=1.2)
            if has_paper and row.paper is not None:
                ax.plot([row.paper], [place], "D", mfc="none", mec=INK, markersize=5.5)
            title = ax.annotate(
                shorten(row.label, LABEL_LETTERS, placeholder="…"),
                (0, place),
                (0, 7),
                xycoords=("axes fraction", "data"),
                textcoords="offset points",
            )
            # A name over a line must not move the axes.
            title.set_in_layout(False)
        unit = " (%)" if rows[0].main.percent else ""
        ax.set(ylim=(len(rows) - 0.6, -0.75), yticks=[], xlabel=_heading(rows) + unit)
        ax.grid(visible=True, axis="x")
        ax.grid(visible=False, axis="y")
        ax.margins(x=0.08)
        several = any(row.measures[row.main.key].n > 1 for row in rows)
        parts = (
            ("Dots are means, ticks are seeds, lines are 95 % intervals of the mean.", several),
            ("Each dot is a single run, so small differences may be chance.", not several),
            ("The band, from biased to unbiased, is what sampling bias costs.", cost is not None),
            ("Open diamonds are the paper's numbers.", has_paper),
        )
        return inline_svg(ax, name, _describe(rows)), " ".join(words for words, is_there in parts if is_there)


def plot_curves(curves: Sequence[tuple[str, Curve, Stroke]], metric: Metric, axis: TimeAxis) -> str:
    """One logged number over training: a line per row, and a band from the smallest to the largest seed."""
    with own_style():
        ax = axes(WIDTH, 3.0)
        for _, curve, look in curves:
            low, mean, high = ([metric.scale * y for y in part] for part in (curve.low, curve.mean, curve.high))
            ax.fill_between(curve.x, low, high, color=look.colour, alpha=0.16, linewidth=0)
            marker = "o" if len(curve.x) == 1 else ""
            (line,) = ax.plot(curve.x, mean, color=look.colour, linewidth=1.7, marker=marker)
            if look.dash:
                line.set_dashes(look.dash)
        ax.set(xlabel=axis)
        ax.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        if not any(value for _, curve, _ in curves for value in curve.high):
            # All zero: matplotlib would centre the axis there and show negative numbers.
            ax.set_ylim(0, 1)
        if metric.percent:
            ax.yaxis.set_major_formatter(PercentFormatter(decimals=None, symbol=" %"))
        ends = "; ".join(f"{label} {metric.scale * curve.mean[-1]:.4g}" for label, curve, _ in curves)
        return inline_svg(ax, metric.key, f"{metric.heading} by {axis}. At the end: {ends}.")


def plot_cloud(cloud: Cloud, *, name: str, label: str) -> str:
    """The embeddings of one run in the plane, coloured by class."""
    with own_style():
        ax = axes(3.4, 3.4)
        _draw_cloud(ax, cloud)
        classes = len(set(cloud.labels))
        return inline_svg(ax, name, f"t-SNE of {len(cloud.points)} embeddings of {classes} classes: {label}.")


def _draw_cloud(ax: Axes, cloud: Cloud) -> None:
    marks = [class_mark(one) for one in cloud.labels]
    raster = len(cloud.points) > MAX_MARKS
    for marker in dict.fromkeys(mark.marker for mark in marks):
        chosen = [i for i, mark in enumerate(marks) if mark.marker == marker]
        x, y = ([cloud.points[i][side] for i in chosen] for side in (0, 1))
        colours = [marks[i].colour for i in chosen]
        ax.scatter(x, y, s=9, c=colours, marker=marker, linewidths=0, alpha=0.8, rasterized=raster)
    ax.set(xticks=[], yticks=[], aspect="equal", adjustable="datalim")
    ax.grid(visible=False)
    ax.spines[:].set(visible=True, color=FAINT)


def draw_clouds(clouds: Mapping[str, Cloud]) -> Axes:
    """Several clouds side by side in one figure, each below its label, with the classes named at the side."""
    figure = Figure(figsize=(3.4 * len(clouds), 3.6), layout="constrained")
    panels = figure.subplots(1, len(clouds), squeeze=False)[0]
    for ax, (label, cloud) in zip(panels, clouds.items(), strict=True):
        _draw_cloud(ax, cloud)
        ax.set_title(label)
    marks = [(class_mark(number), name) for number, name in enumerate(next(iter(clouds.values())).class_names)]
    for mark, name in marks:
        panels[-1].scatter([], [], s=20, color=mark.colour, marker=mark.marker, label=name)
    figure.legend(frameon=False, loc="outside right upper")
    last: Axes = panels[-1]
    return last


def time_axis(records: Iterable[Record], key: str) -> TimeAxis:
    """Epochs, which may be parts of one, where any run logged the key in more than a single one; else steps."""
    for record in records:
        lines = [line for line in record.metrics if finite_number(line.get(key)) is not None]
        epochs = [epoch for line in lines if (epoch := finite_number(line.get("epoch"))) is not None]
        if epochs and max(epochs) - min(epochs) >= 1:
            return "epoch"
    return "step"


def mean_curve(records: Sequence[Record], key: str, axis: TimeAxis) -> Curve | None:
    """The curve of one logged number, None where no run logged it; seeds that stopped early count until then."""
    curves = [curve for record in records if (curve := _logged_points(record, key, axis))]
    if not curves:
        return None
    places = sorted({place for curve in curves for place, _ in curve})
    width = (places[-1] - places[0]) / MAX_POINTS if len(places) > MAX_POINTS else 0.0
    thinned = [_thin(curve, places[0], width) for curve in curves]
    places = sorted({place for curve in thinned for place in curve})
    at = [[curve[place] for curve in thinned if place in curve] for place in places]
    return Curve(tuple(places), tuple(map(fmean, at)), tuple(map(min, at)), tuple(map(max, at)))


def _logged_points(record: Record, key: str, axis: TimeAxis) -> list[tuple[float, float]]:
    pairs = ((finite_number(line.get(axis)), finite_number(line.get(key))) for line in record.metrics)
    return [(place, value) for place, value in pairs if place is not None and value is not None]


def _thin(points: Iterable[tuple[float, float]], first: float, width: float) -> dict[float, float]:
    """The mean of the values in each bin of that width; with width 0, at each place."""
    bins: dict[float, list[float]] = {}
    for place, value in points:
        # A number belongs to the end of its bin, as it was logged after the steps it is about.
        # Rounded first, or the last place could fall behind the last bin.
        end = first + math.ceil(round((place - first) / width, 6)) * width if width else place
        bins.setdefault(end, []).append(value)
    return {end: fmean(numbers) for end, numbers in bins.items()}


def _ends(row: Row) -> tuple[float, float, float]:
    """Low end, mean and high end of the interval, as they are shown; a single seed is all three."""
    mean, half_width, n = row.measures[row.main.key]
    width = half_width if n > 1 else 0.0
    low, middle, high = (row.main.scale * value for value in (mean - width, mean, mean + width))
    return low, middle, high


def _is_paper_near(rows: Sequence[Row]) -> bool:
    """Whether the published numbers are so near that ours stay readable beside them."""
    ours = [end for row in rows for end in _ends(row)]
    theirs = [row.paper for row in rows if row.paper is not None]
    return bool(theirs) and max(*ours, *theirs) - min(*ours, *theirs) <= 2.5 * (max(ours) - min(ours))


def _find_cost(rows: Sequence[Row]) -> tuple[float, float] | None:
    """The ends of what bias costs, if the rows are one comparison in which it costs more than noise."""
    ends = [row for kind in ("biased", "unbiased") for row in rows if row.kind == kind]
    if len({row.frame for row in rows}) > 1 or [row.kind for row in ends] != ["biased", "unbiased"]:
        return None
    if not is_cost_clear(*ends):
        return None
    low, high = (_ends(row)[1] for row in ends)
    return low, high


def _describe(rows: Sequence[Row]) -> str:
    unit = " %" if rows[0].main.percent else ""
    ends = "; ".join(
        f"{row.label} {row.main.scale * row.measures[row.main.key].mean:.{row.main.decimals}f}{unit}"
        for row in rows
    )
    return f"{_heading(rows)}: {ends}."


def _heading(rows: Sequence[Row]) -> str:
    """What is measured, with the metric's own heading where all rows share it."""
    quantity, headings = rows[0].main.quantity.capitalize(), {row.main.heading for row in rows}
    return ", ".join(dict.fromkeys((quantity, *headings))) if len(headings) == 1 else quantity
