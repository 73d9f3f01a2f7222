"""Multinomial logistic regression: scikit-learn's objective, few passes over the data, on any device."""

import math
import warnings
from collections import deque
from typing import NamedTuple

import torch
from torch import Tensor

from debiased_contrastive.evaluation.curvature import Spectrum, curvature_step, second_moments
from debiased_contrastive.evaluation.features import check_features, check_labels, working_dtype

MEMORY = 20
ELEMENTS = 2**20
"""Features in one tile of a pass: it is read twice, the second time from the cache."""


class Problem(NamedTuple):
    """Centred (n, d) features, labels, and penalty: the mean loss plus penalty / 2 ||W||^2 is minimised."""

    features: Tensor
    labels: Tensor
    moments: Spectrum
    penalty: float


class Point(NamedTuple):
    """(k, d + 1) weights, the intercepts last, with value and gradient and E[diag(p) - p p^T] there."""

    weights: Tensor
    value: float
    gradient: Tensor
    covariance: Tensor


class Pair(NamedTuple):
    """A step and what it changed in the gradient, and one over their product."""

    step: Tensor
    change: Tensor
    inverse: Tensor


@torch.no_grad()
def logistic_regression(
    features: Tensor,
    labels: Tensor,
    C: float = 1.0,  # noqa: N803
    *,
    tolerance: float = 1e-5,
    max_passes: int = 500,
) -> tuple[Tensor, Tensor]:
    """Weight (k, d) and bias (k,) that minimise C sum_i loss_i + 1/2 ||weight||^2, the bias free.

    This is what scikit-learn's LogisticRegression(C) minimises, so C can be carried over. For two classes
    it has one row, w = weight[1] - weight[0], and 1/2 ||w||^2 is added, there as here. Rows of `weight` sum
    to zero. It stops when the quadratic model expects to gain less than `tolerance` times the value.

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
    features = features.to(working_dtype(features))
    # The intercept is free, so centring changes nothing but the condition of the problem.
    mean = features.mean(0)
    features = features - mean
    problem = Problem(features, labels.long(), second_moments(features), penalty_of(C, len(labels), num_classes))
    start = features.new_zeros(num_classes, features.shape[1] + 1)
    weights = minimiser(problem, start, tolerance, max_passes)
    weight, bias = weights[:, :-1], weights[:, -1]
    return weight, bias - weight @ mean


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


def penalty_of(C: float, samples: int, num_classes: int) -> float:  # noqa: N803
    """The factor of 1/2 ||W||^2 beside the mean loss."""
    # For two classes scikit-learn penalises w = w_1 - w_0, and ||w||^2 = 2 ||W||^2 where w_0 = -w_1.
    return (2 if num_classes == 2 else 1) / (C * samples)


def minimiser(problem: Problem, start: Tensor, tolerance: float, max_passes: int) -> Tensor:
    """(k, d + 1) weights: L-BFGS around the Kronecker model of the Hessian, which is renewed at each step."""
    here, passes = evaluated(problem, start), 1
    pairs: deque[Pair] = deque(maxlen=MEMORY)
    while passes < max_passes:
        direction = _direction(problem, here, pairs)
        slope = _dot(here.gradient, direction)
        # -slope / 2 is what the model expects to gain.
        if -slope <= 2 * tolerance * here.value:
            return here.weights
        there, tries = _line_search(problem, here, direction, slope)
        passes += tries
        if there is None:
            return here.weights
        step, change = there.weights - here.weights, there.gradient - here.gradient
        product = (step * change).sum()
        if float(product) > 0:
            pairs.append(Pair(step, change, 1 / product))
        here = there
    warnings.warn(
        f"logistic regression stopped after {passes} passes, before its tolerance: raise max_passes or lower C",
        RuntimeWarning,
        stacklevel=3,
    )
    return here.weights


def _line_search(problem: Problem, here: Point, direction: Tensor, slope: float) -> tuple[Point | None, int]:
    """A point further down, or None where rounding hides it, and the number of points tried."""
    step, tries = 1.0, 0
    while step > 1e-4:
        there = evaluated(problem, here.weights + step * direction)
        tries += 1
        end_slope = _dot(there.gradient, direction)
        if _accepted(here, there, slope, end_slope):
            return there, tries
        # Where the slope would be zero if it were linear. In this order a NaN, of overflow, is 0.1.
        step *= max(0.1, slope / (slope - end_slope))
    return None, tries


def _accepted(here: Point, there: Point, slope: float, end_slope: float) -> bool:
    """Whether the step led down: sure where it still leads down, by convexity, and else seen in the value."""
    slack = 10 * torch.finfo(there.weights.dtype).eps * abs(here.value)
    return end_slope <= 0 or (end_slope <= -slope / 2 and there.value <= here.value + slack)


def evaluated(problem: Problem, weights: Tensor) -> Point:
    """Value, gradient and curvature in one pass over the features."""
    n, d = problem.features.shape
    slopes, intercepts = weights[:, :-1], weights[:, -1:]
    loss, residuals = weights.new_zeros(()), weights.new_zeros(len(weights))
    gradient, products = torch.zeros_like(slopes), weights.new_zeros(2, len(weights), len(weights))
    rows = max(1, ELEMENTS // d)
    for x, y in zip(problem.features.split(rows), problem.labels.split(rows), strict=True):
        # Classes first: with few of them the other layout of the products takes twice as long.
        log_p = torch.addmm(intercepts, slopes, x.T).log_softmax(0)
        label = y.unsqueeze(0)
        log_right = log_p.gather(0, label)
        # p - 1 and log p of the label come from the other classes. Near 1, where separable data lead,
        # rounding would leave nothing of them.
        residual = log_p.exp_().scatter_(0, label, 0.0)
        wrong = residual.sum(0, keepdim=True)
        loss -= torch.where(wrong < 0.5, torch.log1p(-wrong), log_right).sum()
        residual.scatter_(0, label, -wrong)
        residuals += residual.sum(1)
        gradient.addmm_(residual, x)
        products[0].addmm_(residual, residual.T)
        products[1].index_add_(1, y, residual)
    # With p = e_y + r: diag(p) - p p^T = diag(r) - r r^T - r e_y^T - e_y r^T.
    covariance = (torch.diag(residuals) - products[0] - products[1] - products[1].T) / n
    value = loss / n + problem.penalty / 2 * slopes.square().sum()
    gradient = torch.cat([gradient / n + problem.penalty * slopes, residuals.unsqueeze(1) / n], 1)
    return Point(weights, float(value), gradient, covariance)


def _direction(problem: Problem, here: Point, pairs: deque[Pair]) -> Tensor:
    """The two loops of L-BFGS; downhill, as every pair has a positive product."""
    vector, factors = here.gradient.clone(), []
    for pair in reversed(pairs):
        factors.append((pair.step * vector).sum() * pair.inverse)
        vector -= factors[-1] * pair.change
    vector = curvature_step(vector, here.covariance, problem.moments, problem.penalty)
    for pair, factor in zip(pairs, reversed(factors), strict=True):
        vector += (factor - (pair.change * vector).sum() * pair.inverse) * pair.step
    return -vector


def _dot(first: Tensor, second: Tensor) -> float:
    return float((first * second).sum())
