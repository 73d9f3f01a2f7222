"""The alternating sum is the unbiased loss, and cannot be used."""

import math

import torch

from debiased_contrastive.objectives.exact import inclusion_exclusion_loss
from debiased_contrastive.theory.claim import Case, Claim, Line, Plot
from debiased_contrastive.theory.claims.setup import SIZES
from debiased_contrastive.theory.losses import inclusion_exclusion, unbiased_loss
from debiased_contrastive.theory.worlds.discrete import DiscreteWorld, circle

DRAWS = 20_000
COUNTS = (1, 2, 4, 6, 8, 10, 12)


def equation_4() -> Claim:
    """Both sides by enumeration, for classes of equal and of different sizes."""
    cases = []
    for name, world in (("circle", circle()), ("classes of 50, 30 and 20 %", circle(probabilities=SIZES))):
        for n in (1, 2, 3, 4):
            exact = unbiased_loss(world, n)
            cases.append(Case(f"{name}, N = {n}", inclusion_exclusion(world, n), exact, exact))
    return Claim("Equation 4", "the alternating sum is the unbiased loss", "equal", cases)


def equation_4_spread() -> Claim:
    """How the standard deviation of one estimate grows with every two samples that should help."""
    world = circle()
    tau = float(world.tau_plus[0])
    spreads, plain = ([_spread(world, n, prior) for n in COUNTS] for prior in (tau, 0.0))
    growth = [((1 + tau) / (1 - tau)) ** n for n in COUNTS]
    plot = Plot(
        "equation-4",
        "One estimate by the alternating sum, by the number of samples",
        "N",
        "standard deviation",
        [
            Line("Eq. 4", COUNTS, spreads),
            Line("Eq. 1, the biased loss", COUNTS, plain),
            Line("sum of its coefficients, ((1 + tau) / (1 - tau))^N", COUNTS, growth, "corrected"),
        ],
        "linear",
    )
    cases = [
        # Twice the spread for two more samples; the biased loss's spread falls.
        Case(
            f"circle, spread at N = {COUNTS[k]} over that at N = {COUNTS[k - 1]}", spreads[k] / spreads[k - 1], 2.0
        )
        for k in range(4, len(COUNTS))
    ]
    statement = "from N = 6 on, two more samples more than double its standard deviation"
    return Claim("Equation 4, spread", statement, "above", cases, [plot])


def _spread(world: DiscreteWorld, n: int, tau_plus: float) -> float:
    generator = torch.Generator().manual_seed(0)
    anchors = torch.multinomial(world.probabilities, DRAWS, replacement=True, generator=generator)
    first = world.sample(world.of_positives, anchors, 1, generator)
    u, v = (world.sample(rows, anchors, n, generator) for rows in (world.of_p, world.of_positives))
    scores = world.scores[anchors]
    s_plus, u, v = (scores.gather(1, chosen) for chosen in (first, u, v))
    estimates = inclusion_exclusion_loss(s_plus[:, 0], u, v, tau_plus=tau_plus, reduction="none")
    return math.sqrt(float(estimates.var()))
