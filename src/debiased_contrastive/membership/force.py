"""How much of the bias a source of knowledge takes out of the force on embeddings, before any training."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from debiased_contrastive.membership.inputs import Features, Labels, as_features, as_labels
from debiased_contrastive.membership.knowledge import Knowledge
from debiased_contrastive.numerics import unit_rows

SIMILARITIES_AT_ONCE = 2**20
_NO_WEIGHT = 1e-12
"""Share of an anchor's weight that counts as nothing left."""
_NO_BIAS = 1e-24
"""Sum of squares that is rounding alone."""

SameClass = Callable[[Tensor, Tensor], Tensor]
"""From places of anchors (a,) and of columns (m,) to q (a, m)."""


class NoBiasError(ValueError):
    """The force has no bias that knowledge could take away: no class has two samples, or all are alike."""


@torch.no_grad()
def force_share(
    z: Features,
    labels: Labels,
    *,
    membership: Features | None = None,
    partitions: Features | None = None,
    weights: Features | None = None,
    knowledge: Knowledge | None = None,
    temperature: float = 0.5,
    strength: float = 1.0,
    tangent: bool = True,
) -> float:
    """Share of the bias of the force on embeddings that knowledge about classes takes away, without any training.

    Unlabeled samples push their anchor z_i along G_i = sum_j pi_ij z_j, where pi_ij is w_ij e^(s_ij) over its sum:
    w = 1 is the biased force, w = [other class] the unbiased one, and w = max(0, 1 - strength * q) the one with
    knowledge of q_ij, the probability that two samples share a class. The share is
    1 - sum_i |G_i - G_i unbiased|^2 / sum_i |G_i biased - G_i unbiased|^2:
    1 is as good as all labels, 0 as bad as none, and below 0 it does harm.

    Embeddings of length 1 do not feel a force along z_i, so only what is orthogonal to z_i counts. How a loss
    scales the force of each anchor is left out: it depends on the positives, and it is all that tau_plus with one
    positive changes, so that one has a share of 0.

    Args:
        z: Embeddings (n, d) of any length, a few thousand of them.
        labels: (n,) class numbers; rows of -1, unknown, are left out.
        membership: (n, k) probability that a sample is of a class, as a loss takes it.
        partitions: (n, B) whole numbers, -1 unknown: q is the share of equal ones.
        weights: (n, n) probability that a column is a true negative of a row.
        knowledge: What a source in `membership/` returned. Exactly one of these four is given.
        temperature: Temperature of the loss.
        strength: Strength of the knowledge, at least 0.
        tangent: Count what is orthogonal to the anchor alone; False counts the whole force.

    Returns:
        The share, at most 1.

    Raises:
        ValueError: If an input cannot be used, or no anchor has both a sample of its class and a true negative.
    """
    cloud = _read(z, labels, _same_class(membership, partitions, weights, knowledge), temperature, tangent)
    if not 0 <= strength < math.inf:
        raise ValueError(f"strength must be finite and at least 0; got {strength}: 1 takes the knowledge as it is")
    wrong = bias = 0.0
    for part in _parts(cloud):
        q = (strength * part.q).clamp(max=1)
        # In the exponent, so that nothing underflows at low temperatures; without any weight there is no force.
        force = (part.logits + torch.log1p(-q)).softmax(1).nan_to_num(0.0) @ cloud.z
        wrong += float(part.felt(force - part.unbiased).square().sum())
        bias += float(part.felt(part.biased - part.unbiased).square().sum())
    _check_bias(bias)
    return 1 - wrong / bias


