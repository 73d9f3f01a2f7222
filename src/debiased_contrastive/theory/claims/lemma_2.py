"""With many true negatives the loss tends to one that needs only expectations."""

import math

from debiased_contrastive.theory.claim import Case, Claim, Line, Plot
from debiased_contrastive.theory.setting import largest_critic
from debiased_contrastive.theory.worlds.two_point import TwoPointWorld

COUNTS = (1, 4, 8, 16, 64, 256, 512)
Q = 8.0


def lemma_2() -> Claim:
    """The distance to the limit, under a bound that falls like 1 / N."""
    world = TwoPointWorld(0.1, 0.9, 0.3)
    limit = math.log1p(Q * world.mean_negative / world.h_plus)
    distances = [abs(world.many_negatives_loss(n, Q) - limit) for n in COUNTS]
    # The logarithm's curvature in the mean, at most E^2, times half the variance of the mean.
    bounds = [(largest_critic(1.0) ** 2 - 1) ** 2 / (8 * n) for n in COUNTS]
    cases = [
        Case(f"two-point world, Q = 8, N = {n}", distance, bound)
        for n, distance, bound in zip(COUNTS, distances, bounds, strict=True)
    ]
    plot = Plot(
        "lemma-2",
        "Lemma 2: distance of the loss to its limit, Q = 8",
        "N",
        "difference",
        [Line("measured", COUNTS, distances), Line("bound", COUNTS, bounds, "corrected")],
    )
    return Claim("Lemma 2", "the loss of N true negatives tends to Eq. 6, like 1 / N", "at most", cases, [plot])


def lemma_2_limit() -> Claim:
    """The limit itself, from true negatives alone and from p and p+."""
    world = TwoPointWorld(0.1, 0.9, 0.3)
    m, m_plus = float(world.mean(world.q)), float(world.mean(world.q_plus))
    value = math.log1p(Q * (m - 0.1 * m_plus) / 0.9)
    measured = world.many_negatives_loss(2**16, Q)
    return Claim(
        "Lemma 2, limit",
        "the limit is log(1 + Q (m - tau m_plus) / (tau_minus h+))",
        "equal",
        [Case("two-point world, Q = 8, N = 65536", measured, value, value, 1e-4)],
    )
