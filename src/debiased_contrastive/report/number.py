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


def small(value: float) -> str:
    """Three digits, without an exponent where that is short.

    >>> small(0.1), small(0.0004321), small(0.0), small(1.234e-7)
    ('0.1', '0.000432', '0', '1.23e-07')
    >>> small(1e-190)
    '0'
    """
    if 1e-12 < abs(value) < 1e-5:
        return f"{value:.3g}"
    return f"{float(f'{value:.3g}'):.12f}".rstrip("0").rstrip(".")


def percent(value: float) -> str:
    """A share, with one decimal where it is small.

    >>> percent(0.235), percent(0.004), percent(0.0)
    ('24 %', '0.4 %', '0 %')
    """
    return f"{100 * value:.1f} %" if 0 < value < 0.1 else f"{100 * value:.0f} %"


def three_digits(value: float) -> str:
    """A number of any size.

    >>> three_digits(25.514), three_digits(0.0123), three_digits(1234.5)
    ('25.5', '0.0123', '1,234')
    """
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
