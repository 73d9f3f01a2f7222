"""Colours that people with any colour vision can tell apart."""

from collections.abc import Sequence
from dataclasses import dataclass

from debiased_contrastive.report.group import Group

CLASSES = (
    "#3f90da", "#ffa90e", "#bd1f01", "#94a4a2", "#832db6", "#a96b59", "#e76300", "#b9ac70", "#717581", "#92dadd",
)  # fmt: skip
"""Petroff's sequence of ten (2021)."""
SHAPES = (("o", "●"), ("s", "■"), ("^", "▲"), ("D", "◆"))
"""After ten classes the colours start again in another shape: the name for drawing, the letter for legends."""

BIASED, UNBIASED, OTHER = "#d55e00", "#009e73", "#7f7f7f"
DEBIASED = ("#0072b2", "#56b4e9", "#cc79a7", "#8a63b8")
"""With the above, of Okabe and Ito (2008), but for the last."""
DASHES = ((), (5, 2), (1.5, 1.5), (7, 2, 1.5, 2))
"""Lengths of line and gap, in line widths; none is a solid line."""


@dataclass(frozen=True)
class Stroke:
    """How the line of a group looks."""

    colour: str
    dash: tuple[float, ...]


def strokes(groups: Sequence[Group]) -> tuple[Stroke, ...]:
    """One look per group: the colour says which kind it is, repeated colours get other dashes."""
    counts: dict[str, int] = {}
    result = []
    for group in groups:
        colours = {"biased": (BIASED,), "unbiased": (UNBIASED,), "debiased": DEBIASED}.get(group.kind, (OTHER,))
        count = counts.get(group.kind, 0)
        counts[group.kind] = count + 1
        dash = DASHES[count // len(colours) % len(DASHES)]
        result.append(Stroke(colours[count % len(colours)], dash))
    return tuple(result)


def class_look(label: int) -> tuple[str, str, str]:
    """Colour, marker and letter of a class."""
    marker, letter = SHAPES[label // len(CLASSES) % len(SHAPES)]
    return CLASSES[label % len(CLASSES)], marker, letter
