"""How steep and how large the loss can be, measured on the library's own loss."""

import math

import torch
from torch import Tensor

from debiased_contrastive.objectives.losses import contrastive_loss
from debiased_contrastive.theory.claim import Case, Claim, forms
from debiased_contrastive.theory.generalization import absolute_lipschitz_constant, lipschitz_constant, loss_bound

SIZES = ((4096, 1, 0.8), (510, 1, 0.1), (510, 8, 0.1), (64, 64, 0.5))
TEMPERATURES = (1.0, 0.5)


def lemma_a4_slope() -> Claim:
    """The Euclidean norm of the gradient at steep logits, and at random ones."""
    cases = []
    for t in TEMPERATURES:
        for n, m, tau in SIZES:
            bounds = forms(lipschitz_constant, tau, n, m, temperature=t)
            where = f"logits, t = {t}, N = {n}, M = {m}, tau = {tau}"
            cases.append(Case(f"steep {where}", steep_norm(n, m, tau, t), **bounds))
            cases.append(Case(f"random {where}", _norm(_random(n, m, t), tau, t), **bounds))
    return Claim("Lemma A.4, slope", "the norm of the gradient in (u, v) is at most eta", "at most", cases)


def lemma_a4_absolute() -> Claim:
    """The sum of the absolute derivatives, which N and M do not move."""
    cases = []
    for t in TEMPERATURES:
        for n, m, tau in SIZES:
            _, gradients = _loss(*_steep(n, m, tau, t), tau, t)
            total = sum(float(gradient.abs().sum()) for gradient in gradients)
            where = f"steep logits, t = {t}, N = {n}, M = {m}, tau = {tau}"
            cases.append(Case(where, total, absolute_lipschitz_constant(tau, temperature=t)))
    statement = "the sum of absolute derivatives is at most 2 + 2 E^2 tau / tau_minus"
    return Claim("Lemma A.4, absolute", statement, "at most", cases)


def lemma_a4_size() -> Claim:
    """The largest loss, which is attained."""
    cases = []
    for t in TEMPERATURES:
        for n, m, tau in SIZES:
            loss, _ = _loss(torch.tensor([-1 / t]), torch.full((1, n), 1 / t), torch.full((1, m), -1 / t), tau, t)
            bounds = forms(loss_bound, tau, n, temperature=t)
            cases.append(Case(f"largest loss, t = {t}, N = {n}, M = {m}, tau = {tau}", loss, **bounds))
    return Claim("Lemma A.4, size", "the loss is at most B", "at most", cases, subject="order")


def single_positive() -> Claim:
    """M = 1 with v = x+, off the floor: the gradient is the biased one times a number for each anchor."""
    generator = torch.Generator().manual_seed(0)
    cases = []
    for n, tau in ((510, 0.05), (510, 0.1), (64, 0.01)):
        s_plus = torch.rand(1, dtype=torch.float64, generator=generator)
        u = 2 * torch.rand(1, n, dtype=torch.float64, generator=generator) - 0.5
        ratio = float((u - s_plus).exp().sum())
        loss, debiased = _loss(s_plus, u, None, tau, 1.0)
        _, biased = _loss(s_plus, u, None, 0.0, 1.0)
        cases.append(Case(f"loss, N = {n}, tau = {tau}", loss, math.log((ratio + 1 - (n + 1) * tau) / (1 - tau))))
        weight = (ratio + 1) / (ratio + 1 - (n + 1) * tau)
        for name, of_debiased, of_biased in zip(("x+", "samples"), debiased, biased, strict=True):
            factors = of_debiased / of_biased
            for end, value in (("smallest", factors.min()), ("largest", factors.max())):
                cases.append(Case(f"{end} weight of {name}, N = {n}, tau = {tau}", float(value), weight))
    statement = "off the floor, gradients are the biased ones times a number for each anchor"
    return Claim("M = 1", statement, "equal", cases)


def steep_norm(n: int, m: int, tau: float, t: float) -> float:
    """The norm of the gradient in (u, v) where it is nearly as large as it can be, if N is large and M is not."""
    return _norm(_steep(n, m, tau, t), tau, t)


def _norm(logits: tuple[Tensor, Tensor, Tensor], tau: float, t: float) -> float:
    _, gradients = _loss(*logits, tau, t)
    return math.sqrt(sum(float(gradient.square().sum()) for gradient in gradients[1:]))


def _loss(s_plus: Tensor, u: Tensor, v: Tensor | None, tau_plus: float, t: float) -> tuple[float, list[Tensor]]:
    """The loss of one anchor and its derivatives in s+, u and v; without v, x+ is the only positive."""
    given = [logits.double().clone().requires_grad_() for logits in (s_plus, u, v) if logits is not None]
    loss = contrastive_loss(*given, tau_plus=tau_plus, lower=-1 / t)
    return loss.item(), list(torch.autograd.grad(loss, given))


def _steep(n: int, m: int, tau: float, t: float) -> tuple[Tensor, Tensor, Tensor]:
    """Positives as near as can be, and unlabeled samples that leave the estimate just above its floor."""
    largest = math.exp(1 / t)
    just_above = (1 - tau) / largest + tau * largest + 1e-9
    return (
        torch.tensor([-1 / t], dtype=torch.float64),
        torch.full((1, n), math.log(just_above), dtype=torch.float64),
        torch.full((1, m), 1 / t, dtype=torch.float64),
    )


def _random(n: int, m: int, t: float) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    s, u, v = (2 * torch.rand(1, count, dtype=torch.float64, generator=generator) - 1 for count in (1, n, m))
    return s[:, 0] / t, u / t, v / t
