"""How unit embeddings lie on the sphere: alignment, uniformity, class cosines, neighbours, class means, tau_eff."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from debiased_contrastive.evaluation.features import check_features, check_labels, count_classes, unit_rows
from debiased_contrastive.numerics import working_dtype
from debiased_contrastive.objectives.estimator import effective_tau_plus
from debiased_contrastive.objectives.statistics import from_logits, log_mean_exp

ELEMENTS = 2**22
"""Similarities in memory at once; nearest neighbours hold twice as many."""
ROWS = 2**14
"""Test samples that are compared with the class means at once."""


@dataclass(frozen=True)
class ClassSimilarity:
    """Mean cosines of pairs of different samples; NaN where there is no such pair."""

    within: float
    """Mean over pairs of one class."""
    between: float
    """Mean over pairs of two classes."""


@dataclass(frozen=True)
class MeanClassifier:
    """How well the class means classify."""

    accuracy: float
    """Share of test samples nearest, by scalar product, to the mean of their class."""
    loss: float
    """L_sup^mu of Lemma 4, over the test samples."""


@torch.no_grad()
def alignment(z0: Tensor, z1: Tensor, alpha: float = 2.0) -> float:
    """E ||z0 - z1||^alpha over positive pairs of unit vectors (Wang and Isola 2020).

    Args:
        z0: (n, d) embeddings; they are brought to length 1 here.
        z1: (n, d) embeddings of other views of the same inputs, row by row.
        alpha: Power of the distance.

    Returns:
        The mean; 0 if all views agree.

    >>> alignment(torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 3.0]]))
    2.0
    """
    _check_views(z0, z1)
    _check_positive("alpha", alpha, "2 is usual")
    squares = (unit_rows(z0) - unit_rows(z1)).square().sum(1)
    return float(squares.pow(alpha / 2).mean())


@torch.no_grad()
def uniformity(z: Tensor, t: float = 2.0) -> float:
    """log E exp(-t ||z_i - z_j||^2) over all pairs i < j of unit vectors (Wang and Isola 2020).

    It is exact, without the (n, n) matrix: a tile of rows is compared with itself and the rows after it.

    Args:
        z: (n, d) embeddings, n at least 2; they are brought to length 1 here.
        t: Inverse width of the kernel.

    Returns:
        0 if all embeddings agree; lower means more uniform.

    >>> round(uniformity(torch.tensor([[1.0, 0.0], [-2.0, 0.0]])), 6)
    -8.0
    """
    check_features("z", z)
    _check_positive("t", t, "2 is usual")
    if len(z) < 2:
        raise ValueError(f"z must have at least two rows; got {len(z)}: uniformity is a mean over pairs")
    z, n, parts = unit_rows(z), len(z), []
    rows = max(1, ELEMENTS // n)
    for start in range(0, n, rows):
        exponents = 2 * t * (z[start : start + rows] @ z[start:].T - 1)
        # The square at the left, rows with themselves, counts only where i < j.
        above = torch.ones_like(exponents, dtype=torch.bool).triu_(1)
        parts.append(exponents.masked_fill_(~above, -math.inf).flatten().logsumexp(0))
    return float(torch.stack(parts).logsumexp(0)) - math.log(n * (n - 1) / 2)


@torch.no_grad()
def same_class_similarity(z: Tensor, labels: Tensor) -> ClassSimilarity:
    """Mean cosine within and between classes, over all pairs of different samples.

    Sums over pairs are squares of sums, so this takes one pass: sum_ij z_i . z_j = ||sum_i z_i||^2.

    Args:
        z: (n, d) embeddings; they are brought to length 1 here.
        labels: (n,) integers from 0.

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


