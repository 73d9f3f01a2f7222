"""The debiased loss bounds what a classifier on the embedding can reach, from N = K - 1 on."""

import math

import torch

from debiased_contrastive.theory.claim import Case, Claim
from debiased_contrastive.theory.losses import (
    debiased_limit,
    mean_classifier_loss,
    supervised_loss,
    supervised_losses,
)
from debiased_contrastive.theory.worlds.discrete import DiscreteWorld, circle, collapsed, constant
from debiased_contrastive.theory.worlds.von_mises_fisher import VonMisesFisherWorld, orthogonal_means

SAMPLES = 20_000


def lemma_4() -> Claim:
    """Both inequalities, N = K - 1, tasks of all classes and of some."""
    cases = []
    for name, world, classes in _worlds():
        best, mean = supervised_losses(world, classes)
        limit = debiased_limit(world, classes - 1)
        cases.append(Case(f"{name}, K = {classes}: mean classifier, N = K - 1", mean, limit, limit))
        cases.append(Case(f"{name}, K = {classes}: best classifier", best, mean, mean))
    for t in (1.0, 0.5):
        best, mean, limit, error = sphere_losses(9, t)
        where = f"ten classes on the sphere, t = {t}"
        cases.append(Case(f"{where}: mean classifier, N = 9", mean, limit, limit, error=error))
        cases.append(Case(f"{where}: best classifier", best, mean, mean))
    return Claim("Lemma 4", "L_Sup <= L_Sup^mu <= the limit of the debiased loss, N >= K - 1", "at most", cases)


def lemma_4_needs_its_condition() -> Claim:
    """With one sample fewer it fails: the second inequality for both encoders, the whole for the constant one."""
    cases = []
    for name, world, classes in _worlds()[:2]:
        _, mean = supervised_losses(world)
        cases.append(Case(f"{name}: mean classifier, N = K - 2", mean, debiased_limit(world, classes - 2)))
    best, _ = supervised_losses(constant(10))
    cases.append(Case("constant encoder: best classifier, N = K - 2", best, debiased_limit(constant(10), 8)))
    _, mean, limit, error = sphere_losses(8, 1.0)
    cases.append(Case("ten classes on the sphere: mean classifier, N = 8", mean, limit, error=error))
    return Claim("Lemma 4, N = K - 2", "there the classifier's loss exceeds the debiased one", "above", cases)


def sphere_losses(num_negatives: int, temperature: float) -> tuple[float, float, float, float]:
    """L_Sup, L_Sup^mu, the limit, and four standard errors of the difference of the last two."""
    world = VonMisesFisherWorld(orthogonal_means(10, 16), 200.0, temperature)
    generator = torch.Generator().manual_seed(3)
    x, labels = world.sample(SAMPLES, generator)
    h_plus = ((x * world.members(labels, generator)).sum(1) / temperature).exp()
    limits = torch.log1p(num_negatives * world.critic_means(x, labels)[2] / h_plus)
    weights = torch.full((SAMPLES,), 1 / SAMPLES, dtype=torch.float64)
    given = (x, labels, weights, world.class_means, temperature)
    logits = x @ world.class_means.T / temperature
    losses = logits.logsumexp(1) - logits.gather(1, labels.unsqueeze(1))[:, 0]
    error = 4 * float((limits - losses).std()) / math.sqrt(SAMPLES)
    return supervised_loss(*given), mean_classifier_loss(*given), float(limits.mean()), error


def _worlds() -> list[tuple[str, DiscreteWorld, int]]:
    return [
        ("constant encoder", constant(10), 10),
        ("collapsed classes", collapsed(10), 10),
        ("collapsed classes, t = 0.5", collapsed(10, temperature=0.5), 10),
        ("circle", circle(), 3),
        ("circle, t = 0.5", circle(temperature=0.5), 3),
        ("circle", circle(), 2),
        ("collapsed classes", collapsed(6), 3),
    ]
