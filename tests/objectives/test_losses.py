"""Every objective equals its slow loop, and obeys the laws that tie it to the others."""

import math
from typing import Any

import pytest
import torch
from hypothesis import assume, example, given
from hypothesis import strategies as st
from torch import Tensor

import debiased_contrastive as dc
from debiased_contrastive.objectives.checks import OnFloor
from debiased_contrastive.objectives.estimator import largest_tau_plus
from debiased_contrastive.objectives.statistics import from_logits
from tests.reference import equations

FLOORS: tuple[OnFloor, ...] = ("clamp", "biased", "smooth", "cap_tau")


@st.composite
def problems(draw: st.DrawFn) -> dict[str, Any]:
    a, n, m = draw(st.integers(1, 4)), draw(st.integers(1, 8)), draw(st.integers(1, 4))
    t = draw(st.sampled_from([0.05, 0.07, 0.1, 0.2, 0.5, 1.0]))
    cosine = st.floats(-1, 1)

    def rows(width: int) -> list[list[float]]:
        row = st.lists(cosine.map(lambda c: c / t), min_size=width, max_size=width)
        return draw(st.lists(row, min_size=a, max_size=a))

    return {
        "positive": [row[0] for row in rows(1)],
        "unlabeled": rows(n),
        "positives": rows(m),
        "tau_plus": draw(st.floats(0.001, 0.9)),
        "lower": draw(st.sampled_from([-1 / t, -1 / t, -math.inf])),
        "beta": draw(st.sampled_from([0.0, 0.0, 0.5, 2.0])),
        "t": t,
    }


def tensors(problem: dict[str, Any]) -> tuple[Tensor, Tensor, Tensor]:
    p, u, v = (torch.tensor(problem[key], dtype=torch.float64) for key in ("positive", "unlabeled", "positives"))
    return p, u, v


def away_from_floor(problem: dict[str, Any]) -> bool:
    """Within rounding of the floor a loop in linear space cannot tell on which side it is."""
    for u, v in zip(problem["unlabeled"], problem["positives"], strict=True):
        tau = problem["tau_plus"]
        mean = equations.tilted_mean_exp(u, problem["beta"])
        gap = equations.raw(u, v, tau, problem["beta"]) - math.exp(problem["lower"])
        if abs(gap) < 1e-4 * mean:
            return False
    return True