@torch.no_grad()
def effective_prior(z0: Tensor, z1: Tensor, labels: Tensor, temperature: float) -> float:
    """The tau_plus that the correction would need: the median of tau_eff over anchors, measured with labels.

    It equals the class prior only if a view is as far from its anchor as the rest of the class is; views are
    nearer, so it is smaller, and the true prior subtracts too much.

    Args:
        z0: (n, d) embeddings, the anchors; they are brought to length 1 here.
        z1: (n, d) embeddings of other views of the same inputs: the positives and the unlabeled samples.
        labels: (n,) integers of at least two classes.
        temperature: Temperature of the training.

    >>> z = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    >>> round(effective_prior(z, z, torch.tensor([0, 0, 1, 1]), 0.5), 6)  # one of three others is of the class
    0.333333
    """
    _check_views(z0, z1)
    check_labels("labels", labels, len(z0))
    if labels.unique().numel() < 2:
        raise ValueError("labels must name at least two classes: otherwise there are no true negatives")
    logits = unit_rows(z0) @ unit_rows(z1).T / temperature
    positive = logits.diagonal().clone()
    unlabeled = logits.fill_diagonal_(-math.inf)
    own = labels.unsqueeze(1) == labels
    statistics = from_logits(positive, unlabeled, None, lower=-1 / temperature, beta=0.0)
    return float(effective_tau_plus(statistics, log_mean_exp(unlabeled.masked_fill(own, -math.inf))[0]).median())


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
    """Accuracy of weighted nearest neighbours, as the released code monitors its training.

    A neighbour votes for its class with exp(cosine / temperature).

    Args:
        train_features: (n, d), brought to length 1 here.
        train_labels: (n,) integers from 0.
        test_features: (m, d), brought to length 1 here.
        test_labels: (m,) integers from 0.
        k: Number of train samples of largest cosine that vote; all if there are fewer.
        temperature: The lower it is, the more the nearest count.
        num_classes: Number of classes; one more than the largest label if not given.

    Returns:
        Share of test samples whose class has the most votes.

    >>> x, y = torch.eye(3), torch.tensor([0, 1, 2])
    >>> knn_accuracy(x, y, x, y, k=1)
    1.0
    """
    num_classes = count_classes(train_features, train_labels, test_features, test_labels, num_classes)
    if k < 1:
        raise ValueError(f"k must be at least 1; got {k}: the released code uses 200")
    _check_positive("temperature", temperature, "0.5 is usual")
    dtype = working_dtype(train_features, test_features)
    train, test = unit_rows(train_features).to(dtype), unit_rows(test_features).to(dtype)
    train_labels, test_labels = train_labels.long(), test_labels.long()
    k = min(k, len(train))
    hits = test_labels.new_zeros(())
    rows = max(1, 2 * ELEMENTS // len(train))
    for z, labels in zip(test.split(rows), test_labels.split(rows), strict=True):
        cosines, neighbours = (z @ train.T).topk(k, dim=1)
        # Relative to the nearest, so that no temperature overflows.
        weights = ((cosines - cosines[:, :1]) / temperature).exp_()
        votes = weights.new_zeros(len(z), num_classes).scatter_add_(1, train_labels[neighbours], weights)
        hits += (votes.argmax(1) == labels).sum()
    return int(hits) / len(test)


@torch.no_grad()
def mean_classifier(
    train_features: Tensor,
    train_labels: Tensor,
    test_features: Tensor,
    test_labels: Tensor,
    *,
    temperature: float = 0.5,
    num_classes: int | None = None,
) -> MeanClassifier:
    """Accuracy and cross-entropy of the linear classifier of Lemma 4, whose rows are the class means.

    Its logits are f(x) . mu_c / t with unit f(x), mu_c the mean of the unit train features of class c. For balanced
    classes, K of them, and N >= K - 1, the loss lies between that of the best linear classifier and the asymptotic
    debiased loss.

    Args:
        train_features: (n, d), brought to length 1 here.
        train_labels: (n,) integers from 0.
        test_features: (m, d), brought to length 1 here.
        test_labels: (m,) integers from 0.
        temperature: t, that of the training.
        num_classes: Number of classes; one more than the largest label if not given.

    >>> x, y = torch.eye(3), torch.tensor([0, 1, 2])
    >>> result = mean_classifier(x, y, x, y, temperature=1.0)
    >>> result.accuracy, round(result.loss, 6), round(math.log(1 + 2 / math.e), 6)
    (1.0, 0.551445, 0.551445)
    """
    num_classes = count_classes(train_features, train_labels, test_features, test_labels, num_classes)
    _check_positive("temperature", temperature, "that of the training")
    means = _class_means(unit_rows(train_features), train_labels.long(), num_classes)
    test = unit_rows(test_features).to(means.dtype)
    hits, loss = test_labels.new_zeros((), dtype=torch.long), means.new_zeros(())
    for z, labels in zip(test.split(ROWS), test_labels.long().split(ROWS), strict=True):
        logits = z @ means.T / temperature
        loss += F.cross_entropy(logits, labels, reduction="sum")
        hits += (logits.argmax(1) == labels).sum()
    return MeanClassifier(accuracy=int(hits) / len(test), loss=float(loss) / len(test))


def _class_means(features: Tensor, labels: Tensor, num_classes: int) -> Tensor:
    counts = labels.bincount(minlength=num_classes)
    if bool((counts == 0).any()):
        absent = (counts == 0).nonzero().flatten().tolist()
        raise ValueError(
            f"every class must have a train sample; got none of classes {absent[:5]}: number those there from 0"
        )
    sums = features.new_zeros(num_classes, features.shape[1]).index_add_(0, labels, features)
    return sums / counts.unsqueeze(1)


def _check_views(z0: Tensor, z1: Tensor) -> None:
    check_features("z0", z0)
    check_features("z1", z1)
    if z0.shape != z1.shape:
        raise ValueError(
            f"z0 and z1 must hold views of the same inputs in one shape; got {tuple(z0.shape)} and "
            f"{tuple(z1.shape)}: pair them row by row"
        )


def _check_positive(name: str, value: float, advice: str) -> None:
    if not 0 < value < math.inf:
        raise ValueError(f"{name} must be positive and finite; got {value}: {advice}")
