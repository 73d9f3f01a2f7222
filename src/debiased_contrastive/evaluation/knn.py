"""Weighted nearest neighbours, as the released code monitors its training."""

import math

import torch
from torch import Tensor

from debiased_contrastive.evaluation.features import class_count, unit_rows

ELEMENTS = 2**23
"""Similarities held at once."""


@torch.no_grad()
def knn_accuracy(
    train_features: Tensor,
    train_labels: Tensor,
    test_features: Tensor,
    test_labels: Tensor,
    *,
    k: int = 200,
    temperature: float = 0.5,
    num_classes: int | None = None,
) -> float:
    """Share of test samples whose class has the largest sum of exp(cosine / temperature) over k neighbours.

    The neighbours are the k train samples of largest cosine, or all where there are fewer.

    >>> x, y = torch.eye(3), torch.tensor([0, 1, 2])
    >>> knn_accuracy(x, y, x, y, k=1)
    1.0
    """
    num_classes = class_count(train_features, train_labels, test_features, test_labels, num_classes)
    if k < 1:
        raise ValueError(f"k must be at least 1; got {k}: the released code uses 200")
    if not 0 < temperature < math.inf:
        raise ValueError(f"temperature must be positive and finite; got {temperature}: 0.5 is usual")
    train, test = unit_rows(train_features), unit_rows(test_features)
    dtype = torch.promote_types(train.dtype, test.dtype)
    train, test = train.to(dtype), test.to(dtype)
    train_labels, test_labels = train_labels.long(), test_labels.long()
    k = min(k, len(train))
    hits = test_labels.new_zeros(())
    rows = max(1, ELEMENTS // len(train))
    for z, labels in zip(test.split(rows), test_labels.split(rows), strict=True):
        cosines, neighbours = (z @ train.T).topk(k, dim=1)
        # Relative to the nearest, so that no temperature overflows.
        weights = ((cosines - cosines[:, :1]) / temperature).exp_()
        votes = weights.new_zeros(len(z), num_classes).scatter_add_(1, train_labels[neighbours], weights)
        hits += (votes.argmax(1) == labels).sum()
    return int(hits) / len(test)
