"""The smallest world: the critic has two values, so every expectation is a sum over binomial counts."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from debiased_contrastive.objectives.checks import check_tau_plus
from debiased_contrastive.theory.setting import largest_critic


@dataclass(frozen=True)
class TwoPointWorld:
    """One anchor; samples lie at it or far from it, the former with a probability by class."""

    tau_plus: float
    q_plus: float
    """Probability in the anchor's class that a sample lies at the anchor, where the critic is e^{1/t}."""
    q_minus: float
    """The same in the other classes."""
    h_plus: float | None = 1.0
    """The critic of x+; None: x+ is drawn from the class as the others are."""
    temperature: float = 1.0
    far: float = -1.0
    """Cosine between the anchor and what is far."""

    def __post_init__(self) -> None:
        check_tau_plus(self.tau_plus)
        if not (0 <= self.q_plus <= 1 and 0 <= self.q_minus <= 1):
            raise ValueError(f"q_plus and q_minus must lie in [0, 1]; got {self.q_plus} and {self.q_minus}")
        room = 1e-9
        if self.h_plus is not None and not self.floor - room <= self.h_plus <= 1 / self.floor + room:
            raise ValueError(f"h_plus must lie in [e^-1/t, e^1/t], as critics do; got {self.h_plus}")
        if not -1 <= self.far < 1:
            raise ValueError(f"far must be a cosine below 1; got {self.far}")

    @property
    def q(self) -> float:
        """Probability under p that a sample lies at the anchor."""
        return self.tau_plus * self.q_plus + (1 - self.tau_plus) * self.q_minus

    @property
    def floor(self) -> float:
        """The smallest critic that there could be."""
        return 1 / largest_critic(self.temperature)

    @property
    def values(self) -> tuple[float, float]:
        """The critic of what is far, and of what is at the anchor."""
        return math.exp(self.far / self.temperature), math.exp(1 / self.temperature)

    def mean(self, q: float) -> float:
        """The critic's mean where a share q lies at the anchor."""
        low, high = self.values
        return low + (high - low) * q

    @property
    def mean_negative(self) -> float:
        """m_minus."""
        return self.mean(self.q_minus)

    def variance(self, num_unlabeled: int, num_positives: int) -> float:
        """Of the estimate before its floor."""
        low, high = self.values
        of_unlabeled = self.q * (1 - self.q) / num_unlabeled
        of_positives = self.tau_plus**2 * self.q_plus * (1 - self.q_plus) / num_positives
        return (high - low) ** 2 * (of_unlabeled + of_positives) / (1 - self.tau_plus) ** 2

    def estimates(self, num_unlabeled: int, num_positives: int) -> tuple[Tensor, Tensor]:
        """g of every outcome (Eq. 7), (N + 1, M + 1), and the outcomes' probabilities."""
        u, v = self._means(num_unlabeled), self._means(num_positives)
        raw = (u.unsqueeze(1) - self.tau_plus * v) / (1 - self.tau_plus)
        weights = binomial(num_unlabeled, self.q).unsqueeze(1) * binomial(num_positives, self.q_plus)
        return raw.clamp(min=self.floor), weights

    def differences(self, num_unlabeled: int, num_positives: int) -> tuple[Tensor, Tensor]:
        """Delta of Theorem 3 for every outcome, the loss minus its limit, and the outcomes' probabilities.

        (k, N + 1, M + 1), with k the number of values that the critic of x+ has.
        """
        g, weights = self.estimates(num_unlabeled, num_positives)
        h_plus, chances = self._positives()
        odds = (num_unlabeled / h_plus).view(-1, 1, 1)
        return torch.log1p(odds * g) - torch.log1p(odds * self.mean_negative), chances.view(-1, 1, 1) * weights

    def mean_loss(self, count: int, share: float, weight: float) -> float:
        """E log(1 + weight mean_i h_i / h+) over `count` samples that lie at the anchor with probability `share`.

        weight = count: the biased loss with share = q, the unbiased one with share = q_minus. weight = Q: Lemma 2.
        """
        h_plus, chances = self._positives()
        losses = torch.log1p(weight * self._means(count) / h_plus.unsqueeze(1))
        return float(chances @ losses @ binomial(count, share))

    def _means(self, count: int) -> Tensor:
        low, high = self.values
        return low + (high - low) * torch.linspace(0, 1, count + 1, dtype=torch.float64)

    def _positives(self) -> tuple[Tensor, Tensor]:
        if self.h_plus is None:
            chances = (1 - self.q_plus, self.q_plus)
            return torch.tensor(self.values, dtype=torch.float64), torch.tensor(chances, dtype=torch.float64)
        return torch.tensor([self.h_plus], dtype=torch.float64), torch.ones(1, dtype=torch.float64)


def binomial(count: int, q: float) -> Tensor:
    """(count + 1,) probabilities of 0 .. count successes.

    >>> binomial(2, 0.5)
    tensor([0.2500, 0.5000, 0.2500], dtype=torch.float64)
    """
    k = torch.arange(count + 1, dtype=torch.float64)
    n = torch.tensor(float(count), dtype=torch.float64)
    chance = torch.tensor(q, dtype=torch.float64)
    log_ways = torch.lgamma(n + 1) - torch.lgamma(k + 1) - torch.lgamma(n - k + 1)
    return torch.exp(log_ways + torch.xlogy(k, chance) + torch.xlogy(n - k, 1 - chance))
