"""The biased loss lies above the unbiased one, but for a known amount."""

import math
from functools import cache

import torch

from debiased_contrastive.theory.bias import asymptotic_bias_gap, bias_gap_bound
from debiased_contrastive.theory.claim import Case, Claim, Line, Plot
from debiased_contrastive.theory.losses import biased_loss, unbiased_loss
from debiased_contrastive.theory.worlds.discrete import DiscreteWorld, circle, torn_apart
from debiased_contrastive.theory.worlds.von_mises_fisher import VonMisesFisherWorld, orthogonal_means

ANCHORS, PART = 1000, 250


def lemma_1() -> Claim:
    """The inequality, where classes are near and where they are torn apart."""
    cases = [_exact(name, world, n) for name, world in (("circle", circle()), ("classes torn apart", torn_apart()))
             for n in (1, 2, 3, 4)]  # fmt: skip
    cases += [_exact("circle, t = 0.5", circle(temperature=0.5), n) for n in (1, 4)]
    gap, error, ratios = simulated_gap(510, 20.0)
    log_ratio = sum(min(0.0, math.log(ratio)) for ratio in ratios) / len(ratios)
    bounds = {which: bias_gap_bound(log_ratio, 0.1, 510, which=which) for which in ("printed", "corrected")}
    cases.append(Case("ten classes on the sphere, N = 510", gap, bounds["corrected"], bounds["printed"], error))
    return Claim("Lemma 1", "L_Biased - L_Unbiased is at least the bound", "at least", cases)


def lemma_1_limit() -> Claim:
    """What the gap tends to."""
    cases, lines = [], []
    for kappa in (10.0, 20.0, 60.0):
        gap, error, ratios = simulated_gap(510, kappa)
        cases.append(
            Case(f"ten classes, kappa = {kappa:.0f}, N = 510", gap, asymptotic_bias_gap(ratios, 0.1), None, error)
        )
        lines.append((kappa, gap, cases[-1].corrected))
    kappas, gaps, limits = zip(*lines, strict=True)
    plot = Plot(
        "bias",
        "What sampling bias adds to the loss, by how well classes are separated",
        "concentration of the classes",
        "L_Biased - L_Unbiased",
        [Line("measured, N = 510", kappas, gaps), Line("limit", kappas, limits, "corrected")],
    )
    return Claim("Lemma 1, limit", "the gap tends to E log(1 - tau + tau m_plus / m_minus)", "equal", cases, [plot])


# Two claims look at the same anchors.
@cache
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
    tau_plus = float(world.tau_plus[0])
    printed, corrected = (
        bias_gap_bound(log_ratio, tau_plus, n, temperature=world.temperature, which=which)
        for which in ("printed", "corrected")
    )
    gap = biased_loss(world, n) - unbiased_loss(world, n)
    return Case(f"{name}, N = {n}", gap, corrected, printed)