@pytest.mark.parametrize("on_floor", FLOORS)
@given(problem=problems())
def test_contrastive_loss_equals_the_loop(on_floor: OnFloor, problem: dict[str, Any]) -> None:
    assume(away_from_floor(problem))
    settings = {"tau_plus": problem["tau_plus"], "lower": problem["lower"], "beta": problem["beta"]}
    got = dc.contrastive_loss(*tensors(problem), **settings, on_floor=on_floor, reduction="none")
    want = [
        equations.debiased(p, u, v, **settings, on_floor=on_floor)
        for p, u, v in zip(problem["positive"], problem["unlabeled"], problem["positives"], strict=True)
    ]
    torch.testing.assert_close(got, torch.tensor(want, dtype=torch.float64), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("on_floor", FLOORS)
@given(problem=problems())
def test_decoupled_loss_equals_the_loop(on_floor: OnFloor, problem: dict[str, Any]) -> None:
    assume(away_from_floor(problem))
    settings = {"tau_plus": problem["tau_plus"], "lower": -1 / problem["t"], "beta": problem["beta"]}
    assume(away_from_floor({**problem, **settings}))
    got = dc.decoupled_loss(*tensors(problem), **settings, on_floor=on_floor, reduction="none")
    want = [
        equations.decoupled(p, u, v, **settings, on_floor=on_floor)
        for p, u, v in zip(problem["positive"], problem["unlabeled"], problem["positives"], strict=True)
    ]
    torch.testing.assert_close(got, torch.tensor(want, dtype=torch.float64), rtol=1e-9, atol=1e-9)


@given(problem=problems())
def test_without_tau_plus_it_is_eq_1_bit_for_bit_as_float_and_as_tensor(problem: dict[str, Any]) -> None:
    positive, unlabeled, positives = tensors(problem)
    loss = dc.contrastive_loss(positive, unlabeled, positives, reduction="none", lower=-1.0)
    zeros = dc.contrastive_loss(
        positive, unlabeled, positives, tau_plus=torch.zeros_like(positive), reduction="none", lower=-1.0
    )
    want = [equations.biased(p, u) for p, u in zip(problem["positive"], problem["unlabeled"], strict=True)]
    torch.testing.assert_close(loss, torch.tensor(want, dtype=torch.float64), rtol=1e-9, atol=1e-9)
    assert torch.equal(loss, zeros)


@given(problem=problems())
def test_with_one_positive_it_is_the_closed_form_of_the_biased_loss(problem: dict[str, Any]) -> None:
    """e^L = (e^{L_b} - tau (N + 1)) / (1 - tau) where M = 1, v = x+ and no floor is active."""
    positive, unlabeled, _ = tensors(problem)
    n, tau = unlabeled.shape[1], problem["tau_plus"]
    exp_biased = dc.contrastive_loss(positive, unlabeled, reduction="none").exp()
    assume(bool((exp_biased - 1 - tau * n > 1e-3).all()))
    loss = dc.contrastive_loss(positive, unlabeled, tau_plus=tau, reduction="none")
    torch.testing.assert_close(loss, ((exp_biased - tau * (n + 1)) / (1 - tau)).log(), rtol=1e-9, atol=1e-9)


@given(problem=problems(), seed=st.integers(0, 9))
def test_order_and_duplication_of_the_samples_do_not_matter(problem: dict[str, Any], seed: int) -> None:
    positive, unlabeled, positives = tensors(problem)
    assume(away_from_floor(problem))
    settings = {"tau_plus": problem["tau_plus"], "lower": problem["lower"], "beta": problem["beta"]}
    order = torch.randperm(unlabeled.shape[1], generator=torch.Generator().manual_seed(seed))
    loss = dc.contrastive_loss(positive, unlabeled, positives, **settings, reduction="none")
    permuted = dc.contrastive_loss(positive, unlabeled[:, order], positives.flip(1), **settings, reduction="none")
    torch.testing.assert_close(permuted, loss, rtol=1e-11, atol=1e-11)
    twice = dc.contrastive_loss(
        positive, unlabeled.repeat(1, 2), positives.repeat(1, 3), **settings, reduction="none"
    )
    # The estimate g is the same, its weight N doubles: e^L - 1 = N g / e^{s+}.
    torch.testing.assert_close(twice.expm1(), 2 * loss.expm1(), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("on_floor", FLOORS)
@given(problem=problems(), shift=st.sampled_from([-480.0, -3.0, 1.0, 300.0, 480.0]))
def test_a_shift_of_all_logits_and_the_floor_changes_nothing(
    on_floor: OnFloor, problem: dict[str, Any], shift: float
) -> None:
    assume(away_from_floor(problem))
    positive, unlabeled, positives = tensors(problem)
    settings = {"tau_plus": problem["tau_plus"], "beta": problem["beta"], "on_floor": on_floor}
    lower = problem["lower"]
    loss = dc.contrastive_loss(positive, unlabeled, positives, lower=lower, **settings, reduction="none")
    shifted = dc.contrastive_loss(
        positive + shift,
        unlabeled + shift,
        positives + shift,
        lower=lower + shift,
        **settings,
        reduction="none",
    )
    torch.testing.assert_close(shifted, loss, rtol=1e-8, atol=1e-8)


@given(problem=problems(), seed=st.integers(0, 9))
def test_absent_samples_do_not_count(problem: dict[str, Any], seed: int) -> None:
    assume(away_from_floor(problem))
    positive, unlabeled, positives = tensors(problem)
    settings = {"tau_plus": problem["tau_plus"], "lower": problem["lower"], "beta": problem["beta"]}
    loss = dc.contrastive_loss(positive, unlabeled, positives, **settings, reduction="none")

    def with_gaps(logits: Tensor) -> Tensor:
        gaps = torch.full((len(logits), 3), -math.inf, dtype=logits.dtype)
        order = torch.randperm(logits.shape[1] + 3, generator=torch.Generator().manual_seed(seed))
        return torch.cat([logits, gaps], 1)[:, order]

    padded = dc.contrastive_loss(positive, with_gaps(unlabeled), with_gaps(positives), **settings, reduction="none")
    torch.testing.assert_close(padded, loss, rtol=1e-11, atol=1e-11)


def test_an_anchor_without_unlabeled_samples_has_no_loss_and_no_gradient() -> None:
    positive = torch.tensor([1.0, 2.0], requires_grad=True)
    unlabeled = torch.tensor([[-math.inf, -math.inf], [0.5, -math.inf]], requires_grad=True)
    for on_floor in FLOORS:
        positive.grad = unlabeled.grad = None
        loss = dc.contrastive_loss(positive, unlabeled, tau_plus=0.1, on_floor=on_floor, reduction="none")
        assert loss[0] == 0
        assert loss[1] > 0
        loss.sum().backward()
        assert positive.grad is not None
        assert unlabeled.grad is not None
        assert positive.grad[0] == 0
        assert torch.isfinite(unlabeled.grad).all()
        assert (unlabeled.grad[0] == 0).all()


def test_reductions() -> None:
    positive, unlabeled = torch.randn(5), torch.randn(5, 7)
    each = dc.contrastive_loss(positive, unlabeled, tau_plus=0.1, reduction="none")
    assert each.shape == (5,)
    torch.testing.assert_close(dc.contrastive_loss(positive, unlabeled, tau_plus=0.1), each.mean())
    total = dc.contrastive_loss(positive, unlabeled, tau_plus=0.1, reduction="sum")
    torch.testing.assert_close(total, each.sum())


def test_tau_plus_may_differ_between_anchors() -> None:
    positive, unlabeled = torch.randn(3, dtype=torch.float64), torch.randn(3, 50, dtype=torch.float64)
    taus = torch.tensor([0.0, 0.05, 0.2], dtype=torch.float64)
    together = dc.contrastive_loss(positive, unlabeled, tau_plus=taus, reduction="none")
    for k, tau in enumerate(taus.tolist()):
        alone = dc.contrastive_loss(positive[k : k + 1], unlabeled[k : k + 1], tau_plus=tau)
        torch.testing.assert_close(together[k], alone)


@given(problem=problems())
@example(  # lower than every sample, and no sample above the positives
    problem={
        "positive": [0.0], "unlabeled": [[1.0]], "positives": [[0.0]],
        "tau_plus": 0.1, "lower": -2.0, "beta": 0.0, "t": 0.5,
    }
)  # fmt: skip
def test_largest_tau_plus_is_where_the_estimate_meets_the_floor(problem: dict[str, Any]) -> None:
    positive, unlabeled, positives = tensors(problem)
    beta, lower = problem["beta"], problem["lower"]
    got = largest_tau_plus(from_logits(positive, unlabeled, positives, lower=lower, beta=beta))
    for k, (u, v) in enumerate(zip(problem["unlabeled"], problem["positives"], strict=True)):
        mean_u, mean_v = equations.tilted_mean_exp(u, beta), equations.mean_exp(v)
        assume(abs(mean_u - mean_v) > 1e-6 * mean_u)
        assert got[k].item() == pytest.approx(equations.largest_tau_plus(u, v, lower, beta), rel=1e-6, abs=1e-9)


def test_the_published_formula_for_one_positive() -> None:
    """N tau pos subtracted from the sum, divided by 1 - tau, at least N e^{-1/t}; in float32, t = 0.5."""
    torch.manual_seed(0)
    t, tau = 0.5, 0.1
    positive, unlabeled = torch.rand(256) * 2 - 1, torch.rand(256, 510) * 2 - 1
    pos, neg = torch.exp(positive / t), torch.exp(unlabeled / t).sum(-1)
    n_g = torch.clamp((-510 * tau * pos + neg) / (1 - tau), min=510 * math.e ** (-1 / t))
    published = (-torch.log(pos / (pos + n_g))).mean()
    ours = dc.contrastive_loss(positive / t, unlabeled / t, tau_plus=tau, lower=-1 / t)
    torch.testing.assert_close(ours, published, rtol=1e-6, atol=0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_dtypes(dtype: torch.dtype) -> None:
    positive, unlabeled = torch.randn(4).to(dtype), torch.randn(4, 9).to(dtype)
    loss = dc.contrastive_loss(positive, unlabeled, tau_plus=0.05)
    assert loss.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    want = dc.contrastive_loss(positive.double(), unlabeled.double(), tau_plus=0.05)
    torch.testing.assert_close(loss.double(), want, rtol=1e-6, atol=1e-6)