@dataclass(frozen=True)
class ForceCurve:
    """The force share of a source at every strength up to `limit`, from five numbers for each anchor.

    With p the softmax of an anchor's logits, Q_i = sum_j p_ij q_ij and D_i = sum_j p_ij (q_ij - Q_i) z_j, the force
    at strength c is G_i biased - c / (1 - c Q_i) D_i, as long as no weight is cut off at 0, that is c <= 1 / max q.
    """

    level: Tensor
    """(a,) Q_i."""
    size: Tensor
    """(a,) square of D_i."""
    along: Tensor
    """(a,) product of D_i and the bias of the force."""
    bias: Tensor
    """(a,) square of the bias of the force."""
    unbiased: Tensor
    """(a,) square of the unbiased force."""
    limit: float
    """The largest strength that cuts off no weight, 1 / max q; 1 where nothing is known."""

    def share(self, strength: float) -> float:
        """The force share at a strength from 0 to the limit."""
        if not 0 <= strength <= self.limit * (1 + 1e-6):
            raise ValueError(f"strength must lie in [0, {self.limit:.4g}], up to 1 / max q; got {strength}")
        left = 1 - strength * self.level
        factor = strength / left.clamp(min=_NO_WEIGHT)
        wrong = (self.bias - 2 * factor * self.along + factor.square() * self.size).clamp(min=0)
        # Without any weight there is no force, and what is wrong is the whole unbiased one.
        wrong = torch.where(left > _NO_WEIGHT, wrong, self.unbiased)
        return 1 - float(wrong.sum() / self.bias.sum())

    @property
    def best(self) -> float:
        """The strength from 0 to the limit with the largest share, to a ten-thousandth of the limit."""
        low, high, found = 0.0, self.limit, 0.0
        for _ in range(3):
            tried: list[float] = torch.linspace(low, high, 41, dtype=torch.float64).tolist()
            place = max(range(len(tried)), key=lambda place: self.share(tried[place]))
            low, found, high = tried[max(0, place - 1)], tried[place], tried[min(len(tried) - 1, place + 1)]
        return found


@torch.no_grad()
def force_curve(
    z: Features,
    labels: Labels,
    knowledge: Knowledge,
    *,
    temperature: float = 0.5,
    tangent: bool = True,
    anchors: int | None = None,
) -> ForceCurve:
    """The force share of knowledge over its strength, in one pass for all strengths; see `force_share`.

    With `anchors`, the forces on the first so many samples alone are looked at, from all others.
    """
    cloud = _read(z, labels, (knowledge.same_class, len(knowledge)), temperature, tangent)
    moments, largest = [], 0.0
    for part in _parts(cloud, anchors):
        p = part.logits.softmax(1)
        level = (p * part.q).sum(1)
        change = part.felt((p * (part.q - level.unsqueeze(1))) @ cloud.z)
        bias, unbiased = part.felt(part.biased - part.unbiased), part.felt(part.unbiased)
        products = ((change, change), (change, bias), (bias, bias), (unbiased, unbiased))
        moments.append(torch.stack([level, *((a * b).sum(1) for a, b in products)]))
        largest = max(largest, float(part.q.max()))
    level, size, along, bias, unbiased = torch.cat(moments, 1) if moments else torch.zeros(5, 0)
    _check_bias(float(bias.sum()))
    return ForceCurve(level, size, along, bias, unbiased, limit=1 / largest if largest > 0 else 1.0)


@dataclass(frozen=True)
class _Cloud:
    """Unit vectors whose class is known, in float64, and q by their places."""

    z: Tensor
    labels: Tensor
    same_class: SameClass
    temperature: float
    tangent: bool


@dataclass(frozen=True)
class _Part:
    """Some anchors that have a true negative, beside all samples."""

    z: Tensor
    """(a, d)"""
    logits: Tensor
    """(a, n), -inf for the anchor itself."""
    q: Tensor
    """(a, n), 0 for the anchor itself."""
    biased: Tensor
    """(a, d) force."""
    unbiased: Tensor
    tangent: bool

    def felt(self, force: Tensor) -> Tensor:
        """The part of a force (a, d) that is orthogonal to the anchors, or all of it."""
        return force - (force * self.z).sum(1, keepdim=True) * self.z if self.tangent else force


