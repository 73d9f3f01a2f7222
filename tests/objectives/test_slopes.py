"""The closed form of the debiased loss and its derivatives: autograd's, and those of a loop."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from debiased_contrastive.objectives.losses import debiased
from debiased_contrastive.objectives.slopes import debiased_with_slopes
from debiased_contrastive.objectives.statistics import Statistics
from tests.reference.equations import debiased as slow_debiased


def by_autograd(positive: Tensor, log_mean: Tensor, n: float, tau_plus: float, lower: float) -> tuple[Tensor, ...]:
    positive, log_mean = (x.clone().requires_grad_() for x in (positive, log_mean))
    statistics = Statistics(positive, log_mean, n, positive, 1.0, torch.tensor(lower, dtype=positive.dtype))
    losses = debiased(statistics, tau_plus)
    return losses.detach(), *torch.autograd.grad(losses.sum(), (positive, log_mean))


LOGITS = st.lists(st.tuples(st.floats(-10, 10), st.floats(-10, 10)), min_size=1, max_size=5)


@given(LOGITS, st.integers(1, 10**6), st.sampled_from([0.0, 1e-6, 0.1, 0.5, 0.999]), st.floats(0.1, 10))
def test_values_and_slopes_are_those_of_autograd(
    pairs: list[tuple[float, float]], n: int, tau_plus: float, inverse: float
) -> None:
    scale = inverse / 10
    positive, log_mean = (scale * torch.tensor(x, dtype=torch.float64) for x in zip(*pairs, strict=True))
    for got, want in zip(
        debiased_with_slopes(positive, log_mean, n, tau_plus, -inverse),
        by_autograd(positive, log_mean, n, tau_plus, -inverse),
        strict=True,
    ):
        torch.testing.assert_close(got, want, rtol=1e-9, atol=1e-12)


def test_above_and_on_the_floor_and_where_the_estimate_is_negative() -> None:
    """Three anchors: 1 - p is 0.9, 0.01 and below 0; the last two are on the floor."""
    positive = torch.tensor([0.0, 1.0, 2.0], dtype=torch.float64)
    log_mean = torch.tensor([0.0, 1.0 + math.log(0.1 / 0.99), -1.0], dtype=torch.float64)
    losses, by_positive, by_mean = debiased_with_slopes(positive, log_mean, 4.0, 0.1, -2.0)
    want = [
        slow_debiased(s, [m] * 4, [s], tau_plus=0.1, lower=-2.0)
        for s, m in zip(positive.tolist(), log_mean.tolist(), strict=True)
    ]
    assert losses.tolist() == pytest.approx(want, rel=1e-12)
    sigma = -torch.expm1(-losses)
    assert by_mean.tolist() == pytest.approx([float(sigma[0]) / 0.9, 0.0, 0.0])
    assert by_positive.tolist() == pytest.approx([-float(sigma[0]) / 0.9, *(-sigma[1:]).tolist()])
