"""Linear probe, protocol `clean`: frozen features, regularisation chosen on a validation split of train."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from debiased_contrastive.evaluation.descent import ELEMENTS, CentredFeatures, second_moments
from debiased_contrastive.evaluation.features import count_classes, top_hits
from debiased_contrastive.evaluation.logistic import check_presence, check_settings, fit_classes
from debiased_contrastive.numerics import working_dtype

REGULARISATIONS = (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0)


@dataclass(frozen=True)
class LinearProbe:
    """Accuracies of a linear probe, as shares from 0 to 1."""

    top1: float
    """Accuracy on test of the probe that was fitted to all of train."""
    top5: float | None
    """Share of test labels among the five largest logits; None below six classes, where it says nothing."""
    regularisation: float
    """C of the fit: the smallest of those with the best validation accuracy."""
    validation: dict[float, float]
    """Every C with its accuracy on the validation split; empty if there was only one C."""


@torch.no_grad()
def linear_probe(
    train_features: Tensor,
    train_labels: Tensor,
    test_features: Tensor,
    test_labels: Tensor,
    *,
    num_classes: int | None = None,
    regularisations: Sequence[float] = REGULARISATIONS,
    validation_share: float = 0.1,
    standardise: bool = True,
    seed: int = 0,
    tolerance: float = 1e-5,
    max_passes: int = 500,
) -> LinearProbe:
    """Accuracy of multinomial logistic regression on frozen features.

    One of several regularisations is chosen on a stratified share of train, and the probe is fitted once more
    to all of train.

    Args:
        train_features: (n, d), in any floating-point dtype.
        train_labels: (n,) integers; every class has a sample.
        test_features: (m, d).
        test_labels: (m,) integers.
        num_classes: Number of classes; one more than the largest label if not given.
        regularisations: scikit-learn's C, from which the smallest of the best is chosen.
        validation_share: Share of each class of train on which it is chosen.
        standardise: Whether every feature gets mean 0 and variance 1 over train; one without variance is left at 0.
        seed: Seed of the validation split.
        tolerance: Tolerance of each fit, as `logistic_regression` has it.
        max_passes: Most passes of each fit over the features.

    Returns:
        The accuracies on test, and the C that was chosen.

    >>> x, y = torch.tensor([[-2.0], [-1.0], [1.0], [2.0]]), torch.tensor([0, 0, 1, 1])
    >>> linear_probe(x, y, x, y, regularisations=[1.0])
    LinearProbe(top1=1.0, top5=None, regularisation=1.0, validation={})
    """
    num_classes = count_classes(train_features, train_labels, test_features, test_labels, num_classes)
    check_presence(train_labels, num_classes)
    path = tuple(sorted({float(value) for value in regularisations}))
    if not path:
        raise ValueError("regularisations must hold at least one C; got none: leave it out for the default")
    if not 0 < validation_share < 1:
        raise ValueError(f"validation_share must be between 0 and 1; got {validation_share}: 0.1 is usual")
    check_settings(path, tolerance, max_passes)
    order, fitted = _split_train(train_labels.long(), validation_share if len(path) > 1 else 0.0, seed)
    mean, scale = _mean_and_scale(train_features, standardise)
    train, labels = _transform(train_features, mean, scale, order), train_labels.long()[order]
    test, test_labels = _transform(test_features, mean, scale, None), test_labels.long()
    # The second moments are only a preconditioner: those of the fitted part serve the last fit as well.
    moments = (second_moments(train[:fitted]),)
    weights = train.new_zeros(num_classes, train.shape[1] + 1)

    def fit(C: float, samples: int, start: Tensor) -> Tensor:  # noqa: N803
        features = CentredFeatures(train[:samples], torch.zeros_like(mean), moments)
        return fit_classes(features, labels[:samples], C, start, tolerance, max_passes)

    validation, solutions = {}, {path[0]: weights}
    if len(path) > 1:
        # From the strongest regularisation on, each solution is a good start for the next.
        for value in path:
            weights = solutions[value] = fit(value, fitted, weights)
            validation[value] = _accuracy(weights, train[fitted:], labels[fitted:], 1)
    best = max(path, key=lambda value: validation.get(value, 0.0))
    weights = fit(best, len(labels), solutions[best])
    top5 = _accuracy(weights, test, test_labels, 5) if num_classes > 5 else None
    return LinearProbe(_accuracy(weights, test, test_labels, 1), top5, best, validation)


def _split_train(labels: Tensor, share: float, seed: int) -> tuple[Tensor, int]:
    """An order of the samples that puts those of validation last, and how many come before them.

    Each class gives `share` of its samples to validation, at least one if it has two, and never all.
    """
    shuffled = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed)).to(labels.device)
    by_class = shuffled[labels[shuffled].argsort(stable=True)]
    counts = labels.bincount()
    place = torch.arange(len(labels), device=labels.device) - (counts.cumsum(0) - counts)[labels[by_class]]
    wanted = torch.minimum((share * counts).round().long().clamp_min(1 if share else 0), counts - 1)
    validation = place < wanted[labels[by_class]]
    if share and not bool(validation.any()):
        raise ValueError(
            "to choose among regularisations a class must have two train samples; got one of each: give one C"
        )
    # Shuffled again: the features' second moments are taken from rows at even distances.
    is_held_out = torch.zeros_like(validation).index_put_((by_class,), validation)[shuffled]
    return torch.cat([shuffled[~is_held_out], shuffled[is_held_out]]), int((~is_held_out).sum())


def _mean_and_scale(features: Tensor, standardise: bool) -> tuple[Tensor, Tensor]:
    dtype = working_dtype(features)
    mean = features.mean(0, dtype=dtype)
    if not standardise:
        return mean, torch.ones_like(mean)
    squares = torch.zeros_like(mean)
    for part in features.split(max(1, ELEMENTS // features.shape[1])):
        squares += (part.to(dtype) - mean).square_().sum(0)
    scale = (squares / len(features)).sqrt_()
    # The rounding of a constant is no variance.
    return mean, torch.where(scale > 100 * torch.finfo(dtype).eps * mean.abs(), scale, 1.0)


def _transform(features: Tensor, mean: Tensor, scale: Tensor, order: Tensor | None) -> Tensor:
    """Scale and order the features part by part, so that memory holds only one copy."""
    result = mean.new_empty(features.shape)
    rows = max(1, ELEMENTS // features.shape[1])
    for start in range(0, len(features), rows):
        part = slice(start, start + rows)
        chosen = features[part] if order is None else features[order[part]]
        torch.sub(chosen.to(mean.dtype), mean, out=result[part]).div_(scale)
    return result


def _accuracy(weights: Tensor, features: Tensor, labels: Tensor, k: int) -> float:
    rows = max(1, ELEMENTS // features.shape[1])
    hits = labels.new_zeros(())
    for x, y in zip(features.split(rows), labels.split(rows), strict=True):
        hits += top_hits(torch.addmm(weights[:, -1], x, weights[:, :-1].T), y, k)
    return int(hits) / len(labels)
