"""Linear probe, protocol `clean`: frozen features, regularisation chosen on a validation split of train."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from debiased_contrastive.evaluation.curvature import second_moments
from debiased_contrastive.evaluation.features import class_count, top_hits, working_dtype
from debiased_contrastive.evaluation.logistic import (
    ELEMENTS,
    Problem,
    check_presence,
    check_settings,
    minimiser,
    penalty_of,
)

REGULARISATIONS = (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0)


@dataclass(frozen=True)
class LinearProbe:
    """Accuracies of a linear probe, as shares from 0 to 1."""

    top1: float
    """On test, fitted to all of train."""
    top5: float | None
    """The same; None below six classes, where it says nothing."""
    regularisation: float
    """C of the fit: the smallest of those with the best validation accuracy."""
    validation: dict[float, float]
    """C to accuracy on the validation split; empty where there was only one C to choose from."""


class _Sets(NamedTuple):
    """Train, in an order that puts the validation samples last, and test, both moved and scaled alike."""

    features: Tensor
    labels: Tensor
    fitted: int
    test_features: Tensor
    test_labels: Tensor


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

    Each of `regularisations` is scikit-learn's C. One is chosen on a stratified share of train, drawn with
    `seed`, and the probe fitted once more to all of train. `standardise` gives every feature mean 0 and
    variance 1 over train; a feature without variance is left at 0.

    >>> x, y = torch.tensor([[-2.0], [-1.0], [1.0], [2.0]]), torch.tensor([0, 0, 1, 1])
    >>> linear_probe(x, y, x, y, regularisations=[1.0])
    LinearProbe(top1=1.0, top5=None, regularisation=1.0, validation={})
    """
    num_classes = class_count(train_features, train_labels, test_features, test_labels, num_classes)
    check_presence(train_labels, num_classes)
    path = tuple(sorted({float(value) for value in regularisations}))
    _check_choice(path, validation_share)
    check_settings(path, tolerance, max_passes)
    share = validation_share if len(path) > 1 else 0.0
    order, fitted = _stratified(train_labels.long(), share, seed)
    mean, scale = _statistics(train_features, standardise)
    train = _transformed(train_features, mean, scale, order), train_labels.long()[order]
    test = _transformed(test_features, mean, scale, None), test_labels.long()
    return _chosen(_Sets(*train, fitted, *test), path, num_classes, tolerance, max_passes)


def _chosen(
    sets: _Sets, path: tuple[float, ...], num_classes: int, tolerance: float, max_passes: int
) -> LinearProbe:
    # The second moments only precondition: those of the fitted part serve the last fit as well.
    moments = second_moments(sets.features[: sets.fitted])

    def fit(C: float, samples: int, start: Tensor) -> Tensor:  # noqa: N803
        penalty = penalty_of(C, samples, num_classes)
        problem = Problem(sets.features[:samples], sets.labels[:samples], moments, penalty)
        return minimiser(problem, start, tolerance, max_passes)

    weights = sets.features.new_zeros(num_classes, sets.features.shape[1] + 1)
    validation, solutions = {}, {path[0]: weights}
    if len(path) > 1:
        # From the strongest regularisation on, each solution is a good start for the next.
        for value in path:
            weights = solutions[value] = fit(value, sets.fitted, weights)
            held_out = sets.features[sets.fitted :], sets.labels[sets.fitted :]
            validation[value] = _accuracy(weights, *held_out, 1)
    best = max(path, key=lambda value: validation.get(value, 0.0))
    weights = fit(best, len(sets.labels), solutions[best])
    test = sets.test_features, sets.test_labels
    top5 = _accuracy(weights, *test, 5) if num_classes > 5 else None
    return LinearProbe(_accuracy(weights, *test, 1), top5, best, validation)


def _stratified(labels: Tensor, share: float, seed: int) -> tuple[Tensor, int]:
    """An order of the samples, and how many of them come before the validation samples.

    Of each class `share` is held out, at least one sample if it has two, and never all.
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


def _statistics(features: Tensor, standardise: bool) -> tuple[Tensor, Tensor]:
    """Mean and scale of each feature."""
    dtype = working_dtype(features)
    mean = features.mean(0, dtype=dtype)
    if not standardise:
        return mean, torch.ones_like(mean)
    squares = torch.zeros_like(mean)
    for part in features.split(max(1, ELEMENTS // features.shape[1])):
        squares += (part.to(dtype) - mean).square_().sum(0)
    scale = (squares / len(features)).sqrt_()
    # What rounding leaves of a constant is no variance.
    return mean, torch.where(scale > 100 * torch.finfo(dtype).eps * mean.abs(), scale, 1.0)


def _transformed(features: Tensor, mean: Tensor, scale: Tensor, order: Tensor | None) -> Tensor:
    """A copy in that order, moved and scaled, part by part so that memory holds no second copy."""
    result = mean.new_empty(features.shape)
    rows = max(1, ELEMENTS // features.shape[1])
    for start in range(0, len(features), rows):
        part = slice(start, start + rows)
        chosen = features[part] if order is None else features[order[part]]
        torch.sub(chosen.to(mean.dtype), mean, out=result[part]).div_(scale)
    return result


def _accuracy(weights: Tensor, features: Tensor, labels: Tensor, k: int) -> float:
    """Share of samples whose label is among the k largest logits."""
    rows = max(1, ELEMENTS // features.shape[1])
    hits = labels.new_zeros(())
    for x, y in zip(features.split(rows), labels.split(rows), strict=True):
        hits += top_hits(torch.addmm(weights[:, -1], x, weights[:, :-1].T), y, k)
    return int(hits) / len(labels)


def _check_choice(path: tuple[float, ...], validation_share: float) -> None:
    if not path:
        raise ValueError("regularisations must hold at least one C; got none: leave it out for the default")
    if not 0 < validation_share < 1:
        raise ValueError(f"validation_share must be between 0 and 1; got {validation_share}: 0.1 is usual")
