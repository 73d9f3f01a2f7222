"""The biased loss lies above the unbiased one, but for a known amount."""

import math
from collections.abc import Iterator
from functools import cache

import torch

from debiased_contrastive.theory.bias import asymptotic_bias_gap, bias_gap_bound
from debiased_contrastive.theory.claim import Case, Claim, Line, Plot, forms
from debiased_contrastive.theory.losses import biased_loss, unbiased_loss
from debiased_contrastive.theory.worlds.discrete import DiscreteWorld, circle, torn_apart
from debiased_contrastive.theory.worlds.two_point import TwoPointWorld
from debiased_contrastive.theory.worlds.von_mises_fisher import VonMisesFisherWorld, orthogonal_means

ANCHORS, PART = 2000, 250


def lemma_1() -> Claim:
    """The inequality, where classes are near, where they are torn apart, and for anchors far from their own."""
    worlds = (
        ("circle", circle()),
        ("classes torn apart", torn_apart()),
        ("circle, t = 0.5", circle(temperature=0.5)),
    )
    cases = [_exact(name, world, n) for name, world in worlds for n in (1, 2, 4)]
    cases += list(_single_anchors())
    gap, error, ratios = simulated_gap(510, 20.0)
    log_ratio = sum(min(0.0, math.log(ratio)) for ratio in ratios) / len(ratios)
    cases.append(
        Case("ten classes on the sphere, N = 510", gap, **forms(bias_gap_bound, log_ratio, 0.1, 510), error=error)
    )
    return Claim("Lemma 1", "L_Biased - L_Unbiased is at least the bound", "at least", cases)


def lemma_1_limit() -> Claim:
    """What the gap tends to."""
    cases = []
    for kappa in (20.0, 60.0):
        gap, error, ratios = simulated_gap(510, kappa)
        limit = asymptotic_bias_gap(ratios, 0.1)
        cases.append(Case(f"ten classes, kappa = {kappa:.0f}, N = 510", gap, limit, error=error))
    for n in (64, 1024):
        world = TwoPointWorld(0.3, 0.8, 0.2, h_plus=None)
        limit = asymptotic_bias_gap([world.mean(0.8) / world.mean(0.2)], 0.3)
        # What N samples lose to their mean, and what x+ weighs beside N of them.
        cases.append(Case(f"two-point world, N = {n}", _gap(world, n), limit, tolerance=4 / n))
    counts = (4, 16, 64, 256, 1024)
    world = TwoPointWorld(0.3, 0.8, 0.2, h_plus=None)
    limit = asymptotic_bias_gap([world.mean(0.8) / world.mean(0.2)], 0.3)
    lines = [
        Line("two-point world, tau = 0.3", counts, [_gap(world, n) for n in counts]),
        Line("limit", counts, [limit] * len(counts), "corrected"),
    ]
    plot = Plot("bias", "What sampling bias adds to the loss", "N", "L_Biased - L_Unbiased", lines)
    statement = "the gap tends to E log(1 - tau + tau m_plus / m_minus)"
    return Claim("Lemma 1, limit", statement, "equal", cases, [plot])


@cache  # two claims look at the same anchors
def simulated_gap(num_unlabeled: int, kappa: float) -> tuple[float, float, list[float]]:
    """Gap of the losses, four standard errors of it, and m_plus / m_minus of each anchor, among ten classes."""
    world = VonMisesFisherWorld(orthogonal_means(10, 16), kappa)
    generator = torch.Generator().manual_seed(0)
    differences, ratios = [], []
    for _ in range(ANCHORS // PART):
        x, labels = world.sample(PART, generator)
        h_plus = (x * world.members(labels, generator)).sum(1).exp()
        _, m_plus, m_minus = world.critic_means(x, labels)
        drawn, _ = world.sample(PART * num_unlabeled, generator)
        others = world.others(labels, num_unlabeled, generator)
        u, negatives = (torch.einsum("ad,and->an", x, z.view(PART, num_unlabeled, -1)) for z in (drawn, others))
        losses = [torch.log1p(logits.exp().sum(1) / h_plus) for logits in (u, negatives)]
        differences.append(losses[0] - losses[1])
        ratios += (m_plus / m_minus).tolist()
    gaps = torch.cat(differences)
    return float(gaps.mean()), 4 * float(gaps.std()) / math.sqrt(len(gaps)), ratios


def _exact(name: str, world: DiscreteWorld, n: int) -> Case:
    ratio = world.critic_mean(world.of_positives) / world.critic_mean(world.of_negatives)
    log_ratio = float(world.probabilities @ ratio.log().clamp(max=0))
    bounds = forms(bias_gap_bound, log_ratio, float(world.tau_plus[0]), n, temperature=world.temperature)
    return Case(f"{name}, N = {n}", biased_loss(world, n) - unbiased_loss(world, n), **bounds)


def _single_anchors() -> Iterator[Case]:
    """The proof is for each anchor: some whose class is farther than the others, where the gap is negative."""
    for tau, q_plus, q_minus in (
        (0.1, 0.0, 1.0), (0.5, 0.1, 0.3), (0.9, 0.0, 0.5), (0.9, 0.0, 0.05), (0.5, 0.9, 1.0), (0.9, 0.8, 1.0),
    ):  # fmt: skip
        world = TwoPointWorld(tau, q_plus, q_minus, h_plus=1 / math.e)
        log_ratio = math.log(world.mean(q_plus) / world.mean(q_minus))
        for n in (1, 8, 128):
            where = f"one anchor, tau = {tau}, q = {q_plus} and {q_minus}, N = {n}"
            yield Case(where, _gap(world, n), **forms(bias_gap_bound, log_ratio, tau, n))


def _gap(world: TwoPointWorld, n: int) -> float:
    return world.mean_loss(n, world.q, n) - world.mean_loss(n, world.q_minus, n)
