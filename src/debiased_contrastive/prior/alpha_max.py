"""AlphaMax (Jain et al., 2016): the knee of the likelihood as ever more of the mixture is called positive."""

import numpy as np

from debiased_contrastive.prior.best_bin import best_bin, negated
from debiased_contrastive.prior.estimate import Array, Scores

SHARES = np.geomspace(0.001, 0.99, 200)
FALL = (0.05, 0.2)
"""Losses in likelihood for each positive between which the fall is taken for a line."""


def alpha_max(scores: Scores) -> float:
    """The share c up to which the mixture can be called positive at no cost in likelihood.

    For each c: max over beta in [0, 1]^bins with sum_i beta_i w_i = c of
    sum_i p_i log(beta_i w_i / c) + sum_i w_i log((1 - beta_i) w_i + c p_i), with p and w the bins' shares of the
    positive and of the random similarities. With bins that do not overlap the maximum is one root for each bin
    under one multiplier.
    """
    p, w = _histograms(scores)
    return _knee(np.minimum.accumulate(_likelihood(p, w, SHARES[:, None])))


def alpha_max_noisy(scores: Scores) -> tuple[float, float]:
    """AlphaMaxN: the prior where a share beta of the positive pairs really shares a class, and that beta.

    With alpha_plus the share of positives in the mixture and beta_plus = 1 - the share of the mixture in the
    positives: alpha = alpha_plus beta_plus / (1 - alpha_plus (1 - beta_plus)), beta = beta_plus / (the same).
    """
    alpha_plus, beta_plus = best_bin(scores), 1 - best_bin(negated(scores))
    rest = 1 - alpha_plus * (1 - beta_plus)
    if rest <= 0:
        # Positives and random pairs look the same: all or none of them may share a class.
        return 1.0, 0.0
    return alpha_plus * beta_plus / rest, beta_plus / rest


def _histograms(scores: Scores) -> tuple[Array, Array]:
    """Shares by bins, which are narrow where positives are many."""
    count = int(np.clip(2 * len(scores.positive) ** (1 / 3), 10, 60))
    inner = np.unique(np.quantile(scores.positive, np.linspace(0, 1, count + 1)[1:-1]))
    below = scores.random[scores.random < inner[0]]
    more = np.unique(np.quantile(below, [0.25, 0.5, 0.75])) if len(below) > 100 else np.empty(0)
    edges = np.unique(np.concatenate([more, inner]))
    p, w = (
        np.bincount(np.searchsorted(edges, values, side="right"), minlength=len(edges) + 1) / len(values)
        for values in (scores.positive, scores.random)
    )
    # A bin without random pairs would be a part of the mixture of no weight.
    w = (w * len(scores.random) + 0.5) / (len(scores.random) + 0.5 * len(w))
    return p, w


def _likelihood(p: Array, w: Array, shares: Array) -> Array:
    """(s,) the largest likelihood for each of the shares (s, 1)."""
    # The multiplier by bisection, over all sizes that it may have.
    low, high = np.full_like(shares, -1e9), np.full_like(shares, 1e9)
    for _ in range(80):
        middle = np.sinh((np.arcsinh(low) + np.arcsinh(high)) / 2)
        too_many = (_beta(p, w, shares, middle) * w).sum(1, keepdims=True) > shares
        low, high = np.where(too_many, middle, low), np.where(too_many, high, middle)
    beta = _beta(p, w, shares, high)
    inside = p > 0
    of_positive = (p[inside] * np.log(beta[:, inside] * w[inside] / shares)).sum(1)
    likelihood: Array = of_positive + (w * np.log(np.maximum((1 - beta) * w + shares * p, 1e-300))).sum(1)
    return likelihood


def _beta(p: Array, w: Array, shares: Array, multiplier: Array) -> Array:
    """The root of p / beta - w^2 / ((1 - beta) w + share p) - multiplier w, a quadratic equation; at most 1."""
    a, c = multiplier * w**2, p * w + shares * p**2
    b = p * w + w**2 + a + multiplier * w * shares * p
    root = np.sqrt(np.maximum(b * b - 4 * a * c, 0))
    # Each form where it does not cancel; a negative b has a negative multiplier, so a is not 0.
    beta: Array = np.where(b > 0, 2 * c / np.where(b > 0, b + root, 1), (b - root) / np.where(b > 0, 1, 2 * a))
    return np.clip(beta, 1e-300, 1)


def _knee(curve: Array) -> float:
    """Where the flat part would meet the fall, which is a straight line at first."""
    drop = curve.max() - curve
    if drop[-1] < FALL[1]:
        return 1.0
    first, second = np.interp(FALL, drop, SHARES)
    return float(np.clip(first - FALL[0] * (second - first) / (FALL[1] - FALL[0]), 0, 1))
