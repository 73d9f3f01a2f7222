"""The smallest world: the critic has two values, so every expectation is a sum over binomial counts."""

from dataclasses import dataclass

import torch
from torch import Tensor

from debiased_contrastive.objectives.settings import check_tau_plus
from debiased_contrastive.theory.setting import largest_critic


@dataclass(frozen=True)
class TwoPointWorld:
    """One anchor; a sample's critic is e^{1/t} or e^{-1/t}, the former with a probability by class."""

    tau_plus: float
    q_plus: float
    """Probability of the large value in the anchor's class."""
    q_minus: float
    """The same in the other classes."""
    h_plus: float = 1.0
    """The critic of x+."""
    temperature: float = 1.0

    def __post_init__(self) -> None:
        check_tau_plus(self.tau_plus)
        if not (0 <= self.q_plus <= 1 and 0 <= self.q_minus <= 1):
            raise ValueError(f"q_plus and q_minus must lie in [0, 1]; got {self.q_plus} and {self.q_minus}")

    @property
    def q(self) -> float:
        """Probability of the large value under p."""
        return self.tau_plus * self.q_plus + (1 - self.tau_plus) * self.q_minus

    @property
    def floor(self) -> float:
        """The small value."""
        return 1 / largest_critic(self.temperature)

    def mean(self, q: float | Tensor) -> float | Tensor:
        """The critic's mean where the large value has share q."""
        return self.floor + (1 / self.floor - self.floor) * q

    @property
    def mean_negative(self) -> float:
        """m_minus."""
        return float(self.mean(self.q_minus))

    def variance(self, num_unlabeled: int, num_positives: int) -> float:
        """Of the estimate before its floor."""
        of_unlabeled = self.q * (1 - self.q) / num_unlabeled
        of_positives = self.tau_plus**2 * self.q_plus * (1 - self.q_plus) / num_positives
        return (1 / self.floor - self.floor) ** 2 * (of_unlabeled + of_positives) / (1 - self.tau_plus) ** 2

    def estimates(self, num_unlabeled: int, num_positives: int) -> tuple[Tensor, Tensor]:
        """g of every outcome (Eq. 7), (N + 1, M + 1), and the outcomes' probabilities."""
        u = self.mean(torch.linspace(0, 1, num_unlabeled + 1, dtype=torch.float64))
        v = self.mean(torch.linspace(0, 1, num_positives + 1, dtype=torch.float64))
        assert isinstance(u, Tensor)
        assert isinstance(v, Tensor)
        raw = (u.unsqueeze(1) - self.tau_plus * v) / (1 - self.tau_plus)
        weights = binomial(num_unlabeled, self.q).unsqueeze(1) * binomial(num_positives, self.q_plus)
        return raw.clamp(min=self.floor), weights

    def differences(self, num_unlabeled: int, num_positives: int) -> tuple[Tensor, Tensor]:
        """Delta of Theorem 3 for every outcome, the loss minus its limit, and the outcomes' probabilities."""
        g, weights = self.estimates(num_unlabeled, num_positives)
        odds = num_unlabeled / self.h_plus
        return torch.log1p(odds * g) - torch.log1p(torch.tensor(odds * self.mean_negative)), weights

    def many_negatives_loss(self, num_negatives: int, q: float) -> float:
        """E log(1 + (Q / N) sum_i h(x, x_i-) / h+) with N true negatives and Q = q: the left side of Lemma 2."""
        means = self.mean(torch.linspace(0, 1, num_negatives + 1, dtype=torch.float64))
        assert isinstance(means, Tensor)
        return float(binomial(num_negatives, self.q_minus) @ torch.log1p(q * means / self.h_plus))


def binomial(count: int, q: float) -> Tensor:
    """(count + 1,) probabilities of 0 .. count successes.

    >>> binomial(2, 0.5)
    tensor([0.2500, 0.5000, 0.2500], dtype=torch.float64)
    """
    k = torch.arange(count + 1, dtype=torch.float64)
    n = torch.tensor(float(count), dtype=torch.float64)
    q_ = torch.tensor(q, dtype=torch.float64)
    log_ways = torch.lgamma(n + 1) - torch.lgamma(k + 1) - torch.lgamma(n - k + 1)
    return torch.exp(log_ways + torch.xlogy(k, q_) + torch.xlogy(n - k, 1 - q_))
