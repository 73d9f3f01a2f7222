"""A figure: a name, a sentence, and a function from results/ to its panels; as a file it carries its own data."""

import json
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass
from html import escape, unescape
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure as Canvas

from debiased_contrastive.report.plots import FAINT, INK, PAPER, own_style, svg_file
from figures.panel import Line, Panel, Row, draw

LIGHT = {INK: "#1d2327", FAINT: "#dfe3e6", PAPER: "#ffffff"}
DARK = {INK: "#e6eaec", FAINT: "#3a434a", PAPER: "#14181b"}
NAMES = {INK: "--ink", FAINT: "--line", PAPER: "--paper"}
"""A figure has its own paper, since the page around it may be light while the reader's system is dark."""


@dataclass(frozen=True)
class Figure:
    """What the documentation shows under `docs/figures/NAME.svg`."""

    name: str
    says: str
    """One sentence for who cannot see it."""
    panels: Callable[[Path], tuple[Panel, ...]]
    """Reads the folder of results."""
    width: float = 6.6
    height: float | None = None
    """In inches; by the number of rows if not given."""

    def data(self, results: Path) -> list[dict[str, Any]]:
        """The panels as JSON has them, rounded to six digits."""
        return [_rounded(asdict(panel)) for panel in self.panels(results)]

    def svg(self, results: Path) -> str:
        """The file: the same bytes from the same results."""
        panels = self.panels(results)
        with own_style():
            canvas = Canvas(figsize=(self.width, self.height or _height(panels)), layout="constrained")
            canvas.set_facecolor(PAPER)
            for ax, panel in zip(canvas.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
                ax.patch.set_visible(False)
                draw(ax, panel)
            _add_legend(canvas, panels)
            text = svg_file(canvas.axes[0], self.name)
        return _with_data(text, self.says, self.data(results))


def _add_legend(canvas: Canvas, panels: tuple[Panel, ...]) -> None:
    """One legend above all panels that share their lines, else one in each panel."""
    lines = [[one.label for one in panel.what] for panel in panels if isinstance(panel.what[0], Line)]
    if len(lines) > 1 and all(labels == lines[0] for labels in lines):
        handles, labels = canvas.axes[0].get_legend_handles_labels()
        canvas.legend(handles, labels, loc="outside upper center", ncols=4, frameon=False, fontsize=8.5)
    elif lines:
        for ax in canvas.axes:
            ax.legend(frameon=False, fontsize=8.5)


def _height(panels: tuple[Panel, ...]) -> float:
    rows = max(len(panel.what) if isinstance(panel.what[0], Row) else 0 for panel in panels)
    return 0.9 + 0.34 * rows if rows else 3.2


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _rounded(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(one) for one in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


def _with_data(svg: str, says: str, data: list[dict[str, Any]]) -> str:
    """Add title, data and colours for light and dark."""
    svg = svg[svg.index("<svg") :]
    for stand_in, name in NAMES.items():
        svg = svg.replace(stand_in, f"var({name})")
    light, dark = (" ".join(f"{NAMES[key]}: {value};" for key, value in side.items()) for side in (LIGHT, DARK))
    style = f"<style>svg {{ {light} }} @media (prefers-color-scheme: dark) {{ svg {{ {dark} }} }}</style>"
    head = f"<title>{escape(says)}</title>\n<desc>{escape(json.dumps(data))}</desc>\n{style}\n"
    start = svg.index(">") + 1
    svg = svg[:start] + "\n" + head + svg[start:]
    return re.sub(r"[ \t]+\n", "\n", svg)


def read_data(svg: str) -> Any:
    """The data that a file carries."""
    found = re.search(r"<desc>(.*?)</desc>", svg, re.S)
    if found is None:
        raise ValueError("a figure must carry its data in <desc>; this file does not: run python -m figures")
    return json.loads(unescape(found[1]))
