"""Figures of matplotlib as inline SVG: the same bytes each time, colours of text and grid left to the page."""

import io
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

INK, FAINT, PAPER = "#1a1b1c", "#d7d8d9", "#fcfdfe"
"""Stand-ins, replaced by variables of the page, so that figures follow it into the dark."""
VARIABLES = {INK: "var(--ink)", FAINT: "var(--line)", PAPER: "var(--paper)"}

STYLE: dict[Any, Any] = {
    "axes.edgecolor": FAINT,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.labelcolor": INK,
    "axes.labelsize": 9.5,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.spines.left": False,
    "axes.axisbelow": True,
    "font.size": 9.5,
    "grid.color": FAINT,
    "grid.linewidth": 0.7,
    "svg.fonttype": "none",
    # A dollar sign in the name of a preset is no formula.
    "text.parse_math": False,
    "text.color": INK,
    "xtick.color": FAINT,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "ytick.left": False,
}


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


def inline_svg(drawn: Axes, name: str, description: str) -> str:
    """The figure of these axes as an element of a page; the name, unique on it, keeps ids apart."""
    drawn.figure.patch.set_visible(False)
    drawn.patch.set_visible(False)
    return _element(svg_file(drawn, name), description)


def svg_file(drawn: Axes, name: str) -> str:
    """The figure of these axes as a file of its own."""
    figure = drawn.figure
    assert isinstance(figure, Figure)
    buffer = io.StringIO()
    matplotlib.rcParams["svg.hashsalt"] = name
    figure.savefig(buffer, format="svg", metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
    return buffer.getvalue()


def _element(document: str, description: str) -> str:
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
    head = (
        f'<svg {view[0]} role="img" aria-label="{escape(description)}" xmlns:xlink="http://www.w3.org/1999/xlink">'
    )
    return head + svg[svg.index(">") + 1 :]
