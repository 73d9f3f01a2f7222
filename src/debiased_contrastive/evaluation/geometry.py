"""How unit embeddings lie on the sphere: alignment and uniformity (Wang and Isola 2020), class cosines."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from debiased_contrastive.evaluation.features import check_features, check_labels, unit_rows

ELEMENTS = 2**22
"""Similarities held at once."""


@dataclass(frozen=True)
class ClassSimilarity:
    """Mean cosines of pairs of different samples; NaN where there is no such pair."""

    within: float
    """Of pairs of one class."""
    between: float
    """Of pairs of two classes."""


@torch.no_grad()
def alignment(z0: Tensor, z1: Tensor, alpha: float = 2.0) -> float:
    """E ||z0 - z1||^alpha over positive pairs of unit vectors: 0 where views agree, the lower the closer.

    >>> alignment(torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 3.0]]))
    2.0
    """
    check_features("z0", z0)
    check_features("z1", z1)
    if z0.shape != z1.shape:
        raise ValueError(
            f"z0 and z1 must hold views of the same inputs in one shape; got {tuple(z0.shape)} and "
            f"{tuple(z1.shape)}: pair them row by row"
        )
    _check_positive("alpha", alpha)
    squares = (unit_rows(z0) - unit_rows(z1)).square().sum(1)
    return float(squares.pow(alpha / 2).mean())


@torch.no_grad()
def uniformity(z: Tensor, t: float = 2.0) -> float:
    """log E exp(-t ||z_i - z_j||^2) over all pairs i < j of unit vectors: lower means more uniform.

    Exact, without the (n, n) matrix: a tile of rows meets only itself and the rows after it.

    >>> round(uniformity(torch.tensor([[1.0, 0.0], [-2.0, 0.0]])), 6)
    -8.0
    """
    check_features("z", z)
    _check_positive("t", t)
    if len(z) < 2:
        raise ValueError(f"z must have at least two rows; got {len(z)}: uniformity is a mean over pairs")
    z = unit_rows(z)
    n = len(z)
    rows = max(1, ELEMENTS // n)
    parts = []
    for start in range(0, n, rows):
        exponents = 2 * t * (z[start : start + rows] @ z[start:].T - 1)
        # Of the square at the left, rows with themselves, only i < j.
        above = torch.ones_like(exponents, dtype=torch.bool).triu_(1)
        parts.append(exponents.masked_fill_(~above, -math.inf).flatten().logsumexp(0))
    return float(torch.stack(parts).logsumexp(0)) - math.log(n * (n - 1) / 2)


@torch.no_grad()
def same_class_similarity(z: Tensor, labels: Tensor) -> ClassSimilarity:
    """Mean cosine within and between classes, over all pairs of different samples.

    Sums over pairs are squares of sums, so this takes one pass: sum_ij z_i . z_j = ||sum_i z_i||^2.

    >>> same_class_similarity(torch.tensor([[1.0, 0.0], [2.0, 0.0], [0.0, 1.0]]), torch.tensor([0, 0, 1]))
    ClassSimilarity(within=1.0, between=0.0)
    """
    check_features("z", z)
    check_labels("labels", labels, len(z))
    z = unit_rows(z)
    # Float32 would lose the small difference of large squares.
    sums = z.new_zeros(int(labels.max()) + 1, z.shape[1], dtype=torch.float64)
    sums.index_add_(0, labels.long(), z.double())
    counts = labels.long().bincount().double()
    squares = float(sums.square().sum())
    own = float(z.double().square().sum())
    pairs_within = float((counts * (counts - 1)).sum())
    pairs_between = len(z) * (len(z) - 1) - pairs_within
    within, between = squares - own, float(sums.sum(0).square().sum()) - squares
    return ClassSimilarity(
        within=within / pairs_within if pairs_within else math.nan,
        between=between / pairs_between if pairs_between else math.nan,
    )


def _check_positive(name: str, value: float) -> None:
    if not 0 < value < math.inf:
        raise ValueError(f"{name} must be positive and finite; got {value}: 2 is usual")
