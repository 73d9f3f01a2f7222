"""Logistic regressions on the same features, one or many: scikit-learn's objective in few passes, on any device."""

import math
import warnings
from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from debiased_contrastive.evaluation.descent import CentredFeatures, Problems, centre, minimise
from debiased_contrastive.evaluation.features import check_features, check_labels

SMALLEST_GROUP = 4
"""Number of problems that differ in their rows alone from which on it pays to solve their mean first."""


@torch.no_grad()
def logistic_regression(
    features: Tensor,
    labels: Tensor,
    C: float = 1.0,  # noqa: N803
    *,
    tolerance: float = 1e-5,
    max_passes: int = 500,
) -> tuple[Tensor, Tensor]:
    """Fit multinomial logistic regression: minimise C sum_i loss_i + 1/2 ||weight||^2, the bias free.

    This is what scikit-learn's LogisticRegression(C) minimises, so C can be carried over. For two classes
    it has one row, w = weight[1] - weight[0], and 1/2 ||w||^2 is added, there as here.

    Args:
        features: (n, d), in any floating-point dtype.
        labels: (n,) integers; every class from 0 to the largest label has a sample.
        C: Inverse strength of the regularisation.
        tolerance: It stops when the quadratic model expects to gain less than this share of the value.
        max_passes: Most passes over the features; a warning says when they did not suffice.

    Returns:
        Weight (k, d), whose rows sum to zero, and bias (k,).

    >>> x = torch.tensor([[-2.0], [-1.0], [1.0], [2.0]])
    >>> weight, bias = logistic_regression(x, torch.tensor([0, 0, 1, 1]))
    >>> (x @ weight.T + bias).argmax(1)
    tensor([0, 0, 1, 1])
    """
    check_features("features", features)
    check_labels("labels", labels, len(features))
    check_settings((C,), tolerance, max_passes)
    num_classes = 1 + int(labels.max())
    check_presence(labels, num_classes)
    centred = centre(features)
    start = centred.x.new_zeros(num_classes, features.shape[1] + 1)
    weights = fit_classes(centred, labels.long(), C, start, tolerance, max_passes)
    weight, bias = weights[:, :-1], weights[:, -1]
    return weight, bias - weight @ centred.mean


def fit_classes(
    features: CentredFeatures,
    labels: Tensor,
    C: float,  # noqa: N803
    start: Tensor,
    tolerance: float,
    max_passes: int,
) -> Tensor:
    """Fit one regression: (k, d + 1) weights, a row for each class and intercepts last, from such a `start`."""
    is_binary = len(start) == 2
    problems = _problems(labels, start.new_ones(1, len(labels)), (C,), len(start), start)
    # For two classes scikit-learn penalises w = w_1 - w_0, which says all if w_0 = -w_1.
    start = (start[1:] - start[:1] if is_binary else start).unsqueeze(0)
    place = labels.new_zeros(1)
    weights, unsolved = minimise(
        features, problems, start, place, tolerance=tolerance, max_passes=max_passes, relative=True
    )
    _warn(unsolved, 1, max_passes)
    return torch.cat([-weights[0], weights[0]]) / 2 if is_binary else weights[0]


@torch.no_grad()
def logistic_regressions(
    features: Tensor | CentredFeatures,
    labels: Tensor,
    rows: Tensor,
    C: Sequence[float],  # noqa: N803
    *,
    tolerance: float = 1e-5,
    max_passes: int = 500,
    progress: Callable[[int], None] | None = None,
    starts: tuple[Tensor, Tensor] | None = None,
) -> tuple[Tensor, Tensor]:
    """Fit p logistic regressions that share features, as folds and regularisations need.

    Each minimises C sum_i rows_i loss_i + 1/2 ||weight||^2, the bias free, as scikit-learn's
    LogisticRegression(C) does with `rows` as its sample weights: for two classes with one vector, whose
    logits are those of class 1, for more of them multinomial.

    Args:
        features: (n, d), or the result of `centre`, which can serve several calls.
        labels: (n,) integers, or (p, n) where problems differ in them, as those of one class against the rest do.
        rows: (p, n) weights of the samples, or a mask of those that count.
        C: Inverse strengths of the regularisation, one for each problem.
        tolerance: A problem is solved when the quadratic model expects to gain less than this, in nats a sample:
            logits are then off by about sqrt(2 tolerance / (q (1 - q))), q the probability of the class.
        max_passes: Most passes over the features; a warning says how many problems they did not suffice for.
        progress: Called with the number of problems solved so far.
        starts: Weights and biases to start from, as they are returned.

    Returns:
        Weights (p, k, d) and biases (p, k); k is 1 for two classes.

    >>> x, y = torch.tensor([[-2.0], [-1.0], [1.0], [2.0]]), torch.tensor([0, 0, 1, 1])
    >>> weights, biases = logistic_regressions(x, y, torch.ones(2, 4), [1.0, 100.0])
    >>> weights.shape, bool(weights[0] < weights[1])
    (torch.Size([2, 1, 1]), True)
    """
    if isinstance(features, Tensor):
        check_features("features", features)
        features = centre(features, len(rows))
    check_settings(tuple(C), tolerance, max_passes)
    num_classes = _count_classes(labels, rows, len(C), len(features.x))
    problems = _problems(labels, rows, C, num_classes, features.x)
    zero = features.x.new_zeros(1, 1 if num_classes == 2 else num_classes, features.x.shape[1] + 1)
    group_of = _groups(problems.labels, C)
    if starts is not None:
        first = torch.cat([starts[0], (starts[1] + starts[0] @ features.mean).unsqueeze(2)], 2)
        first_of = torch.arange(len(rows), device=rows.device)
    elif (1 + int(group_of.max())) * SMALLEST_GROUP <= len(rows):
        # Problems that differ in their rows alone start at the minimum of the mean of their objectives. This is
        # one problem more, but it saves passes of all others.
        means, first_of = _mean_problems(problems, group_of), group_of
        zeros = torch.zeros_like(means.sizes, dtype=torch.long)
        first, _ = minimise(features, means, zero, zeros, tolerance=tolerance, max_passes=max_passes)
    else:
        first, first_of = zero, torch.zeros_like(group_of)
    weights, unsolved = minimise(
        features, problems, first, first_of, tolerance=tolerance, max_passes=max_passes, progress=progress
    )
    _warn(unsolved, len(rows), max_passes)
    weights, biases = weights[..., :-1], weights[..., -1]
    biases = biases - weights @ features.mean
    # A constant that all classes share changes no probability.
    return weights, biases - biases.mean(1, keepdim=True) if num_classes > 2 else biases


