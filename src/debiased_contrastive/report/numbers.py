"""Numbers as people read them: means with intervals, differences seed by seed, digits, Markdown tables."""

import math
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from statistics import fmean
from typing import Any, NamedTuple

CONFIDENCE = 0.95
DASH, MINUS, GLUE = "\N{EN DASH}", "\N{MINUS SIGN}", "\N{NO-BREAK SPACE}"


class Measure(NamedTuple):
    """A mean over seeds."""

    mean: float
    half_width: float
    """Half the width of the 95 % interval; NaN for a single seed."""
    n: int

    def overlaps(self, other: "Measure") -> bool:
        """Whether the two intervals have a point in common."""
        return abs(self.mean - other.mean) <= self.half_width + other.half_width


def mean_and_interval(values: Sequence[float]) -> tuple[float, float]:
    """The mean and half the width of its 95 % interval, by Student's t with n - 1 degrees of freedom.

    One value has no interval: the half width is NaN.

    >>> mean, half_width = mean_and_interval([70.0, 71.0, 72.0])
    >>> mean, round(half_width, 3)
    (71.0, 2.484)
    """
    n = len(values)
    if n < 1 or not all(math.isfinite(value) for value in values):
        raise ValueError(f"values must be finite, at least one; got {list(values)}: leave out runs that failed")
    mean = math.fsum(values) / n
    if n == 1:
        return mean, math.nan
    variance = math.fsum((value - mean) ** 2 for value in values) / (n - 1)
    return mean, student_quantile(n - 1) * math.sqrt(variance / n)


def paired_differences(own: Mapping[Any, float], others: Mapping[Any, float]) -> list[float]:
    """Differences of runs with the same seed, so with the same weights at the start and the same order.

    >>> paired_differences({0: 3.0, 1: 5.0}, {1: 4.0, 2: 0.0})
    [1.0]
    """
    return [own[seed] - others[seed] for seed in own if seed in others]


def paired_difference(own: Mapping[Any, float], others: Mapping[Any, float]) -> Measure:
    """The difference of the means, with the interval of the paired differences; NaN where seeds do not match."""
    difference = fmean(own.values()) - fmean(others.values())
    if own.keys() != others.keys():
        return Measure(difference, math.nan, 0)
    return Measure(difference, mean_and_interval(paired_differences(own, others))[1], len(own))


def gap_closed(biased: float, debiased: float, unbiased: float) -> float:
    """The share (debiased - biased) / (unbiased - biased) of what sampling bias costs; NaN if it costs nothing.

    >>> gap_closed(biased=70.0, debiased=71.0, unbiased=75.0)
    0.2
    """
    gap = unbiased - biased
    return (debiased - biased) / gap if gap else math.nan


def student_quantile(freedom: int, confidence: float = CONFIDENCE) -> float:
    """The t with P(|T| <= t) = confidence for Student's distribution with that many degrees of freedom."""
    if freedom < 1 or not 0 < confidence < 1:
        raise ValueError(
            f"freedom must be at least 1 and confidence between 0 and 1; got {freedom} and {confidence}: "
            "n values have n - 1 degrees of freedom"
        )
    # In the angle the distribution function is smooth and its domain bounded: bisection is exact.
    low, high = 0.0, math.pi / 2
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if _inside(middle, freedom) < confidence else (low, middle)
    return math.sqrt(freedom) * math.tan(low)


def _inside(angle: float, freedom: int) -> float:
    """P(|T| <= sqrt(freedom) tan(angle)): the finite sums of Abramowitz and Stegun 26.7.3 and 26.7.4."""
    sine, cosine = math.sin(angle), math.cos(angle)
    odd = freedom % 2
    term, total = cosine if odd else 1.0, 0.0
    for power in range(1 + odd, freedom, 2):
        total += term
        term *= cosine**2 * power / (power + 1)
    return 2 / math.pi * (angle + sine * total) if odd else sine * total


def decimal(value: float, decimals: int = 1) -> str:
    """The number with so many decimals, a dash where it is not finite.

    >>> decimal(1234.56), decimal(math.nan) == DASH
    ('1,234.6', True)
    """
    return f"{value:,.{decimals}f}".replace("-", MINUS) if math.isfinite(value) else DASH


def plus_minus(measure: Measure, scale: float = 100.0, decimals: int = 1) -> str:
    """A mean with its half width, a dash for the half width that a single seed does not have.

    >>> plus_minus(Measure(0.7512, 0.0131, 3)).replace(GLUE, " ")
    '75.1 ± 1.3'
    """
    mean, half_width = (decimal(scale * value, decimals) for value in measure[:2])
    return f"{mean}{GLUE}±{GLUE}{half_width}"


def mean_cell(values: Sequence[float], sign: str = "") -> str:
    """Mean and half of its 95 % interval, for a cell of a Markdown table; `sign="+"` shows the sign of gains.

    >>> mean_cell([70.0, 72.0]), mean_cell([1.0], "+"), mean_cell([])
    ('71.0 ± 12.7', '+1.0', '-')
    >>> mean_cell([-0.01], "+")
    '+0.0'
    """
    if not values:
        return "-"
    mean, half_width = mean_and_interval(list(values))
    # A rounded zero has no sign: -0.0 + 0.0 is 0.0.
    mean = round(mean, 1) + 0.0
    return f"{mean:{sign}.1f} ± {half_width:.1f}" if len(values) > 1 else f"{mean:{sign}.1f}"


