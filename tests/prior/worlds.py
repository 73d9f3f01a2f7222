"""Similarities of pairs on the sphere, where the prior is known."""

import torch

from debiased_contrastive.prior.estimate import Scores
from debiased_contrastive.theory.worlds import (
    VonMisesFisherWorld,
    orthogonal_means,
    random_means,
)

KAPPA = {2: 60.0, 5: 60.0, 10: 60.0, 20: 80.0, 50: 150.0}


def world_of(classes: int, *, kappa: float | None = None, means: str = "orthogonal", seed: int = 0,
             priors: torch.Tensor | None = None) -> VonMisesFisherWorld:  # fmt: skip
    dimension = 32 if classes <= 10 else 64
    generator = torch.Generator().manual_seed(1000 + seed)
    made = (
        orthogonal_means(classes, dimension)
        if means == "orthogonal"
        else random_means(classes, dimension, generator)
    )
    return VonMisesFisherWorld(made, kappa or KAPPA[classes], priors=priors)


def scores_of(
    world: VonMisesFisherWorld, seed: int, *, surrogate: float | None = None, wrong: float = 0.0,
    pairs: tuple[int, int] = (3000, 30_000),
) -> Scores:  # fmt: skip
    """Positive pairs of one class, or stand-ins around the anchor, a share of them wrong; and random pairs."""
    generator = torch.Generator().manual_seed(seed)
    x, labels = world.sample(pairs[0], generator)
    y = world.members(labels, generator) if surrogate is None else world.surrogates(x, surrogate, generator)
    if wrong:
        others = world.others(labels, 1, generator)[:, 0]
        y = torch.where(torch.rand(len(x), 1, generator=generator, dtype=torch.float64) < wrong, others, y)
    u, _ = world.sample(2 * pairs[1], generator)
    return Scores((x * y).sum(1).numpy(), (u[::2] * u[1::2]).sum(1).numpy())