def _problems(
    labels: Tensor,
    rows: Tensor,
    C: Sequence[float],  # noqa: N803
    num_classes: int,
    like: Tensor,
) -> Problems:
    sizes = rows.sum(1, dtype=like.dtype)
    labels = labels.to(torch.int8 if num_classes == 2 else torch.long)
    labels = labels.unsqueeze(0) if labels.dim() == 1 else labels
    return Problems(rows, sizes, labels, 1 / (torch.tensor(tuple(C)).to(sizes) * sizes))


def _groups(labels: Tensor, C: Sequence[float]) -> Tensor:  # noqa: N803
    """(p,) numbers from 0, the same for problems with the same C and labels."""
    kinds = torch.tensor(tuple(C), dtype=torch.float64, device=labels.device).unique(return_inverse=True)[1]
    if len(labels) > 1:
        kinds = kinds * len(labels) + labels.unique(dim=0, return_inverse=True)[1]
    groups: Tensor = kinds.unique(return_inverse=True)[1]
    return groups


def _mean_problems(problems: Problems, group_of: Tensor) -> Problems:
    """For each group the problem whose objective is the mean of its members'."""
    members = F.one_hot(group_of).T.to(problems.sizes.dtype)
    rows = members @ problems.rows.to(members.dtype) / members.sum(1, keepdim=True)
    sizes, first = rows.sum(1), problems.at(members.argmax(1))
    return Problems(rows, sizes, first.labels, first.penalties * first.sizes / sizes)


def _warn(unsolved: int, total: int, max_passes: int) -> None:
    if unsolved:
        warnings.warn(
            f"{unsolved} of {total} logistic regressions stopped after {max_passes} passes, before their "
            "tolerance: raise max_passes or lower C",
            RuntimeWarning,
            stacklevel=4,
        )


def check_settings(regularisations: tuple[float, ...], tolerance: float, max_passes: int) -> None:
    """Raise unless all are positive."""
    for value in regularisations:
        if not 0 < value < math.inf:
            raise ValueError(f"C must be positive and finite; got {value}: larger means less regularised")
    if not tolerance > 0 or max_passes < 1:
        raise ValueError(
            f"tolerance and max_passes must be positive; got {tolerance} and {max_passes}: the defaults serve"
        )


def check_presence(labels: Tensor, num_classes: int) -> None:
    """Raise unless there are two classes and each has a sample: the intercept of an absent one has no optimum."""
    counts = labels.long().bincount(minlength=num_classes)
    absent = (counts == 0).nonzero().flatten().tolist()
    if absent or num_classes < 2:
        raise ValueError(
            f"there must be two classes or more, each with a training sample; got {num_classes}, without "
            f"samples: {absent[:5]}: number the classes that are there from 0"
        )


def _count_classes(labels: Tensor, rows: Tensor, p: int, n: int) -> int:
    """The number of classes; raise unless labels and rows suit p problems of n samples."""
    if rows.shape != (p, n) or p < 1 or rows.dtype.is_complex or not bool((rows >= 0).all()):
        raise ValueError(
            f"rows must be a mask, or weights of at least 0, with shape ({p}, {n}): a row for each C, a column for "
            f"each sample; got {rows.dtype} {tuple(rows.shape)}: repeat the folds for every C"
        )
    dtype = labels.dtype
    if labels.shape not in ((n,), (p, n)) or dtype == torch.bool or dtype.is_floating_point or dtype.is_complex:
        raise ValueError(
            f"labels must be integers with shape ({n},), or ({p}, {n}) where problems differ in them; got {dtype} "
            f"{tuple(labels.shape)}: class numbers, not one-hot rows"
        )
    if int(labels.min()) < 0:
        raise ValueError(f"labels must be at least 0; got {int(labels.min())}: number classes from 0")
    num_classes, counted = max(2, 1 + int(labels.max())), rows > 0
    for label in range(num_classes):
        absent = (~(counted & (labels == label)).any(1)).nonzero().flatten().tolist()
        if absent:
            raise ValueError(
                f"every problem must have a training sample of each of {num_classes} classes; got none of class "
                f"{label} in {len(absent)} of {p} problems, first in number {absent[0]}: use fewer folds, or leave "
                "the class out"
            )
    return num_classes
