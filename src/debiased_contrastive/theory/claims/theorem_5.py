"""The guarantee, on an embedding that was learned: the best of a small class, by its loss on a sample."""

import math
from typing import Literal

import torch
from torch import Tensor

from debiased_contrastive.objectives.losses import contrastive_loss
from debiased_contrastive.theory.claim import Case, Claim, Line, Plot
from debiased_contrastive.theory.claims.lemma_a4 import steepest_norm
from debiased_contrastive.theory.generalization import Guarantee, generalization_bound
from debiased_contrastive.theory.losses import debiased_loss, supervised_losses
from debiased_contrastive.theory.rademacher import finite_class_complexity
from debiased_contrastive.theory.worlds.discrete import DiscreteWorld, circle

EMBEDDINGS, NUM_UNLABELED, NUM_POSITIVES = 32, 4, 2
SAMPLE_SIZES = (100, 1000, 10_000)
DELTA = 0.05


def theorem_5() -> Claim:
    """L_Sup of the learned embedding, under the debiased loss of the best one plus the terms."""
    worlds = embeddings()
    losses = [debiased_loss(world, NUM_UNLABELED, NUM_POSITIVES) for world in worlds]
    cases, totals = [], []
    for num_anchors in SAMPLE_SIZES:
        learned, corrected, printed = learn(worlds, num_anchors)
        supervised, _ = supervised_losses(worlds[learned])
        totals.append(corrected.total)
        where = f"best of {EMBEDDINGS} embeddings of six points, T = {num_anchors}"
        cases.append(Case(where, supervised, min(losses) + corrected.total, min(losses) + printed.total))
    plot = Plot(
        "theorem-5",
        "Theorem 5: what is added to the debiased loss, by the number of anchors",
        "T",
        "sum of the terms",
        [
            Line("all terms, constants included", SAMPLE_SIZES, totals, "corrected"),
            Line("log K, where a guarantee begins to say something", SAMPLE_SIZES, [math.log(3)] * len(totals)),
        ],
    )
    return Claim("Theorem 5", "L_Sup(learned) <= L_Debiased(best) + terms", "at most", cases, [plot])


def theorem_5_lambda() -> Claim:
    """Both up to a factor, e^2, that the paper's O(.) hides: still the printed one is too small."""
    cases = []
    square = math.e**2
    for n, m, tau in ((510, 1, 0.1), (510, 8, 0.1), (65536, 1, 0.1), (510, 1, 0.8)):
        needed = steepest_norm(n, m, tau, 1.0) * math.sqrt(n + m) / square
        corrected, printed = _lambda(n, m, tau, "corrected") / square, _lambda(n, m, tau, "printed")
        cases.append(Case(f"steepest logits, N = {n}, M = {m}, tau = {tau}", needed, corrected, printed))
    return Claim(
        "Theorem 5, lambda", "the gradient's norm times sqrt(N + M) / e^2 is at most lambda", "at most", cases
    )


def embeddings() -> list[DiscreteWorld]:
    """Six points placed on the circle: as the classes are, and ever more at random."""
    base = circle()
    generator = torch.Generator().manual_seed(4)
    worlds = []
    for noise in torch.linspace(0, 3, EMBEDDINGS, dtype=torch.float64).tolist():
        points = base.points + noise * torch.randn(base.points.shape, dtype=torch.float64, generator=generator)
        unit = points / points.norm(dim=1, keepdim=True)
        worlds.append(DiscreteWorld(unit, base.labels, base.probabilities))
    return worlds


def learn(worlds: list[DiscreteWorld], num_anchors: int) -> tuple[int, Guarantee, Guarantee]:
    """Which embedding has the smallest loss on T anchors with their samples, and its guarantee, by both forms."""
    world, generator = worlds[0], torch.Generator().manual_seed(5)
    x = torch.multinomial(world.probabilities, num_anchors, replacement=True, generator=generator)
    u = world.sample(world.of_p, x, NUM_UNLABELED, generator)
    own = world.sample(world.of_positives, x, 1 + NUM_POSITIVES, generator)
    losses = [_loss(candidate, x, u, own) for candidate in worlds]
    sample = torch.cat([x.unsqueeze(1), own, u], 1).flatten()
    features = torch.stack([candidate.points[sample] for candidate in worlds])
    complexity = finite_class_complexity(features, 100, generator)
    given = {"rademacher": complexity.value + 4 * complexity.error, "num_anchors": num_anchors, "delta": DELTA}
    sizes = (1 / 3, NUM_UNLABELED, NUM_POSITIVES)
    corrected = generalization_bound(*sizes, **given, which="tighter")
    printed = generalization_bound(*sizes, **given, which="printed")
    return min(range(len(losses)), key=losses.__getitem__), corrected, printed


def _loss(world: DiscreteWorld, x: Tensor, u: Tensor, own: Tensor) -> float:
    scores = world.scores[x]
    s = scores.gather(1, own)
    return float(contrastive_loss(s[:, 0], scores.gather(1, u), s[:, 1:], tau_plus=1 / 3, lower=-1.0))


def _lambda(n: int, m: int, tau: float, which: Literal["printed", "corrected"]) -> float:
    return generalization_bound(tau, n, m, rademacher=0, num_anchors=1, which=which).lipschitz
