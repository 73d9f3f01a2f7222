"""KDE-EM (the core of DEDPUL; Ivanov, 2020): the fixed point of the posterior's mean."""

import numpy as np
from scipy.optimize import isotonic_regression
from scipy.stats import gaussian_kde

from debiased_contrastive.prior.estimate import Array, Scores

BANDWIDTH, GRID = 0.1, 512
MOST = (4000, 8000)
"""Positive and random similarities that are looked at; more change nothing but the time."""
TOLERANCE = 1e-2
"""Relative step at which the iteration stops: it creeps to 0 if it is let."""


def density_ratio(scores: Scores) -> float:
    """The largest alpha with alpha = mean_u min(1, alpha r(u)), r the ratio of the two densities.

    Densities are Gaussian kernel estimates of atanh(similarity); r is made non-decreasing, and is divided by its
    mean over random pairs, which should be 1.
    """
    ratio, mean = _ratio(scores)
    if mean > 0.5:
        ratio = ratio / mean
    alpha = 1.0
    while True:
        after = float(np.minimum(1, alpha * ratio).mean())
        if abs(after - alpha) < TOLERANCE * alpha or after < 1e-6:
            return after
        alpha = after


def ratio_mean(scores: Scores) -> float:
    """The mean of the density ratio over random pairs: 1 unless positives lie where random pairs never do."""
    return _ratio(scores)[1]


def _ratio(scores: Scores) -> tuple[Array, float]:
    generator = np.random.default_rng(0)
    thinned = [
        values if len(values) <= most else generator.choice(values, most, replace=False)
        for values, most in zip((scores.positive, scores.random), MOST, strict=True)
    ]
    p, u = (np.arctanh(np.clip(values, -1 + 1e-7, 1 - 1e-7)) for values in thinned)
    if np.ptp(p) == 0 or np.ptp(u) == 0:
        raise ValueError("similarities must not all be equal: there is no density to compare")
    grid = np.linspace(min(p.min(), u.min()), max(p.max(), u.max()), GRID)
    f_p, f_u = (gaussian_kde(values, BANDWIDTH)(grid) for values in (p, u))
    raw = f_p / np.maximum(f_u, 1e-300)
    # Where there are no random pairs the ratio has no bound, and no weight either.
    rising = isotonic_regression(np.minimum(raw, 1e12), weights=np.maximum(f_u, 1e-12)).x
    at_random: Array = np.interp(u, grid, rising)
    return at_random, float(np.interp(u, grid, raw).clip(max=1e12).mean())
