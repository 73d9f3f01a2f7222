"""N + M samples come near the limit: how near, how fast, how surely."""

import math
from collections.abc import Iterator

import torch

from debiased_contrastive.objectives.losses import contrastive_loss
from debiased_contrastive.theory.claim import Case, Claim, Line, Plot, forms
from debiased_contrastive.theory.finite_sample import finite_sample_bound, second_order_bound, tail_bound
from debiased_contrastive.theory.worlds.two_point import TwoPointWorld
from debiased_contrastive.theory.worlds.von_mises_fisher import VonMisesFisherWorld, orthogonal_means

COUNTS = (16, 32, 64, 128, 256, 512, 1024)
MANY = 4096
RANDOM = 100
FLOORS = ((0.3, "off the floor"), (0.0, "on the floor"))
"""Shares of the negatives that lie at the anchor."""


def theorem_3() -> Claim:
    """The mean absolute difference, which bounds the printed one, in two-point worlds and on the sphere."""
    worlds = [("two-point world", TwoPointWorld(0.1, 0.9, 0.3), 16, 4)]
    worlds += [("random two-point world", *drawn) for drawn in _random_worlds()]
    cases = []
    for name, world, n, m in worlds:
        where = f"{name}, tau = {world.tau_plus:.2f}, N = {n}, M = {m}"
        cases.append(Case(where, distance(world, n, m), **forms(finite_sample_bound, world.tau_plus, n, m)))
    for t, shared in ((1.0, False), (1.0, True), (0.5, False)):
        measured, error = sphere_difference(510, 8, t, shared)
        where = f"ten classes, t = {t}, N = 510, M = 8" + (", x+ among the positives" if shared else "")
        bounds = forms(finite_sample_bound, 0.1, 510, 8, temperature=t)
        cases.append(Case(where, measured, **bounds, error=error))
    lines = [
        Line(name, COUNTS, [distance(TwoPointWorld(0.1, 0.9, q), n, MANY) for n in COUNTS]) for q, name in FLOORS
    ]
    title = "Theorem 3: mean distance of the debiased loss to its limit, tau = 0.1, M = 4096"
    plot = Plot("theorem-3", title, "N", "E |difference|", [*lines, *_bounds()])
    statement = "the mean |L_Debiased^{N,M} - limit| is at most the bound"
    return Claim("Theorem 3", statement, "at most", cases, [plot])


def theorem_3_temperature() -> Claim:
    """The printed constant has no temperature in it.

    All classes are spread over the same D orthogonal points, so a sample lies at the anchor with probability 1 / D
    and at a right angle to it else. With N = D / 2 about half the draws hold no such sample.
    """
    cases = []
    for t in (1.0, 0.5, 0.2, 0.1):
        for n, m, points in ((128, 32, 128), (510, 600, 1020)):
            world = TwoPointWorld(0.1, 1 / points, 1 / points, h_plus=None, temperature=t, far=0.0)
            corrected = finite_sample_bound(0.1, n, m, temperature=t)
            printed = finite_sample_bound(0.1, n, m, which="printed")
            where = f"{points} orthogonal points, t = {t}, N = {n}, M = {m}"
            cases.append(Case(where, bias(world, n, m), corrected, printed))
    return Claim("Theorem 3, temperature", "the bound at t = 1 holds at every temperature", "at most", cases)


def theorem_3_proof() -> Claim:
    """The last step of the printed proof, the integral of the tail, by sums over a fine grid."""
    cases = []
    epsilons = torch.linspace(0, 40, 40_001, dtype=torch.float64)
    for n, m in ((510, 1), (510, 8), (64, 64)):
        tail = [tail_bound(epsilon, 0.1, n, m, which="printed") for epsilon in epsilons.tolist()]
        integral = float(torch.trapezoid(torch.tensor(tail, dtype=torch.float64), epsilons))
        proof = finite_sample_bound(0.1, n, m, which="printed proof")
        printed = finite_sample_bound(0.1, n, m, which="printed")
        cases.append(Case(f"tau = 0.1, N = {n}, M = {m}", integral, proof, printed, tolerance=1e-5))
    statement = "the integral of the tail of Lemma A.2 is the bound"
    return Claim("Theorem 3, its proof", statement, "equal", cases, subject="proof")


def theorem_3_bias() -> Claim:
    """The signed difference: of second order, off the floor."""
    cases, lines = [], []
    for q_minus, name in FLOORS:
        world = TwoPointWorld(0.1, 0.9, q_minus)
        biases = [bias(world, n, MANY) for n in COUNTS]
        for n, measured in zip(COUNTS, biases, strict=True):
            second = second_order_bound(world.variance(n, MANY), world.mean_negative)
            bound = min(second, finite_sample_bound(0.1, n, MANY))
            cases.append(Case(f"{name}, N = {n}, M = {MANY}", measured, bound))
        lines.append(Line(name, COUNTS, biases))
    title = "Theorem 3, signed: the bias of the debiased loss, tau = 0.1, M = 4096"
    plot = Plot("theorem-3-bias", title, "N", "|E difference|", [*lines, *_bounds()])
    statement = "the bias is at most V max{E^2 / 2, E / (4 (m_minus - 1/E))}"
    return Claim("Theorem 3, second order", statement, "at most", cases, [plot])


