"""Time and memory of a loss beside other libraries."""

from pathlib import Path

from debiased_contrastive.files import read_json
from figures.panel import Line, Panel

LOOKS = {"ours": "debiased0", "paper-formula": "biased", "lightly": "unbiased", "pml-supcon": "debiased2"}


def speed(folder: Path) -> tuple[Panel, ...]:
    """Milliseconds and extra memory of one forward and backward, by the number of pairs."""
    record = read_json(folder / "benchmarks.json")
    names = record["settings"]["contenders"]
    panels = []
    for key, factor, what in (
        ("seconds", 1e3, "ms, forward and backward"),
        ("extra_mib", 1.0, "extra memory, MiB"),
    ):
        lines = []
        for contender, colour in LOOKS.items():
            rows = [one for one in record["rows"] if one["contender"] == contender and key in one]
            places, values = ([float(one[name]) for one in rows] for name in ("pairs", key))
            lines.append(Line(names[contender], tuple(places), tuple(factor * one for one in values), colour))
        panels.append(Panel(tuple(lines), "pairs in a batch", what, log=("x", "y")))
    return tuple(panels)
