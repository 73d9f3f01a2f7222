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


def by_autograd(positive: Tensor, total: Tensor, n: float, tau_plus: float, lower: float) -> tuple[Tensor, ...]:
    positive, total = (x.clone().requires_grad_() for x in (positive, total))
    statistics = Statistics(
        positive, (total / n).log(), n, positive, 1.0, torch.tensor(lower, dtype=positive.dtype)
    )
    losses = debiased(statistics, tau_plus)
    return losses.detach(), *torch.autograd.grad(losses.sum(), (positive, total))


LOGITS = st.lists(st.tuples(st.floats(-10, 10), st.floats(-10, 10)), min_size=1, max_size=5)


@given(LOGITS, st.integers(1, 10**6), st.sampled_from([0.0, 1e-6, 0.1, 0.5, 0.999]), st.floats(0.1, 10))
def test_values_and_slopes_are_those_of_autograd(
    pairs: list[tuple[float, float]], n: int, tau_plus: float, inverse: float
) -> None:
    scale = inverse / 10
    positive, log_mean = (scale * torch.tensor(x, dtype=torch.float64) for x in zip(*pairs, strict=True))
    total = n * log_mean.exp()
    for got, want in zip(
        debiased_with_slopes(positive.exp(), total, n, tau_plus, -inverse),
        by_autograd(positive, total, n, tau_plus, -inverse),
        strict=True,
    ):
        torch.testing.assert_close(got, want, rtol=1e-9, atol=1e-12)


def test_above_and_on_the_floor_and_where_the_estimate_is_negative() -> None:
    """Three anchors: the share of true negatives in the sum is 0.9, 0.01 and below 0; two are on the floor."""
    positive = torch.tensor([0.0, 1.0, 2.0], dtype=torch.float64)
    log_mean = torch.tensor([0.0, 1.0 + math.log(0.1 / 0.99), -1.0], dtype=torch.float64)
    total = 4 * log_mean.exp()
    losses, by_positive, by_total = debiased_with_slopes(positive.exp(), total, 4.0, 0.1, -2.0)
    want = [
        slow_debiased(s, [m] * 4, [s], tau_plus=0.1, lower=-2.0)
        for s, m in zip(positive.tolist(), log_mean.tolist(), strict=True)
    ]
    assert losses.tolist() == pytest.approx(want, rel=1e-12)
    sigma = -torch.expm1(-losses)
    assert (by_total * total).tolist() == pytest.approx([float(sigma[0]) / 0.9, 0.0, 0.0])
    assert by_positive.tolist() == pytest.approx([-float(sigma[0]) / 0.9, *(-sigma[1:]).tolist()])


def test_float32_holds_the_largest_ratio_and_keeps_the_smallest() -> None:
    """Logits of 40 and -40, the most that one tile takes: 1,022 e^80 is the ratio, or 1,022 e^-80."""
    s = torch.tensor([-40.0, 40.0])
    losses, by_positive, by_total = debiased_with_slopes(s.exp(), 1022 * (-s).exp(), 1022.0, 0.0, -40.0)
    assert losses.tolist() == pytest.approx([math.log(1022) + 80, 1022 * math.exp(-80)], rel=1e-5)
    assert by_positive.tolist() == pytest.approx([-1.0, -1022 * math.exp(-80)], rel=1e-5)
    assert by_total.tolist() == pytest.approx([math.exp(-40) / 1022, math.exp(-40)], rel=1e-5)
