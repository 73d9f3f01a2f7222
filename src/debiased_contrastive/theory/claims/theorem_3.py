"""N + M samples come near the limit: how near, how fast, how surely."""

import math
from collections.abc import Iterator

import torch

from debiased_contrastive.objectives.losses import contrastive_loss
from debiased_contrastive.theory.claim import Case, Claim, Line, Plot
from debiased_contrastive.theory.finite_sample import finite_sample_bound, second_order_bound, tail_bound
from debiased_contrastive.theory.worlds.two_point import TwoPointWorld
from debiased_contrastive.theory.worlds.von_mises_fisher import VonMisesFisherWorld, orthogonal_means

COUNTS = (16, 32, 64, 128, 256, 512, 1024)
MANY = 4096
RANDOM = 300


def theorem_3() -> Claim:
    """The mean absolute difference in two-point worlds, and on the sphere with the library's own loss."""
    worlds = [("two-point world", TwoPointWorld(0.1, 0.9, 0.3), 16, 4)]
    worlds += [("random two-point world", *drawn) for drawn in _random_worlds()]
    cases = []
    for name, world, n, m in worlds:
        delta, weights = world.differences(n, m)
        where = f"{name}, tau = {world.tau_plus:.2f}, N = {n}, M = {m}"
        cases.append(_case(where, float((delta.abs() * weights).sum()), world.tau_plus, n, m))
    for t in (1.0, 0.5):
        measured, error = sphere_difference(510, 8, t)
        cases.append(_case(f"ten classes, t = {t}, N = 510, M = 8", measured, 0.1, 510, 8, t, error))
    plot = Plot(
        "theorem-3",
        "Theorem 3: mean distance of the debiased loss to its limit, tau = 0.1, M = 4096",
        "N",
        "E |difference|",
        [*_curves(), *_bounds()],
    )
    statement = "the mean |L_Debiased^{N,M} - limit| is at most the bound"
    return Claim("Theorem 3", statement, "at most", cases, [plot])


def theorem_3_temperature() -> Claim:
    """The constants at other temperatures, beside the printed ones, which are said to be free of it."""
    cases = []
    for t in (1.0, 0.5, 0.2, 0.1):
        for n, m in ((128, 32), (510, 8)):
            # One large value among the negatives of most draws, and the farthest x+.
            world = TwoPointWorld(0.1, 0.9, 1 / n, math.exp(-1 / t), t)
            delta, weights = world.differences(n, m)
            measured = float((delta.abs() * weights).sum())
            corrected = finite_sample_bound(0.1, n, m, temperature=t)
            printed = finite_sample_bound(0.1, n, m, which="printed")
            cases.append(Case(f"two-point world, t = {t}, N = {n}, M = {m}", measured, corrected, printed))
    return Claim("Theorem 3, temperature", "the bound at t = 1 holds at every temperature", "at most", cases)


def theorem_3_proof() -> Claim:
    """The last step of the printed proof, the integral of the tail, by sums over a fine grid."""
    cases = []
    epsilons = torch.linspace(0, 40, 200_001, dtype=torch.float64)
    for n, m in ((510, 1), (510, 8), (64, 64)):
        tail = [tail_bound(epsilon, 0.1, n, m, which="printed") for epsilon in epsilons.tolist()]
        integral = float(torch.trapezoid(torch.tensor(tail, dtype=torch.float64), epsilons))
        proof, printed = (finite_sample_bound(0.1, n, m, which=which) for which in ("printed proof", "printed"))
        cases.append(Case(f"tau = 0.1, N = {n}, M = {m}", integral, proof, printed, 1e-6))
    return Claim("Theorem 3, its proof", "the integral of the tail of Lemma A.2 is the bound", "equal", cases)


def theorem_3_bias() -> Claim:
    """The signed difference: of second order, off the floor."""
    cases, lines = [], []
    for q_minus, name in ((0.3, "off the floor"), (0.0, "on the floor")):
        world = TwoPointWorld(0.1, 0.9, q_minus)
        biases = []
        for n in COUNTS:
            delta, weights = world.differences(n, MANY)
            biases.append(abs(float((delta * weights).sum())))
            second = second_order_bound(world.variance(n, MANY), world.mean_negative)
            bound = min(second, finite_sample_bound(0.1, n, MANY))
            cases.append(Case(f"{name}, N = {n}, M = {MANY}", biases[-1], bound))
        lines.append(Line(name, COUNTS, biases))
    plot = Plot(
        "theorem-3-bias",
        "Theorem 3, signed: the bias of the debiased loss, tau = 0.1, M = 4096",
        "N",
        "|E difference|",
        [*lines, *_bounds()],
    )
    return Claim("Theorem 3, second order", "the bias is at most V max{E^2 / 2, ...}", "at most", cases, [plot])


