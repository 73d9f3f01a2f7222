"""Numbers as people read them."""

import math

from debiased_contrastive.report.table import Measure

DASH, MINUS, GLUE = "\N{EN DASH}", "\N{MINUS SIGN}", "\N{NO-BREAK SPACE}"


def decimal(value: float, decimals: int = 1) -> str:
    """A number with so many decimals, a dash where it is none.

    >>> decimal(1234.56), decimal(math.nan) == DASH
    ('1,234.6', True)
    """
    return f"{value:,.{decimals}f}".replace("-", MINUS) if math.isfinite(value) else DASH


def interval(measure: Measure, scale: float = 100.0, decimals: int = 1) -> str:
    """A mean with its half width, a dash for the half width that a single seed does not have.

    >>> interval(Measure(0.7512, 0.0131, 3)).replace(GLUE, " ")
    '75.1 ± 1.3'
    """
    mean, half_width = (decimal(scale * value, decimals) for value in measure[:2])
    return f"{mean}{GLUE}±{GLUE}{half_width}"


def share(value: float) -> str:
    """A share as a whole percentage.

    >>> share(0.421).replace(GLUE, " ")
    '42 %'
    """
    return f"{decimal(100 * value, 0)}{GLUE}%"


def counted(count: int, noun: str, plural: str = "") -> str:
    """A noun with its number.

    >>> counted(1, "seed"), counted(3, "seed"), counted(5, "class", "classes")
    ('1 seed', '3 seeds', '5 classes')
    """
    return f"{count} {noun if count == 1 else plural or noun + 's'}"
