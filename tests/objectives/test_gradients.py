"""Derivatives of the logit objectives: finite differences in float64, closed forms, finite everywhere."""

import math

import pytest
import torch

import debiased_contrastive as dc
from debiased_contrastive.objectives.checks import OnFloor

FLOORS: tuple[OnFloor, ...] = ("clamp", "biased", "smooth", "cap_tau")


def logits(seed: int = 0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64).requires_grad_()

    return draw(5), draw(5, 6), draw(5, 3)


@pytest.mark.parametrize("beta", [0.0, 1.5])
@pytest.mark.parametrize("on_floor", ["clamp", "biased", "smooth"])
@pytest.mark.parametrize("tau_plus", [0.0, 0.02, 0.9])  # none, off the floor, on it
def test_gradcheck_of_the_losses(tau_plus: float, on_floor: OnFloor, beta: float) -> None:
    def loss(positive: torch.Tensor, unlabeled: torch.Tensor, positives: torch.Tensor) -> torch.Tensor:
        settings = {"tau_plus": tau_plus, "lower": -3.0, "beta": beta, "reduction": "none"}
        both = [
            dc.contrastive_loss(positive, unlabeled, positives, on_floor=on_floor, **settings),  # type: ignore[arg-type]
            dc.decoupled_loss(positive, unlabeled, positives, on_floor=on_floor, **settings),  # type: ignore[arg-type]
        ]
        return torch.cat(both)

    assert torch.autograd.gradcheck(loss, logits())


def test_gradcheck_of_cap_tau_where_the_cap_does_not_act() -> None:
    """Where it acts the cap is detached by design, so a finite difference sees more than the gradient."""
    positive, unlabeled, positives = logits()

    def loss(*inputs: torch.Tensor) -> torch.Tensor:
        return dc.contrastive_loss(*inputs, tau_plus=1e-4, lower=-9.0, on_floor="cap_tau", reduction="none")

    assert torch.autograd.gradcheck(loss, (positive, unlabeled, positives))


def test_the_cap_is_a_constant_for_the_gradient() -> None:
    positive, unlabeled, positives = logits()
    caps = torch.tensor(
        [
            0.5 * ((u.exp().mean() - math.exp(-3)) / (v.exp().mean() - math.exp(-3))).item()
            for u, v in zip(unlabeled.detach(), positives.detach(), strict=True)
        ],
        dtype=torch.float64,
    )
    taus = torch.where(unlabeled.exp().mean(1) < positives.exp().mean(1), caps.clamp(max=0.9), 0.5).detach()
    capped = dc.contrastive_loss(positive, unlabeled, positives, tau_plus=0.9, lower=-3.0, on_floor="cap_tau")
    by_hand = dc.contrastive_loss(positive, unlabeled, positives, tau_plus=taus, lower=-3.0)
    torch.testing.assert_close(capped, by_hand)
    got = torch.autograd.grad(capped, (positive, unlabeled, positives))
    want = torch.autograd.grad(by_hand, (positive, unlabeled, positives))
    torch.testing.assert_close(got, want)


def test_closed_form_of_the_gradient_off_the_floor() -> None:
    """d/ds+ = -sigma, d/du_i = sigma softmax(u)_i / (1 - e^-d), d/dv_j the same with -e^-d; they sum to 0."""
    positive, unlabeled, positives = logits()
    tau = 0.05
    loss = dc.contrastive_loss(positive, unlabeled, positives, tau_plus=tau, reduction="sum")
    d_positive, d_unlabeled, d_positives = torch.autograd.grad(loss, (positive, unlabeled, positives))
    mean_u, mean_v = unlabeled.exp().mean(1), positives.exp().mean(1)
    n_g = 6 * (mean_u - tau * mean_v) / (1 - tau)
    assert (n_g > 0).all()
    sigma = n_g / (positive.exp() + n_g)
    share = tau * mean_v / mean_u
    torch.testing.assert_close(d_positive, -sigma)
    torch.testing.assert_close(d_unlabeled, (sigma / (1 - share)).unsqueeze(1) * unlabeled.softmax(1))
    torch.testing.assert_close(d_positives, -(sigma * share / (1 - share)).unsqueeze(1) * positives.softmax(1))
    total = d_positive + d_unlabeled.sum(1) + d_positives.sum(1)
    torch.testing.assert_close(total, torch.zeros(5, dtype=torch.float64))


def test_a_clamped_anchor_moves_only_its_positive() -> None:
    positive = torch.tensor([2.0], requires_grad=True)
    unlabeled = torch.tensor([[-1.0, -1.5]], requires_grad=True)
    loss = dc.contrastive_loss(positive, unlabeled, tau_plus=0.5, lower=-2.0)
    loss.backward()
    n_floor = 2 * math.exp(-2)
    assert loss.item() == pytest.approx(math.log(1 + n_floor * math.exp(-2)), rel=1e-6)
    assert positive.grad is not None
    assert positive.grad.item() == pytest.approx(-n_floor / (n_floor + math.exp(2)), rel=1e-6)
    assert unlabeled.grad is not None
    assert (unlabeled.grad == 0).all()


def test_a_floor_that_depends_on_the_temperature_passes_its_gradient() -> None:
    cosines = torch.tensor([0.9, -0.5, -0.6], dtype=torch.float64)

    def loss(t: torch.Tensor) -> torch.Tensor:
        s = cosines / t
        return dc.contrastive_loss(s[:1], s[None, 1:], tau_plus=0.5, lower=-1 / t)

    assert torch.autograd.gradcheck(loss, torch.tensor(0.4, dtype=torch.float64, requires_grad=True))


@pytest.mark.parametrize("on_floor", FLOORS)
@pytest.mark.parametrize("tau_plus", [0.0, 0.01, 0.1, 0.99])
@pytest.mark.parametrize("beta", [0.0, 1.0])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_extreme_logits_stay_finite(dtype: torch.dtype, beta: float, tau_plus: float, on_floor: OnFloor) -> None:
    """Logits of +-500, no floor or a floor far away, N = 1, equal logits, everything on the floor."""
    rows = torch.tensor([[500, -500, -500], [-500, 500, 500], [500, 500, -500], [0, 0, 0], [500, 499, 500]])
    for lower in (-math.inf, -500.0, 0.0):
        for width in (2, 3):  # N = 1 and N = 2
            values = rows.to(dtype).clone().requires_grad_()
            loss = dc.contrastive_loss(
                values[:, 0], values[:, 1:width], tau_plus=tau_plus, lower=lower, on_floor=on_floor, beta=beta
            )
            assert torch.isfinite(loss)
            loss.backward()
            assert values.grad is not None
            assert torch.isfinite(values.grad).all()
