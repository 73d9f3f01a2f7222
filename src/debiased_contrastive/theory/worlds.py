"""Worlds in which expectations are sums or closed forms, with samplers for p, p+, p- and stand-ins for p+."""

import math
from dataclasses import dataclass
from functools import cached_property

import torch
from scipy.special import ive
from torch import Tensor

from debiased_contrastive.objectives.checks import check_tau_plus
from debiased_contrastive.theory.bounds import largest_critic

MAX_OUTCOMES = 2_000_000
"""The largest number of outcomes that is enumerated."""


@dataclass(frozen=True, eq=False)
class DiscreteWorld:
    """Finitely many points on the sphere, with classes of any size: every expectation is a sum over all draws."""

    points: Tensor
    """(k, d) unit vectors."""
    labels: Tensor
    """(k,) classes 0 .. K - 1."""
    probabilities: Tensor
    """(k,) the probability of each point under p."""
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
        """(k,) the probability of each anchor's class."""
        return self.same.double() @ self.probabilities

    @cached_property
    def p(self) -> Tensor:
        """(k, k) rows: p, the same for every anchor."""
        return self.probabilities.expand(len(self.probabilities), -1)

    @cached_property
    def p_plus(self) -> Tensor:
        """(k, k) rows: p+ of each anchor, the anchor's own point included."""
        return self.same * self.probabilities / self.tau_plus.unsqueeze(1)

    @cached_property
    def p_minus(self) -> Tensor:
        """(k, k) rows: p- of each anchor."""
        return ~self.same * self.probabilities / (1 - self.tau_plus).unsqueeze(1)

    def critic_mean(self, distribution: Tensor) -> Tensor:
        """(k,) means m, m_plus or m_minus of the critic, by the rows of a distribution."""
        return (distribution * self.scores.exp()).sum(1)

    def critic_sums(self, anchor: int, distribution: Tensor, count: int) -> tuple[Tensor, Tensor]:
        """The critic's sum over `count` draws, for each outcome, and the outcomes' probabilities."""
        here = distribution[anchor]
        support = here > 0
        h, q = self.scores[anchor, support].exp(), here[support]
        if len(h) ** count > MAX_OUTCOMES:
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
    probabilities = _uniform(6) if probabilities is None else probabilities
    return DiscreteWorld(points, torch.arange(6) // 2, probabilities, temperature)


def collapsed_classes(classes: int, *, temperature: float = 1.0) -> DiscreteWorld:
    """Every class is one point, and the points are orthogonal: the best case for Lemma 4."""
    points = torch.eye(classes, dtype=torch.float64)
    return DiscreteWorld(points, torch.arange(classes), _uniform(classes), temperature)


def constant_encoder(classes: int) -> DiscreteWorld:
    """Every class is the same point: an encoder that tells nothing apart."""
    points = torch.tensor([[1, 0]] * classes, dtype=torch.float64)
    return DiscreteWorld(points, torch.arange(classes), _uniform(classes))


def torn_classes() -> DiscreteWorld:
    """Two classes at two poles, each with some of its points at the pole of the other.

    An anchor at the pole where its class is rare is nearer to the other class: m_plus < m_minus.
    """
    points = torch.tensor([[1, 0], [-1, 0], [1, 0], [-1, 0]], dtype=torch.float64)
    probabilities = torch.tensor([0.15, 0.35, 0.35, 0.15], dtype=torch.float64)
    return DiscreteWorld(points, torch.tensor([0, 0, 1, 1]), probabilities)


def _uniform(count: int) -> Tensor:
    return torch.full((count,), 1 / count, dtype=torch.float64)


@dataclass(frozen=True)
class TwoPointWorld:
    """One anchor, and samples that lie at it or far from it: expectations are sums over binomial counts."""

    tau_plus: float
    q_plus: float
    """Probability in the anchor's class that a sample lies at the anchor, where the critic is e^{1/t}."""
    q_minus: float
    """The same in the other classes."""
    h_plus: float | None = 1.0
    """The critic of x+; None: x+ is drawn from the class as the others are."""
    temperature: float = 1.0
    far: float = -1.0
    """Cosine between the anchor and a far sample."""

    def __post_init__(self) -> None:
        check_tau_plus(self.tau_plus)
        if not (0 <= self.q_plus <= 1 and 0 <= self.q_minus <= 1):
            raise ValueError(f"q_plus and q_minus must lie in [0, 1]; got {self.q_plus} and {self.q_minus}")
        if self.h_plus is not None and not self.floor - 1e-9 <= self.h_plus <= 1 / self.floor + 1e-9:
            raise ValueError(f"h_plus must lie in [e^-1/t, e^1/t], as critics do; got {self.h_plus}")
        if not -1 <= self.far < 1:
            raise ValueError(f"far must be a cosine below 1; got {self.far}")

    @property
    def q(self) -> float:
        """Probability under p that a sample lies at the anchor."""
        return self.tau_plus * self.q_plus + (1 - self.tau_plus) * self.q_minus

    @property
    def floor(self) -> float:
        """The smallest value of the estimate."""
        return 1 / largest_critic(self.temperature)

    @property
    def values(self) -> tuple[float, float]:
        """The critic of a far sample, and of one at the anchor."""
        return math.exp(self.far / self.temperature), math.exp(1 / self.temperature)

    def mean(self, q: float) -> float:
        """The critic's mean where a share q lies at the anchor."""
        low, high = self.values
        return low + (high - low) * q

    @property
    def mean_negative(self) -> float:
        """The critic's mean over true negatives."""
        return self.mean(self.q_minus)

    def variance(self, num_unlabeled: int, num_positives: int) -> float:
        """The variance of the estimate before its floor."""
        low, high = self.values
        from_unlabeled = self.q * (1 - self.q) / num_unlabeled
        from_positives = self.tau_plus**2 * self.q_plus * (1 - self.q_plus) / num_positives
        return (high - low) ** 2 * (from_unlabeled + from_positives) / (1 - self.tau_plus) ** 2

    def estimates(self, num_unlabeled: int, num_positives: int) -> tuple[Tensor, Tensor]:
        """g of every outcome (Eq. 7), (N + 1, M + 1), and the outcomes' probabilities."""
        u, v = self._means(num_unlabeled), self._means(num_positives)
        raw = (u.unsqueeze(1) - self.tau_plus * v) / (1 - self.tau_plus)
        weights = binomial(num_unlabeled, self.q).unsqueeze(1) * binomial(num_positives, self.q_plus)
        return raw.clamp(min=self.floor), weights

    def differences(self, num_unlabeled: int, num_positives: int) -> tuple[Tensor, Tensor]:
        """Delta of Theorem 3, the loss minus its limit, by x+ and outcome, (k, N + 1, M + 1); and probabilities."""
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


@dataclass(frozen=True, eq=False)
class VonMisesFisherWorld:
    """A mixture of one von Mises-Fisher distribution vMF(mu_c, kappa) per class, and the identity as encoder.

    E exp(x . v / t) over v ~ vMF(mu, kappa) is C(kappa) / C(|kappa mu + x / t|), C being the density's constant.
    """

    means: Tensor
    """(K, d) unit vectors mu_c."""
    kappa: float
    """Concentration of the classes."""
    temperature: float = 1.0
    priors: Tensor | None = None
    """(K,) probabilities of the classes; uniform if None."""

    def __post_init__(self) -> None:
        norms = self.means.norm(dim=1)
        if not torch.allclose(norms, torch.ones_like(norms), atol=1e-6):
            raise ValueError(f"means must be unit vectors; got norms from {norms.min()} to {norms.max()}")
        if self.priors is not None and abs(float(self.priors.sum()) - 1) > 1e-6:
            raise ValueError(f"priors must sum to 1; got {float(self.priors.sum())}")
        if not self.kappa > 0 or not self.temperature > 0:
            raise ValueError(f"kappa and temperature must be positive; got {self.kappa} and {self.temperature}")

    @cached_property
    def prior(self) -> Tensor:
        """The share of each class."""
        return _uniform(len(self.means)) if self.priors is None else self.priors

    def sample(self, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """(count, d) points of p and their classes (count,)."""
        labels = torch.multinomial(self.prior, count, replacement=True, generator=generator)
        return self.members(labels, generator), labels

    def members(self, labels: Tensor, generator: torch.Generator) -> Tensor:
        """(..., d) one point of each class in `labels` (...): with an anchor's class, p+."""
        return sample_von_mises_fisher(self.means[labels], self.kappa, generator)

    def others(self, labels: Tensor, count: int, generator: torch.Generator) -> Tensor:
        """(a, count, d) true negatives of anchors of these classes (a,): p-."""
        weights = self.prior.repeat(len(labels), 1)
        weights[torch.arange(len(labels)), labels] = 0
        return self.members(torch.multinomial(weights, count, replacement=True, generator=generator), generator)

    def surrogates(self, anchors: Tensor, kappa: float, generator: torch.Generator) -> Tensor:
        """(..., d) one point around each anchor (..., d): they stand for augmented views, in place of p+."""
        return sample_von_mises_fisher(anchors, kappa, generator)

    def critic_by_class(self, anchors: Tensor) -> Tensor:
        """(a, K) the critic's mean over each class."""
        d, kappa = self.means.shape[1], torch.tensor(self.kappa, dtype=torch.float64)
        norms = (self.kappa * self.means + anchors.unsqueeze(1) / self.temperature).norm(dim=2)
        return torch.exp(_log_constant(d, kappa) - _log_constant(d, norms))

    def critic_means(self, anchors: Tensor, labels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """m, m_plus and m_minus of each anchor, (a,) each."""
        by_class = self.critic_by_class(anchors)
        m, tau_plus = by_class @ self.prior, self.prior[labels]
        m_plus = by_class.gather(1, labels.unsqueeze(1))[:, 0]
        return m, m_plus, (m - tau_plus * m_plus) / (1 - tau_plus)

    @cached_property
    def class_means(self) -> Tensor:
        """(K, d) expectations of the points, shorter than 1."""
        d = self.means.shape[1]
        return self.means * float(ive(d / 2, self.kappa) / ive(d / 2 - 1, self.kappa))


def orthogonal_means(classes: int, dimension: int) -> Tensor:
    """(classes, dimension): the first basis vectors."""
    return torch.eye(dimension, dtype=torch.float64)[:classes]


def random_means(classes: int, dimension: int, generator: torch.Generator) -> Tensor:
    """(classes, dimension): directions drawn uniformly from the sphere."""
    vectors = torch.randn(classes, dimension, dtype=torch.float64, generator=generator)
    return torch.div(vectors, vectors.norm(dim=1, keepdim=True))


def sample_von_mises_fisher(means: Tensor, kappa: float, generator: torch.Generator) -> Tensor:
    """(..., d) one point around each mean (..., d), by Wood's rejection method (1994).

    Own code, since scipy's sampler takes one mean at a time.
    """
    if kappa <= 0:
        raise ValueError(f"kappa must be positive; got {kappa}")
    flat = means.reshape(-1, means.shape[-1])
    cosine = _sample_cosines(len(flat), flat.shape[1], kappa, generator).unsqueeze(1)
    # A direction orthogonal to the mean, uniform among those.
    noise = torch.randn(flat.shape, dtype=flat.dtype, generator=generator)
    tangent = noise - (noise * flat).sum(1, keepdim=True) * flat
    tangent /= tangent.norm(dim=1, keepdim=True)
    points = cosine * flat + (1 - cosine.square()).clamp(min=0).sqrt() * tangent
    return points.reshape(means.shape)


def _sample_cosines(count: int, dimension: int, kappa: float, generator: torch.Generator) -> Tensor:
    """(count,) cosines between a point and its mean."""
    free = dimension - 1
    b = free / (2 * kappa + (4 * kappa**2 + free**2) ** 0.5)
    x = (1 - b) / (1 + b)
    limit = kappa * x + free * torch.log1p(torch.tensor(-(x**2), dtype=torch.float64))
    result = torch.empty(count, dtype=torch.float64)
    missing = torch.arange(count)
    while len(missing):
        squares = torch.randn(2, len(missing), free, dtype=torch.float64, generator=generator).square().sum(2)
        beta = squares[0] / squares.sum(0)
        w = (1 - (1 + b) * beta) / (1 - (1 - b) * beta)
        chance = torch.rand(len(missing), dtype=torch.float64, generator=generator).log()
        accepted = kappa * w + free * torch.log(1 - x * w) - limit >= chance
        result[missing[accepted]] = w[accepted]
        missing = missing[~accepted]
    return result


def _log_constant(dimension: int, kappa: Tensor) -> Tensor:
    """log of the density's constant, up to a term that depends on the dimension alone."""
    order = dimension / 2 - 1
    bessel = torch.as_tensor(ive(order, kappa.numpy(force=True)), dtype=torch.float64)
    if bool((bessel <= 0).any()):
        raise ValueError(f"the Bessel function of order {order} is 0 in double precision: take fewer dimensions")
    return order * kappa.log() - bessel.log() - kappa
