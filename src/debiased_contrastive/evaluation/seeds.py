"""Numbers over seeds: mean with confidence interval, share of the gap that debiasing closes."""

import math
from collections.abc import Sequence

CONFIDENCE = 0.95


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
