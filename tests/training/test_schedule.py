"""Learning rates climb, stay or fall as their names say."""

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from debiased_contrastive.training.gradient import learning_rate


@given(base=st.floats(1e-6, 10), warm_up=st.integers(0, 20), after=st.integers(1, 50))
def test_warm_up_is_linear_and_ends_at_the_base(base: float, warm_up: int, after: int) -> None:
    constant = learning_rate("constant", base, steps=warm_up + after, warm_up=warm_up)
    cosine = learning_rate("cosine", base, steps=warm_up + after, warm_up=warm_up)
    for step in range(warm_up):
        assert constant(step) == cosine(step) == pytest.approx(base * (step + 1) / warm_up, rel=1e-12)
    for step in range(warm_up, warm_up + after):
        assert constant(step) == base
    assert cosine(warm_up) == base


@given(base=st.floats(1e-6, 10), warm_up=st.integers(0, 20), after=st.integers(2, 50))
def test_cosine_falls_to_zero_and_is_odd_around_its_middle(base: float, warm_up: int, after: int) -> None:
    rate = learning_rate("cosine", base, steps=warm_up + after, warm_up=warm_up)
    rates = [rate(warm_up + k) for k in range(after + 1)]
    assert all(later < earlier for earlier, later in itertools.pairwise(rates))
    assert rates[-1] == pytest.approx(0, abs=1e-15 * base)
    for k in range(after + 1):
        assert rates[k] + rates[after - k] == pytest.approx(base, rel=1e-12)


def test_cosine_by_numbers() -> None:
    rate = learning_rate("cosine", 2.0, steps=8, warm_up=2)
    third = math.cos(math.pi / 3)
    assert [rate(step) for step in (0, 1, 2, 4, 5, 6)] == pytest.approx([1.0, 2.0, 2.0, 1 + third, 1.0, 1 - third])


def test_a_training_shorter_than_its_warm_up() -> None:
    rate = learning_rate("cosine", 1.0, steps=3, warm_up=10)
    assert [rate(step) for step in range(3)] == pytest.approx([0.1, 0.2, 0.3])
