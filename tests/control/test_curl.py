"""CURL's contrastive term: a slow loop, released cross-entropy, further crops, floors."""

import math

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from debiased_contrastive.control.curl import Contrast
from debiased_contrastive.objectives.estimator import RELATIVE_FLOOR, SMALL_FLOOR


def made(m: int = 1, b: int = 6, d: int = 4, **settings: object) -> tuple[Contrast, Tensor, Tensor]:
    torch.manual_seed(b * m)
    contrast = Contrast(d, **settings)  # type: ignore[arg-type]
    queries, keys = torch.randn(b, d), torch.randn(m, b, d)
    return contrast, queries.requires_grad_(), keys


def slow(contrast: Contrast, queries: Tensor, keys: Tensor, floor: float) -> float:
    weight, tau, losses = contrast.weight.tolist(), contrast.tau_plus, []

    def score(q: list[float], k: list[float]) -> float:
        return float(sum(q[i] * weight[i][j] * k[j] for i in range(len(q)) for j in range(len(k))))

    for i, q in enumerate(queries.tolist()):
        others = [math.exp(score(q, k)) for j, k in enumerate(keys[0].tolist()) if j != i]
        own = [math.exp(score(q, view[i])) for view in keys.tolist()]
        mean = sum(others) / len(others)
        g = max((mean - tau * sum(own) / len(own)) / (1 - tau), floor * mean if floor == RELATIVE_FLOOR else floor)
        losses.append(-math.log(own[0] / (own[0] + len(others) * g)))
    return sum(losses) / len(losses)


@pytest.mark.parametrize("m", [1, 2, 3])
@pytest.mark.parametrize("tau", [0.0, 0.1, 0.5])
@pytest.mark.parametrize(
    ("floor", "least"), [("zero", 0.0), ("small", math.exp(SMALL_FLOOR)), ("relative", RELATIVE_FLOOR)]
)
def test_it_equals_the_loop(m: int, tau: float, floor: str, least: float) -> None:
    contrast, queries, keys = made(m, tau_plus=tau, floor=floor)
    assert contrast(queries, keys).item() == pytest.approx(slow(contrast, queries, keys, least), rel=1e-4)


def test_without_correction_it_is_the_released_cross_entropy() -> None:
    contrast, queries, keys = made(tau_plus=0.0)
    logits = queries @ contrast.weight @ keys[0].T
    want = F.cross_entropy(logits - logits.max(1, keepdim=True).values, torch.arange(6))
    assert contrast(queries, keys).item() == pytest.approx(want.item(), rel=1e-5)
    assert contrast.diagnostics.floored == 0


@pytest.mark.parametrize("floor", ["zero", "small", "relative", "biased", "cap_tau"])
def test_gradients_are_finite_whatever_the_floor_and_the_size(floor: str) -> None:
    contrast, queries, keys = made(2, tau_plus=0.5, floor=floor)
    loss = contrast(30 * queries, 30 * keys)
    loss.backward()
    assert loss.isfinite()
    assert queries.grad is not None
    assert queries.grad.isfinite().all()
    assert contrast.weight.grad is not None
    assert 0 < contrast.diagnostics.floored <= 1
    assert 0 <= contrast.diagnostics.tau_cap_median <= 1


def test_floor_zero_switches_found_pairs_off_and_the_others_do_not() -> None:
    queries = 4 * torch.eye(6)
    for floor, learns in (("zero", False), ("biased", True), ("cap_tau", True)):
        contrast = Contrast(6, tau_plus=0.1, floor=floor)  # type: ignore[arg-type]
        with torch.no_grad():
            contrast.weight.copy_(torch.eye(6))
        contrast(queries, queries.unsqueeze(0)).backward()
        assert contrast.weight.grad is not None
        assert contrast.diagnostics.floored == 1
        assert bool(contrast.weight.grad.any()) == learns


def test_one_observation_has_nothing_to_be_told_from() -> None:
    contrast, queries, keys = made(b=1, tau_plus=0.1)
    with pytest.raises(ValueError, match="a batch needs at least 2 observations"):
        contrast(queries, keys)