def theorem_3_rate() -> Claim:
    """Slopes in double logarithms, over the last factor of four."""
    cases = []
    for q_minus, name in FLOORS:
        world = TwoPointWorld(0.1, 0.9, q_minus)
        slope = _slope(distance(world, 1024, MANY), distance(world, 4096, MANY))
        cases.append(Case(f"mean distance by N, {name}", slope, -0.5, -0.5, tolerance=0.05))
    # So many unlabeled samples that the positives alone limit it.
    world = TwoPointWorld(0.5, 0.5, 0.5)
    slope = _slope(distance(world, 2**16, 4), distance(world, 2**16, 16))
    cases.append(Case("mean distance by M", slope, -0.5, -0.5, tolerance=0.05))
    for (q_minus, name), wanted in zip(FLOORS, (-1.0, -0.5), strict=True):
        world = TwoPointWorld(0.1, 0.9, q_minus)
        slope = _slope(bias(world, 1024, MANY), bias(world, 4096, MANY))
        cases.append(Case(f"bias by N, {name}", slope, wanted, tolerance=0.05))
    statement = "the mean distance falls like 1 / sqrt(N) and 1 / sqrt(M); off the floor the bias like 1 / N"
    return Claim("Theorem 3, rate", statement, "equal", cases)


def lemma_a2() -> Claim:
    """The probability of a large difference."""
    cases = []
    fixed = (TwoPointWorld(0.1, 0.9, 0.3), 128, 32)
    # Where the slope is largest: everything far, x+ too, and few samples.
    steep = [(TwoPointWorld(0.0, 0.5, q, h_plus=math.exp(-1)), n, 1) for q in (0.1, 0.3) for n in (32, 64, 128)]
    for world, n, m in (fixed, *steep, *_random_worlds()):
        delta, weights = world.differences(n, m)
        for epsilon in (0.3, 0.6, 1.0):
            bounds = forms(tail_bound, epsilon, world.tau_plus, n, m)
            where = f"two-point world, tau = {world.tau_plus:.2f}, N = {n}, M = {m}, eps = {epsilon}"
            # A probability is below 1 without any lemma.
            if bounds["corrected"] < 1:
                cases.append(Case(where, float(weights[delta.abs() >= epsilon].sum()), **bounds))
    return Claim("Lemma A.2", "P(|difference| >= eps) is at most the bound", "at most", cases)


def distance(world: TwoPointWorld, n: int, m: int) -> float:
    """E |Delta|."""
    delta, weights = world.differences(n, m)
    return float((delta.abs() * weights).sum())


def bias(world: TwoPointWorld, n: int, m: int) -> float:
    """|E Delta|."""
    delta, weights = world.differences(n, m)
    return abs(float((delta * weights).sum()))


def sphere_difference(
    num_unlabeled: int, num_positives: int, temperature: float, shared: bool
) -> tuple[float, float]:
    """E |Delta| of the library's loss among ten classes, four standard errors; shared: x+ is a positive, too."""
    world = VonMisesFisherWorld(orthogonal_means(10, 16), 20.0, temperature)
    generator = torch.Generator().manual_seed(1)
    parts = []
    for _ in range(4):
        x, labels = world.sample(250, generator)
        drawn, _ = world.sample(250 * num_unlabeled, generator)
        own = world.members(labels.unsqueeze(1).expand(-1, num_positives + 1), generator)
        u, v = (torch.einsum("ad,and->an", x, z.view(250, -1, 16)) / temperature for z in (drawn, own))
        s_plus, positives = v[:, 0], v[:, :-1] if shared else v[:, 1:]
        losses = contrastive_loss(s_plus, u, positives, tau_plus=0.1, lower=-1 / temperature, reduction="none")
        limits = torch.log1p(num_unlabeled * world.critic_means(x, labels)[2] / s_plus.exp())
        parts.append((losses - limits).abs())
    found = torch.cat(parts)
    return float(found.mean()), 4 * float(found.std()) / math.sqrt(len(found))


def _slope(before: float, after: float) -> float:
    return math.log(after / before) / math.log(4)


def _random_worlds() -> Iterator[tuple[TwoPointWorld, int, int]]:
    generator = torch.Generator().manual_seed(2)
    for tau, q_plus, q_minus, h, n, m in torch.rand(RANDOM, 6, dtype=torch.float64, generator=generator).tolist():
        yield TwoPointWorld(0.9 * tau, q_plus, q_minus, math.exp(2 * h - 1)), 1 + int(128 * n), 1 + int(32 * m)


def _bounds() -> list[Line]:
    bounds = [forms(finite_sample_bound, 0.1, n, MANY) for n in COUNTS]
    return [
        Line("printed bound", COUNTS, [bound["printed"] for bound in bounds], "printed"),
        Line("corrected bound", COUNTS, [bound["corrected"] for bound in bounds], "corrected"),
    ]
