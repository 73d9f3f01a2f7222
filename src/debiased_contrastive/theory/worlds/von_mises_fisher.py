"""Classes on the sphere, each a von Mises-Fisher distribution: the critic's means have a closed form."""

from dataclasses import dataclass
from functools import cached_property

import torch
from scipy.special import ive
from torch import Tensor


@dataclass(frozen=True, eq=False)
class VonMisesFisherWorld:
    """A mixture of one distribution vMF(mu_c, kappa) for each class, and the identity as encoder.

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
        """(K,) probabilities of the classes."""
        k = len(self.means)
        return torch.full((k,), 1 / k, dtype=torch.float64) if self.priors is None else self.priors

    def sample(self, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """(count, d) points of p and their classes (count,)."""
        labels = torch.multinomial(self.prior, count, replacement=True, generator=generator)
        return self.members(labels, generator), labels

    def members(self, labels: Tensor, generator: torch.Generator) -> Tensor:
        """(..., d) one point of each class in `labels` (...): with an anchor's class, p+."""
        return von_mises_fisher(self.means[labels], self.kappa, generator)

    def others(self, labels: Tensor, count: int, generator: torch.Generator) -> Tensor:
        """(a, count, d) true negatives of anchors of these classes (a,): p-."""
        weights = self.prior.repeat(len(labels), 1)
        weights[torch.arange(len(labels)), labels] = 0
        return self.members(torch.multinomial(weights, count, replacement=True, generator=generator), generator)

    def surrogates(self, anchors: Tensor, kappa: float, generator: torch.Generator) -> Tensor:
        """(..., d) one point around each anchor (..., d): what augmented views are, in place of p+."""
        return von_mises_fisher(anchors, kappa, generator)

    def critic_by_class(self, anchors: Tensor) -> Tensor:
        """(a, K) the critic's mean over each class."""
        dimension = self.means.shape[1]
        norms = (self.kappa * self.means + anchors.unsqueeze(1) / self.temperature).norm(dim=2)
        kappa = torch.tensor(self.kappa, dtype=torch.float64)
        return torch.exp(_log_constant(dimension, kappa) - _log_constant(dimension, norms))

    def critic_means(self, anchors: Tensor, labels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """m, m_plus and m_minus of each anchor, (a,) each."""
        by_class = self.critic_by_class(anchors)
        m = by_class @ self.prior
        own = labels.unsqueeze(1)
        m_plus, tau_plus = by_class.gather(1, own)[:, 0], self.prior[labels]
        return m, m_plus, (m - tau_plus * m_plus) / (1 - tau_plus)

    @cached_property
    def class_means(self) -> Tensor:
        """(K, d) expectations of the points, shorter than 1."""
        d = self.means.shape[1]
        return self.means * float(ive(d / 2, self.kappa) / ive(d / 2 - 1, self.kappa))


def orthogonal_means(classes: int, dimension: int) -> Tensor:
    """(classes, dimension) the first basis vectors."""
    return torch.eye(dimension, dtype=torch.float64)[:classes]


def random_means(classes: int, dimension: int, generator: torch.Generator) -> Tensor:
    """(classes, dimension) directions of no preference."""
    drawn = torch.randn(classes, dimension, dtype=torch.float64, generator=generator)
    result: Tensor = drawn / drawn.norm(dim=1, keepdim=True)
    return result


def von_mises_fisher(means: Tensor, kappa: float, generator: torch.Generator) -> Tensor:
    """(..., d) one point around each mean (..., d), by Wood's rejection method (1994).

    Own code, since scipy's sampler takes one mean at a time.
    """
    if kappa <= 0:
        raise ValueError(f"kappa must be positive; got {kappa}")
    flat = means.reshape(-1, means.shape[-1])
    cosine = _cosines(len(flat), flat.shape[1], kappa, generator).unsqueeze(1)
    # A direction orthogonal to the mean, of no other preference.
    noise = torch.randn(flat.shape, dtype=flat.dtype, generator=generator)
    tangent = noise - (noise * flat).sum(1, keepdim=True) * flat
    tangent /= tangent.norm(dim=1, keepdim=True)
    points = cosine * flat + (1 - cosine.square()).clamp(min=0).sqrt() * tangent
    return points.reshape(means.shape)


def _cosines(count: int, dimension: int, kappa: float, generator: torch.Generator) -> Tensor:
    """(count,) cosines between a point and its mean."""
    free = dimension - 1
    b = free / (2 * kappa + (4 * kappa**2 + free**2) ** 0.5)
    x = (1 - b) / (1 + b)
    limit = kappa * x + free * torch.log1p(torch.tensor(-(x**2), dtype=torch.float64))
    result = torch.empty(count, dtype=torch.float64)
    missing = torch.arange(count)
    while len(missing):
        shape = (2, len(missing), free)
        squares = torch.randn(shape, dtype=torch.float64, generator=generator).square().sum(2)
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
