"""Finitely many points: every expectation is a sum, over as many draws as there are."""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

LARGEST_SUM = 2_000_000
"""Draws that are enumerated at once."""


@dataclass(frozen=True, eq=False)
class DiscreteWorld:
    """Points on the sphere with classes and probabilities; classes may be of any size.

    >>> world = circle()
    >>> world.tau_plus
    tensor([0.3333, 0.3333, 0.3333, 0.3333, 0.3333, 0.3333], dtype=torch.float64)
    """

    points: Tensor
    """(k, d) unit vectors."""
    labels: Tensor
    """(k,) classes 0 .. K - 1."""
    probabilities: Tensor
    """(k,) of the points under p."""
    temperature: float = 1.0

    def __post_init__(self) -> None:
        norms = self.points.norm(dim=1)
        if not torch.allclose(norms, torch.ones_like(norms), atol=1e-9):
            raise ValueError(f"points must be unit vectors; got norms from {norms.min()} to {norms.max()}")
        total = float(self.probabilities.sum())
        if abs(total - 1) > 1e-9 or bool((self.probabilities < 0).any()):
            raise ValueError(f"probabilities must be at least 0 and sum to 1; got a sum of {total}")
        if self.labels.unique().numel() < 2:
            raise ValueError("labels must name at least two classes: otherwise there are no true negatives")

    @cached_property
    def scores(self) -> Tensor:
        """(k, k) logits between points."""
        return self.points @ self.points.T / self.temperature

    @cached_property
    def same(self) -> Tensor:
        """(k, k) whether two points share a class."""
        return self.labels.unsqueeze(1) == self.labels

    @cached_property
    def tau_plus(self) -> Tensor:
        """(k,) probability of each anchor's class."""
        return self.same.double() @ self.probabilities

    @cached_property
    def of_p(self) -> Tensor:
        """(k, k) rows: p, the same for every anchor."""
        return self.probabilities.expand(len(self.probabilities), -1)

    @cached_property
    def of_positives(self) -> Tensor:
        """(k, k) rows: p+ of each anchor, the anchor's own point included."""
        return self.same * self.probabilities / self.tau_plus.unsqueeze(1)

    @cached_property
    def of_negatives(self) -> Tensor:
        """(k, k) rows: p- of each anchor."""
        return ~self.same * self.probabilities / (1 - self.tau_plus).unsqueeze(1)

    def critic_mean(self, distribution: Tensor) -> Tensor:
        """(k,) means m, m_plus or m_minus of the critic, by the rows of a distribution."""
        return (distribution * self.scores.exp()).sum(1)

    def draws(self, anchor: int, distribution: Tensor, count: int) -> tuple[Tensor, Tensor]:
        """Sums of the critic over `count` draws, of every outcome, and the outcomes' probabilities."""
        here = distribution[anchor]
        support = here > 0
        h, q = self.scores[anchor, support].exp(), here[support]
        if len(h) ** count > LARGEST_SUM:
            raise ValueError(f"{len(h)} points allow {len(h)}^{count} draws, too many to enumerate: take fewer")
        sums, weights = h.new_zeros(1), h.new_ones(1)
        for _ in range(count):
            sums = (sums.unsqueeze(1) + h).flatten()
            weights = (weights.unsqueeze(1) * q).flatten()
        return sums, weights

    def sample(self, distribution: Tensor, anchors: Tensor, count: int, generator: torch.Generator) -> Tensor:
        """(a, count) points drawn for each anchor (a,) by its row of a distribution."""
        return torch.multinomial(distribution[anchors], count, replacement=True, generator=generator)


def circle(*, temperature: float = 1.0, probabilities: Tensor | None = None) -> DiscreteWorld:
    """Six points on a circle in three near pairs, which are the classes; uniform if not said otherwise."""
    angles = torch.deg2rad(torch.tensor([0, 20, 120, 140, 240, 260], dtype=torch.float64))
    points = torch.stack([angles.cos(), angles.sin()], 1)
    uniform = torch.full((6,), 1 / 6, dtype=torch.float64)
    labels = torch.arange(6) // 2
    return DiscreteWorld(points, labels, uniform if probabilities is None else probabilities, temperature)


def collapsed(classes: int, *, temperature: float = 1.0) -> DiscreteWorld:
    """Every class one point, the points orthogonal: the best that Lemma 4 can meet."""
    uniform = torch.full((classes,), 1 / classes, dtype=torch.float64)
    return DiscreteWorld(torch.eye(classes, dtype=torch.float64), torch.arange(classes), uniform, temperature)


def constant(classes: int) -> DiscreteWorld:
    """Every class the same point: an encoder that says nothing."""
    uniform = torch.full((classes,), 1 / classes, dtype=torch.float64)
    points = torch.zeros(classes, 2, dtype=torch.float64)
    points[:, 0] = 1
    return DiscreteWorld(points, torch.arange(classes), uniform)


def torn_apart() -> DiscreteWorld:
    """Two classes at two poles, each with some of its points at the pole of the other.

    An anchor at the pole where its class is rare is nearer to the other class: m_plus < m_minus.
    """
    points = torch.tensor([[1, 0], [-1, 0], [1, 0], [-1, 0]], dtype=torch.float64)
    probabilities = torch.tensor([0.15, 0.35, 0.35, 0.15], dtype=torch.float64)
    return DiscreteWorld(points, torch.tensor([0, 0, 1, 1]), probabilities)
