"""The checked statements as a table and as plots with logarithmic axes."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullLocator

from debiased_contrastive.report.drawing import axes, own_style, svg_file
from debiased_contrastive.report.palette import DASHES, DEBIASED, OTHER, UNBIASED

HEADER = ["claim", "printed", "measured", "corrected", "verdict", "where", "cases"]
_COLOURS = {"printed": (OTHER,), "corrected": (UNBIASED,), "measured": DEBIASED}
_SIGNS = {"at most": "≤ ", "at least": "≥ ", "above": "> ", "equal": ""}


def rows(record: Mapping[str, Any]) -> list[list[str]]:
    """The header and a line for each claim, with the case that decides or has least room."""
    lines = [HEADER]
    for claim in record["claims"]:
        case, sign = claim["cases"][0], _SIGNS[claim["relation"]]
        printed = "-" if case["printed"] is None else sign + number(case["printed"])
        measured, corrected = number(case["measured"]), sign + number(case["corrected"])
        numbers = [printed, measured, corrected]
        lines.append([claim["name"], *numbers, claim["verdict"], case["where"], str(len(claim["cases"]))])
    return lines


def markdown(record: Mapping[str, Any]) -> str:
    """The same for a document."""
    header, *lines = rows(record)
    every = [header, ["---", *["---:"] * 3, "---", "---", "---:"], *lines]
    return "".join(f"| {' | '.join(line)} |\n" for line in every)


def number(value: float) -> str:
    """Four digits, whole numbers in full.

    >>> number(0.123456), number(1234567.5), number(10000), number(float("inf"))
    ('0.1235', '1.235e+06', '10000', 'inf')
    """
    return str(int(value)) if abs(value) < 1e6 and value == int(value) else f"{value:.4g}"


def figures(record: Mapping[str, Any]) -> dict[str, str]:
    """Every plot as SVG, by name."""
    return {plot["name"]: _drawn(plot) for claim in record["claims"] for plot in claim["plots"]}


def _drawn(plot: Mapping[str, Any]) -> str:
    with own_style():
        ax = axes(6.4, 3.6)
        seen: dict[str, int] = {}
        for line in plot["lines"]:
            kind = line["kind"]
            count = seen[kind] = seen.get(kind, -1) + 1
            _draw(ax, line, _COLOURS[kind][count % len(_COLOURS[kind])], kind)
        ax.set(xscale=plot["x_scale"], yscale="log", xlabel=plot["x_label"], ylabel=plot["y_label"])
        _plain_ticks(ax, plot["lines"])
        ax.set_title(plot["title"], fontsize=10, loc="left")
        ax.legend(frameon=False, fontsize=8.5)
        return svg_file(ax, plot["name"])


def _plain_ticks(ax: Any, lines: Sequence[Mapping[str, Any]]) -> None:
    """Numbers as they are written, at the points that were computed and at round values."""
    plain = FuncFormatter(lambda value, _: number(value))
    places = lines[0]["x"]
    ax.xaxis.set_major_locator(FixedLocator(places))
    heights = [y for line in lines for y in line["y"]]
    few = max(heights) < 30 * min(heights)
    ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if few else (1,)))
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter(plain)
        axis.set_minor_locator(NullLocator())


def _draw(ax: Any, line: Mapping[str, Sequence[float]], colour: str, kind: str) -> None:
    marker = "o" if kind == "measured" else ""
    look = {"color": colour, "linewidth": 1.7, "marker": marker, "markersize": 4, "label": line["label"]}
    (drawn,) = ax.plot(line["x"], line["y"], **look)
    if kind != "measured":
        drawn.set_dashes(DASHES[1])