def whole_percent(value: float) -> str:
    """A share as a whole percentage.

    >>> whole_percent(0.421).replace(GLUE, " ")
    '42 %'
    """
    return f"{decimal(100 * value, 0)}{GLUE}%"


def percent(value: float) -> str:
    """A share, with one decimal where it is small.

    >>> percent(0.235), percent(0.004), percent(0.0)
    ('24 %', '0.4 %', '0 %')
    """
    return f"{100 * value:.1f} %" if 0 < value < 0.1 else f"{100 * value:.0f} %"


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


def three_digits(value: float) -> str:
    """A number of any size.

    >>> three_digits(25.514), three_digits(0.0123), three_digits(1234.5)
    ('25.5', '0.0123', '1,234')
    """
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def four_digits(value: float) -> str:
    """Four digits, whole numbers in full.

    >>> four_digits(0.123456), four_digits(1234567.5), four_digits(10000), four_digits(float("inf"))
    ('0.1235', '1.235e+06', '10000', 'inf')
    """
    return str(int(value)) if abs(value) < 1e6 and value == int(value) else f"{value:.4g}"


def count(number: int, noun: str) -> str:
    """A noun with its number.

    >>> count(1, "seed"), count(3, "seed")
    ('1 seed', '3 seeds')
    """
    return f"{number} {noun}{'' if number == 1 else 's'}"


def plain(value: object) -> str:
    """The value of a setting as people write it.

    >>> plain(0.0001), plain(True), plain(None), plain([1, 2]), plain([])
    ('0.0001', 'yes', 'none', '1, 2', 'none')
    """
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None:
        return "none"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, list | tuple):
        return ", ".join(map(plain, value)) or "none"
    return str(value)


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]], align: str = "l") -> str:
    """A table in Markdown.

    Args:
        header: Headings of the columns.
        rows: Cells of each row.
        align: A letter for each of the first columns, l or r; the rest are aligned to the right.

    >>> print(markdown_table(["loss", "t", "top-1"], [["biased", "0.5", "70.1"]]), end="")
    | loss | t | top-1 |
    | --- | ---: | ---: |
    | biased | 0.5 | 70.1 |
    """
    rule = ["---:" if letter == "r" else "---" for letter in align.ljust(len(header), "r")]
    return "".join(f"| {' | '.join(line)} |\n" for line in (header, rule, *rows))


def align_tables(text: str) -> str:
    """Tables in Markdown with their columns below each other, for a terminal; other lines stay.

    >>> print(align_tables(markdown_table(["loss", "top-1"], [["biased", "70.1"]])), end="")
    | loss   | top-1 |
    | ------ | ----: |
    | biased |  70.1 |
    """
    found = []
    for is_table, lines in _groups(text):
        if is_table:
            columns = [_align_column(column) for column in _columns(lines)]
            found += [f"| {' | '.join(row)} |" for row in zip(*columns, strict=True)]
        else:
            found += lines
    return "".join(f"{line}\n" for line in found)


def fit_width(text: str, width: int) -> str:
    """The text for a terminal of so many columns: further columns of a wide table follow below its first ones.

    >>> print(fit_width(align_tables(markdown_table(["loss", "a", "b"], [["biased", "1", "2"]])), 20), end="")
    | loss   |   a |
    | ------ | --: |
    | biased |   1 |
    <BLANKLINE>
    | loss   |   b |
    | ------ | --: |
    | biased |   2 |
    """
    found = []
    for is_table, lines in _groups(text):
        if is_table:
            found += _narrow(_columns(lines), width)
        else:
            found += [part for line in lines for part in textwrap.wrap(line, width) or [""]]
    return "".join(f"{line}\n" for line in found)


def _narrow(columns: Sequence[Sequence[str]], width: int) -> list[str]:
    """Lines of a table in parts that fit, each with the first column; a column alone may be wider."""
    first, *others = (_align_column(column) for column in columns)
    parts = [[first]]
    for column in others:
        if len(parts[-1]) > 1 and sum(len(one[0]) + 3 for one in (*parts[-1], column)) + 1 > width:
            parts.append([first])
        parts[-1].append(column)
    found = []
    for part in parts:
        found += [f"| {' | '.join(row)} |" for row in zip(*part, strict=True)] + [""]
    return found[:-1]


def _groups(text: str) -> Iterator[tuple[bool, list[str]]]:
    """Lines that make a table together, and others."""
    for is_table, lines in groupby(text.splitlines(), lambda line: line.startswith("|")):
        yield is_table, list(lines)


def _columns(lines: Iterable[str]) -> list[tuple[str, ...]]:
    return list(zip(*([cell.strip() for cell in line.strip("|").split("|")] for line in lines), strict=True))


def _align_column(column: Sequence[str]) -> list[str]:
    """Cells of one width: the header, the rule, whose colon says on which side they begin, and the others."""
    header, rule, *cells = column
    width = max(3, *map(len, (header, *cells)))
    if rule.endswith(":"):
        return [header.rjust(width), "-" * (width - 1) + ":", *(cell.rjust(width) for cell in cells)]
    return [header.ljust(width), "-" * width, *(cell.ljust(width) for cell in cells)]