def _parts(cloud: _Cloud, anchors: int | None = None) -> Iterator[_Part]:
    """The anchors, or the first of them, that have a true negative; so many at once that memory stays bounded."""
    z, labels, columns = cloud.z, cloud.labels, torch.arange(len(cloud.z))
    for some in columns[:anchors].split(max(1, SIMILARITIES_AT_ONCE // max(1, len(z)))):
        other = labels[some].unsqueeze(1) != labels
        rows, other = some[other.any(1)], other[other.any(1)]
        if not len(rows):
            continue
        own = (torch.arange(len(rows)), rows)
        logits = (z[rows] @ z.T / cloud.temperature).index_put(own, torch.tensor(-math.inf, dtype=z.dtype))
        # The rounding of a product of rows can make it more than 1.
        q = cloud.same_class(rows, columns).double().clamp(max=1).index_put(own, torch.tensor(0.0, dtype=z.dtype))
        biased = logits.softmax(1) @ z
        unbiased = logits.masked_fill(~other, -math.inf).softmax(1) @ z
        yield _Part(z[rows], logits, q, biased, unbiased, cloud.tangent)


def _read(
    z: Features,
    labels: Labels,
    known: tuple[SameClass, int],
    temperature: float,
    tangent: bool,
) -> _Cloud:
    """The rows whose class is known."""
    rows = as_features(z)
    classes = as_labels(labels, len(rows))
    same_class, size = known
    if size != len(rows):
        raise ValueError(f"knowledge must be of the {len(rows)} rows of z; got {size} rows")
    if not 1e-3 <= temperature < math.inf:
        raise ValueError(f"temperature must be finite and at least 0.001; got {temperature}: 0.1 and 0.5 are usual")
    kept = (classes >= 0).nonzero().flatten()
    return _Cloud(
        unit_rows(rows[kept].double()),
        classes[kept],
        lambda anchors, columns: same_class(kept[anchors], kept[columns]),
        temperature,
        tangent,
    )


def _same_class(
    membership: Features | None, partitions: Features | None, weights: Features | None, knowledge: Knowledge | None
) -> tuple[SameClass, int]:
    """q by places, of whichever form is given, and the number of samples."""
    given = {"membership": membership, "partitions": partitions, "weights": weights, "knowledge": knowledge}
    forms = [name for name, form in given.items() if form is not None]
    if len(forms) != 1:
        raise ValueError(
            f"exactly one of {', '.join(given)} must be given; got {', '.join(forms) or 'none of them'}"
        )
    if weights is not None:
        unlike = torch.as_tensor(weights).detach().cpu()
        in_range = bool(((unlike >= 0) & (unlike <= 1)).all())
        if unlike.ndim != 2 or unlike.shape[0] != unlike.shape[1] or not in_range:
            raise ValueError(f"weights must lie in [0, 1], (n, n) of them; got shape {tuple(unlike.shape)}")
        return lambda rows, columns: 1 - unlike[rows][:, columns].double(), len(unlike)
    if membership is not None:
        knowledge = Knowledge(membership=check_membership(torch.as_tensor(membership).detach().cpu()))
    elif partitions is not None:
        codes = torch.as_tensor(partitions).detach().cpu()
        if codes.ndim != 2 or codes.is_floating_point():
            what = f"{codes.dtype} of shape {tuple(codes.shape)}"
            raise ValueError(f"partitions must be whole numbers of shape (n, B), -1 = unknown; got {what}")
        knowledge = Knowledge(partitions=codes)
    assert knowledge is not None
    return knowledge.same_class, len(knowledge)


def check_membership(membership: Tensor, name: str = "membership") -> Tensor:
    """The same; raise unless it has the shape (n, k), rows >= 0 and sums of at most 1, up to rounding."""
    if membership.ndim != 2 or not membership.is_floating_point():
        what = f"{membership.dtype} of shape {tuple(membership.shape)}"
        raise ValueError(f"{name} must be probabilities of shape (n, classes); got {what}")
    sums = membership.double().sum(1)
    if not bool((membership >= 0).all() and (sums <= 1 + 1e-3).all()):
        raise ValueError(
            f"{name} must have rows that are at least 0 and sum to at most 1; got a smallest value of "
            f"{float(membership.min()):.4g} and a largest sum of {float(sums.max()):.4g}: divide rows by their sums"
        )
    return membership


def _check_bias(bias: float) -> None:
    if not bias > _NO_BIAS:
        raise NoBiasError(
            "the force must have a bias, or a share of it means nothing; got none: an anchor needs another sample "
            "of its class and one of another class"
        )
