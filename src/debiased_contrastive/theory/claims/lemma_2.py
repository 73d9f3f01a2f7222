"""With many true negatives the loss tends to one that needs only expectations."""

import math

from debiased_contrastive.theory.claim import Case, Claim, Line, Plot
from debiased_contrastive.theory.finite_sample import jensen_gap_bound
from debiased_contrastive.theory.worlds.two_point import TwoPointWorld

COUNTS = (1, 4, 8, 16, 64, 256, 512)
Q = 8.0


def lemma_2() -> Claim:
    """The limit itself: true negatives on one side, p and p+ on the other."""
    cases = []
    for tau, q_plus, q_minus, t in ((0.1, 0.9, 0.3, 1.0), (0.5, 0.2, 0.6, 1.0), (0.3, 0.8, 0.1, 0.5)):
        world = TwoPointWorld(tau, q_plus, q_minus, h_plus=1.0, temperature=t)
        value = math.log1p(Q * (world.mean(world.q) - tau * world.mean(q_plus)) / (1 - tau))
        measured = world.mean_loss(2**16, q_minus, Q)
        where = f"two-point world, tau = {tau}, t = {t}, Q = 8, N = 65536"
        cases.append(Case(where, measured, value, value, tolerance=jensen_gap_bound(2**16, temperature=t)))
    statement = "the loss of many true negatives is log(1 + Q (m - tau m_plus) / (tau_minus h+))"
    return Claim("Lemma 2", statement, "equal", cases)


def lemma_2_rate() -> Claim:
    """The distance to the limit, under a bound that falls like 1 / N."""
    cases = []
    for q_minus, h_plus, t in ((0.3, 1.0, 1.0), (0.05, math.exp(-1), 1.0), (0.5, math.exp(-2), 0.5)):
        world = TwoPointWorld(0.1, 0.9, q_minus, h_plus=h_plus, temperature=t)
        distances = [_distance(world, n) for n in COUNTS]
        bounds = [jensen_gap_bound(n, temperature=t) for n in COUNTS]
        cases += [
            Case(f"two-point world, q = {q_minus}, t = {t}, Q = 8, N = {n}", distance, bound)
            for n, distance, bound in zip(COUNTS, distances, bounds, strict=True)
        ]
    world = TwoPointWorld(0.1, 0.9, 0.3)
    lines = [
        Line("measured", COUNTS, [_distance(world, n) for n in COUNTS]),
        Line("bound", COUNTS, [jensen_gap_bound(n) for n in COUNTS], "corrected"),
    ]
    plot = Plot("lemma-2", "Lemma 2: distance of the loss to its limit, Q = 8", "N", "difference", lines)
    return Claim("Lemma 2, rate", "the distance to the limit falls like 1 / N", "at most", cases, [plot])


def _distance(world: TwoPointWorld, n: int) -> float:
    assert world.h_plus is not None
    return math.log1p(Q * world.mean_negative / world.h_plus) - world.mean_loss(n, world.q_minus, Q)
