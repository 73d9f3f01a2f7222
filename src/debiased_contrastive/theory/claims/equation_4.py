"""The alternating sum is the unbiased loss, and cannot be used."""

import math

import torch

from debiased_contrastive.objectives.exact import inclusion_exclusion_loss
from debiased_contrastive.theory.claim import Case, Claim, Line, Plot
from debiased_contrastive.theory.losses import inclusion_exclusion, unbiased_loss
from debiased_contrastive.theory.worlds.discrete import DiscreteWorld, circle

DRAWS = 20_000


def equation_4() -> Claim:
    """Both sides by enumeration, for classes of equal and of different sizes."""
    sizes = torch.tensor([0.3, 0.2, 0.15, 0.15, 0.12, 0.08], dtype=torch.float64)
    worlds = (("circle", circle()), ("classes of 50, 30 and 20 %", circle(probabilities=sizes)))
    cases = []
    for name, world in worlds:
        for n in (1, 2, 3, 4):
            exact = unbiased_loss(world, n)
            cases.append(Case(f"{name}, N = {n}", inclusion_exclusion(world, n), exact, exact))
    return Claim("Equation 4", "the alternating sum is the unbiased loss", "equal", cases)


def equation_4_spread() -> Claim:
    """The standard deviation of one estimate, which grows with every sample that should help."""
    world = circle()
    counts = (1, 2, 4, 6, 8, 10, 12)
    spreads = [_spread(world, n, float(world.tau_plus[0])) for n in counts]
    plain = [_spread(world, n, 0.0) for n in counts]
    tau = float(world.tau_plus[0])
    growth = [((1 + tau) / (1 - tau)) ** n for n in counts]
    plot = Plot(
        "equation-4",
        "One estimate by the alternating sum, by the number of samples",
        "N",
        "standard deviation",
        [
            Line("Eq. 4", counts, spreads),
            Line("Eq. 1, the biased loss", counts, plain),
            Line("sum of its coefficients, ((1 + tau) / (1 - tau))^N", counts, growth, "corrected"),
        ],
    )
    cases = [Case(f"circle, N = {n}", high, low) for n, high, low in zip(counts, spreads, plain, strict=True)]
    statement = "its standard deviation exceeds that of the biased loss, ever more"
    return Claim("Equation 4, spread", statement, "at least", cases, [plot])


def _spread(world: DiscreteWorld, n: int, tau_plus: float) -> float:
    generator = torch.Generator().manual_seed(0)
    anchors = torch.multinomial(world.probabilities, DRAWS, replacement=True, generator=generator)
    first = world.sample(world.of_positives, anchors, 1, generator)
    u, v = (world.sample(rows, anchors, n, generator) for rows in (world.of_p, world.of_positives))
    scores = world.scores[anchors]
    s_plus, u, v = (scores.gather(1, chosen) for chosen in (first, u, v))
    estimates = inclusion_exclusion_loss(s_plus[:, 0], u, v, tau_plus=tau_plus, reduction="none")
    return math.sqrt(float(estimates.var()))
