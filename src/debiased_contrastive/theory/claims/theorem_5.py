"""The guarantee, on an embedding that was learned: the best of a small class, by its loss on a sample."""

import math
from functools import cache

import torch
from torch import Tensor

from debiased_contrastive.objectives.losses import contrastive_loss
from debiased_contrastive.theory.claim import Case, Claim, Line, Plot
from debiased_contrastive.theory.claims.lemma_a4 import steep_norm
from debiased_contrastive.theory.generalization import Guarantee, generalization_bound
from debiased_contrastive.theory.losses import debiased_loss, supervised_losses
from debiased_contrastive.theory.rademacher import finite_class_complexity
from debiased_contrastive.theory.worlds.discrete import DiscreteWorld, circle

EMBEDDINGS, NUM_UNLABELED, NUM_POSITIVES, TAU_PLUS = 32, 4, 2, 1 / 3
SAMPLE_SIZES = (30, 100, 1000, 10_000)
REPEATS = 20
DELTA = 0.05


def theorem_5() -> Claim:
    """Worst of twenty samples each: what learning cost against the two terms for it, and the whole guarantee."""
    worlds, losses = embeddings()
    cases, costs, terms = [], [], []
    for num_anchors in SAMPLE_SIZES:
        learned, guarantee = learn(num_anchors)
        cost, term = max(losses[k] for k in learned) - min(losses), guarantee.complexity + guarantee.confidence
        supervised = max(supervised_losses(worlds[k])[0] for k in set(learned))
        cases.append(Case(f"loss of the learned over that of the best, T = {num_anchors}", cost, term))
        cases.append(Case(f"L_Sup of the learned, T = {num_anchors}", supervised, min(losses) + guarantee.total))
        costs.append(max(cost, 1e-4))
        terms.append(term)
    lines = [
        Line("measured, worst of twenty", SAMPLE_SIZES, costs),
        Line("both terms, factors included", SAMPLE_SIZES, terms, "corrected"),
    ]
    plot = Plot("theorem-5", "Theorem 5: what learning from T anchors costs", "T", "debiased loss", lines)
    statement = "the loss of the learned embedding exceeds that of the best by at most the terms"
    return Claim("Theorem 5, explicit form", statement, "at most", cases, [plot])


def theorem_5_deviation() -> Claim:
    """What the two terms are made of: the largest amount by which a sample flatters an embedding."""
    cases = []
    for num_anchors in SAMPLE_SIZES:
        _, losses = embeddings()
        flattered = max(
            max(true - seen for true, seen in zip(losses, row, strict=True)) for row in _seen(num_anchors)
        )
        _, guarantee = learn(num_anchors)
        bound = guarantee.complexity + 0.75 * guarantee.confidence
        cases.append(Case(f"best of {EMBEDDINGS} embeddings of six points, T = {num_anchors}", flattered, bound))
    statement = "no embedding's loss exceeds its mean over T anchors by more than 2 lambda R_S / T + 3 B sqrt(...)"
    return Claim("Theorem 5, deviation", statement, "at most", cases)


def theorem_5_lambda() -> Claim:
    """The derivation of lambda from the slope, both up to the factor e^2 that the paper's O(.) may hide."""
    cases = []
    square = math.e**2
    for n, m, tau in ((510, 1, 0.8), (510, 8, 0.8), (510, 1, 0.1), (65536, 1, 0.1)):
        needed = steep_norm(n, m, tau, 1.0) * math.sqrt(n + m) / square
        sizes = {"rademacher": 0.0, "num_anchors": 1.0}
        corrected = generalization_bound(tau, n, m, **sizes, which="corrected").lipschitz / square
        printed = generalization_bound(tau, n, m, **sizes, which="printed").lipschitz
        cases.append(Case(f"steep logits, N = {n}, M = {m}, tau = {tau}", needed, corrected, printed))
    statement = "the gradient's norm times sqrt(N + M) / e^2 is at most lambda"
    return Claim("Theorem 5, lambda", statement, "at most", cases, subject="proof")


@cache
def embeddings() -> tuple[list[DiscreteWorld], list[float]]:
    """Six points placed on the circle, as the classes are and ever more at random; and their debiased losses."""
    base = circle()
    generator = torch.Generator().manual_seed(4)
    worlds = []
    for noise in torch.linspace(0, 3, EMBEDDINGS, dtype=torch.float64).tolist():
        points = base.points + noise * torch.randn(base.points.shape, dtype=torch.float64, generator=generator)
        unit = points / points.norm(dim=1, keepdim=True)
        worlds.append(DiscreteWorld(unit, base.labels, base.probabilities))
    return worlds, [debiased_loss(world, NUM_UNLABELED, NUM_POSITIVES) for world in worlds]


def learn(num_anchors: int) -> tuple[list[int], Guarantee]:
    """Which embedding has the smallest loss on each sample, and the guarantee, by R_S of the first of them."""
    chosen = [min(range(len(row)), key=row.__getitem__) for row in _seen(num_anchors)]
    generator = torch.Generator().manual_seed(6)
    x, u, own = _sample(num_anchors, 0)
    sample = torch.cat([x.unsqueeze(1), own, u], 1).flatten()
    features = torch.stack([world.points[sample] for world in embeddings()[0]])
    complexity = finite_class_complexity(features, 100, generator)
    guarantee = generalization_bound(
        TAU_PLUS, NUM_UNLABELED, NUM_POSITIVES,
        rademacher=complexity.value + 4 * complexity.error, num_anchors=num_anchors, delta=DELTA, which="explicit",
    )  # fmt: skip
    return chosen, guarantee


@cache
def _seen(num_anchors: int) -> list[list[float]]:
    """The mean losses of all embeddings on each of the samples."""
    return [[_loss(world, *_sample(num_anchors, repeat)) for world in embeddings()[0]] for repeat in range(REPEATS)]


def _sample(num_anchors: int, repeat: int) -> tuple[Tensor, Tensor, Tensor]:
    world, generator = circle(), torch.Generator().manual_seed(100 + repeat)
    x = torch.multinomial(world.probabilities, num_anchors, replacement=True, generator=generator)
    u = world.sample(world.of_p, x, NUM_UNLABELED, generator)
    return x, u, world.sample(world.of_positives, x, 1 + NUM_POSITIVES, generator)


def _loss(world: DiscreteWorld, x: Tensor, u: Tensor, own: Tensor) -> float:
    scores = world.scores[x]
    s = scores.gather(1, own)
    return float(contrastive_loss(s[:, 0], scores.gather(1, u), s[:, 1:], tau_plus=TAU_PLUS, lower=-1.0))
