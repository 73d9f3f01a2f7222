"""How steep and how large the loss can be, measured on the library's own loss."""

import math

import torch
from torch import Tensor

from debiased_contrastive.objectives.losses import contrastive_loss
from debiased_contrastive.theory.claim import Case, Claim
from debiased_contrastive.theory.generalization import absolute_lipschitz_constant, lipschitz_constant, loss_bound

SIZES = ((4096, 1, 0.8), (510, 1, 0.1), (510, 8, 0.1), (64, 64, 0.5))
TEMPERATURES = (1.0, 0.5)


def lemma_a4_slope() -> Claim:
    """The Euclidean norm of the gradient where it is largest, and at random."""
    cases = []
    for t in TEMPERATURES:
        for n, m, tau in SIZES:
            norms = (("steepest", steepest_norm(n, m, tau, t)), ("random", _norm(_random(n, m, t), tau, t)))
            for name, norm in norms:
                printed, corrected = (
                    lipschitz_constant(tau, n, m, temperature=t, which=which) for which in ("printed", "corrected")
                )
                where = f"{name} logits, t = {t}, N = {n}, M = {m}, tau = {tau}"
                cases.append(Case(where, norm, corrected, printed))
    return Claim("Lemma A.4, slope", "the norm of the gradient in (u, v) is at most eta", "at most", cases)


def lemma_a4_absolute() -> Claim:
    """The sum of the absolute derivatives, which N and M do not move."""
    cases = []
    for t in TEMPERATURES:
        for n, m, tau in SIZES:
            _, gradients = _loss(*_steepest(n, m, tau, t), tau, t)
            total = sum(float(gradient.abs().sum()) for gradient in gradients)
            where = f"steepest logits, t = {t}, N = {n}, M = {m}, tau = {tau}"
            cases.append(Case(where, total, absolute_lipschitz_constant(tau, temperature=t)))
    return Claim(
        "Lemma A.4, absolute",
        "the sum of absolute derivatives is at most 2 + 2 E^2 tau / tau_minus",
        "at most",
        cases,
    )


def lemma_a4_size() -> Claim:
    """The largest loss, which is attained."""
    cases = []
    for t in TEMPERATURES:
        for n, m, tau in SIZES:
            loss, _ = _loss(torch.tensor([-1 / t]), torch.full((1, n), 1 / t), torch.full((1, m), -1 / t), tau, t)
            printed, corrected = (
                loss_bound(tau, n, temperature=t, which=which) for which in ("printed", "corrected")
            )
            cases.append(Case(f"largest loss, t = {t}, N = {n}, M = {m}, tau = {tau}", loss, corrected, printed))
    return Claim("Lemma A.4, size", "the loss is at most B", "at most", cases)


def single_positive() -> Claim:
    """M = 1 with v = x+: the loss re-weights anchors, never the samples of one."""
    generator = torch.Generator().manual_seed(0)
    cases = []
    for n, tau in ((510, 0.05), (510, 0.1), (64, 0.01)):
        s_plus = torch.rand(1, dtype=torch.float64, generator=generator)
        u = 2 * torch.rand(1, n, dtype=torch.float64, generator=generator) - 0.5
        ratio = float((u - s_plus).exp().sum())
        loss, (_, debiased, _) = _loss(s_plus, u, s_plus.unsqueeze(1), tau, 1.0, shared=True)
        _, (_, biased, _) = _loss(s_plus, u, s_plus.unsqueeze(1), 0.0, 1.0, shared=True)
        value = math.log((ratio + 1 - (n + 1) * tau) / (1 - tau))
        weight = (ratio + 1) / (ratio + 1 - (n + 1) * tau)
        cases.append(Case(f"loss, N = {n}, tau = {tau}", loss, value))
        cases.append(
            Case(f"largest weight of a sample, N = {n}, tau = {tau}", float((debiased / biased).max()), weight)
        )
        cases.append(
            Case(f"smallest weight of a sample, N = {n}, tau = {tau}", float((debiased / biased).min()), weight)
        )
    return Claim(
        "M = 1",
        "the loss is log((R + 1 - (N + 1) tau) / tau_minus); gradients are the biased ones times a weight",
        "equal",
        cases,
    )


def steepest_norm(n: int, m: int, tau: float, t: float) -> float:
    """The norm of the gradient in (u, v) where it is largest."""
    return _norm(_steepest(n, m, tau, t), tau, t)


def _norm(logits: tuple[Tensor, Tensor, Tensor], tau: float, t: float) -> float:
    _, gradients = _loss(*logits, tau, t)
    return math.sqrt(sum(float(gradient.square().sum()) for gradient in gradients[1:]))


def _loss(
    s_plus: Tensor, u: Tensor, v: Tensor, tau_plus: float, t: float, *, shared: bool = False
) -> tuple[float, list[Tensor]]:
    """The loss of one anchor and its derivatives in s+, u and v; shared: v is x+ itself."""
    leaves = [logits.double().clone().requires_grad_() for logits in (s_plus, u, v)]
    positives = leaves[0].unsqueeze(1) if shared else leaves[2]
    loss = contrastive_loss(leaves[0], leaves[1], positives, tau_plus=tau_plus, lower=-1 / t)
    loss.backward()
    return loss.item(), [torch.zeros_like(leaf) if leaf.grad is None else leaf.grad for leaf in leaves]


def _steepest(n: int, m: int, tau: float, t: float) -> tuple[Tensor, Tensor, Tensor]:
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
