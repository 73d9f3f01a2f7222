"""Intervals are those of scipy, and hold the mean as often as they say."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from debiased_contrastive.report.numbers import gap_closed, mean_and_interval, student_quantile


@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.999])
def test_quantiles_are_those_of_scipy(confidence: float) -> None:
    for freedom in [*range(1, 41), 100, 1001]:
        expected = stats.t.ppf((1 + confidence) / 2, freedom)
        assert student_quantile(freedom, confidence) == pytest.approx(expected, rel=1e-9)


@given(st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=12))
def test_intervals_are_those_of_scipy(values: list[float]) -> None:
    mean, half_width = mean_and_interval(values)
    error = np.std(values, ddof=1) / math.sqrt(len(values))
    assert mean == pytest.approx(np.mean(values), abs=1e-9)
    assert half_width == pytest.approx(error * stats.t.ppf(0.975, len(values) - 1), rel=1e-6, abs=1e-9)


def test_coverage() -> None:
    draws = np.random.default_rng(0).normal(3, 2, (4000, 3))
    inside = 0
    for row in draws:
        mean, half_width = mean_and_interval(row.tolist())
        inside += abs(mean - 3) <= half_width
    assert inside / len(draws) == pytest.approx(0.95, abs=0.01)


def test_limits() -> None:
    assert mean_and_interval([0.7])[0] == 0.7
    assert math.isnan(mean_and_interval([0.7])[1])
    assert mean_and_interval([0.5, 0.5, 0.5]) == (0.5, 0.0)


def test_gap_closed() -> None:
    assert gap_closed(70.0, 70.0, 75.0) == 0
    assert gap_closed(70.0, 75.0, 75.0) == 1
    assert gap_closed(70.0, 76.0, 75.0) == pytest.approx(1.2)
    assert gap_closed(70.0, 69.0, 75.0) == pytest.approx(-0.2)
    assert math.isnan(gap_closed(70.0, 71.0, 70.0))


def test_bad_input() -> None:
    with pytest.raises(ValueError, match=r"values must be finite, at least one; got \[\]"):
        mean_and_interval([])
    with pytest.raises(ValueError, match="leave out runs that failed"):
        mean_and_interval([1.0, math.nan])
    with pytest.raises(ValueError, match="freedom must be at least 1"):
        student_quantile(0)