def theorem_3_rate() -> Claim:
    """Slopes in double logarithms."""
    cases = []
    for q_minus, name, slope, width in ((0.3, "off the floor", -1.0, 0.1), (0.0, "on the floor", -0.45, 0.1)):
        world = TwoPointWorld(0.1, 0.9, q_minus)
        found = []
        for n in (16, 1024):
            delta, weights = world.differences(n, MANY)
            found.append(math.log(abs(float((delta * weights).sum()))))
        measured = (found[1] - found[0]) / math.log(1024 / 16)
        cases.append(Case(f"{name}, N = 16 to 1024", measured, slope, None, width))
    return Claim("Theorem 3, rate", "the bias falls like 1 / N, like 1 / sqrt(N) on the floor", "equal", cases)


def lemma_a2() -> Claim:
    """The probability of a large difference."""
    cases = []
    fixed = (TwoPointWorld(0.1, 0.9, 0.3), 128, 32)
    for world, n, m in (fixed, *_random_worlds()):
        delta, weights = world.differences(n, m)
        for epsilon in (0.1, 0.3, 1.0):
            sizes = (epsilon, world.tau_plus, n, m)
            printed, corrected = tail_bound(*sizes, which="printed"), tail_bound(*sizes)
            where = f"two-point world, tau = {world.tau_plus:.2f}, N = {n}, M = {m}, eps = {epsilon}"
            # A probability is below 1 without any lemma.
            if corrected < 1:
                cases.append(Case(where, float(weights[delta.abs() >= epsilon].sum()), corrected, printed))
    return Claim("Lemma A.2", "P(|difference| >= eps) is at most the bound", "at most", cases)


def sphere_difference(num_unlabeled: int, num_positives: int, temperature: float) -> tuple[float, float]:
    """E |Delta| of the library's loss among ten classes, and four standard errors of it."""
    world = VonMisesFisherWorld(orthogonal_means(10, 16), 20.0, temperature)
    generator = torch.Generator().manual_seed(1)
    parts = []
    for _ in range(8):
        x, labels = world.sample(250, generator)
        s_plus = (x * world.members(labels, generator)).sum(1) / temperature
        drawn, _ = world.sample(250 * num_unlabeled, generator)
        own = world.members(labels.unsqueeze(1).expand(-1, num_positives), generator)
        u, v = (torch.einsum("ad,and->an", x, z.view(250, -1, 16)) / temperature for z in (drawn, own))
        losses = contrastive_loss(s_plus, u, v, tau_plus=0.1, lower=-1 / temperature, reduction="none")
        limits = torch.log1p(num_unlabeled * world.critic_means(x, labels)[2] / s_plus.exp())
        parts.append((losses - limits).abs())
    found = torch.cat(parts)
    return float(found.mean()), 4 * float(found.std()) / math.sqrt(len(found))


def _case(where: str, measured: float, tau: float, n: int, m: int, t: float = 1.0, error: float = 0.0) -> Case:
    printed, corrected = (
        finite_sample_bound(tau, n, m, temperature=t, which=which) for which in ("printed", "corrected")
    )
    return Case(where, measured, corrected, printed, error)


def _random_worlds() -> Iterator[tuple[TwoPointWorld, int, int]]:
    generator = torch.Generator().manual_seed(2)
    for tau, q_plus, q_minus, h, n, m in torch.rand(RANDOM, 6, dtype=torch.float64, generator=generator).tolist():
        yield TwoPointWorld(0.9 * tau, q_plus, q_minus, math.exp(2 * h - 1)), 1 + int(128 * n), 1 + int(32 * m)


def _curves() -> list[Line]:
    lines = []
    for q_minus, name in ((0.3, "off the floor"), (0.0, "on the floor")):
        world = TwoPointWorld(0.1, 0.9, q_minus)
        means = []
        for n in COUNTS:
            delta, weights = world.differences(n, MANY)
            means.append(float((delta.abs() * weights).sum()))
        lines.append(Line(name, COUNTS, means))
    return lines


def _bounds() -> list[Line]:
    return [
        Line(
            "printed bound", COUNTS, [finite_sample_bound(0.1, n, MANY, which="printed") for n in COUNTS], "printed"
        ),
        Line("corrected bound", COUNTS, [finite_sample_bound(0.1, n, MANY) for n in COUNTS], "corrected"),
    ]
