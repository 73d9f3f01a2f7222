"""penL1 (du Plessis, Niu, Sugiyama, 2015): the prior that needs the least penalty to explain the mixture."""

import numpy as np

from debiased_contrastive.prior.estimate import Array, Scores

BUMPS, FOLDS = 300, 5
MOST = (2000, 4000)
PRIORS = np.geomspace(0.001, 0.95, 120)
"""Fine where priors are small: a tenth of a per cent is a common one."""
PENALTIES = np.logspace(-3, 1, 10)
WIDTHS = np.logspace(-2, 1, 10)
"""Of the bumps, in median distances."""


def pen_l1(scores: Scores) -> float:
    """argmin over theta of sum_l max(0, beta_l)^2 / lambda - theta + 1, beta_l = theta mean_p phi_l - mean_u phi_l.

    phi_l are Gaussian bumps at random pairs; width and lambda are chosen for each theta by cross-validation. A
    minimum at the lowest theta means that the estimator found nothing.
    """
    generator = np.random.default_rng(0)
    p, u = (
        generator.permutation(values)[:most]
        for values, most in zip((scores.positive, scores.random), MOST, strict=True)
    )
    centres = u[:BUMPS]
    few = min(BUMPS, len(u) // 2)
    distance = float(np.median(np.abs(u[:few] - u[few : 2 * few]))) or 1e-6
    best, penalty = np.full(len(PRIORS), np.inf), np.zeros(len(PRIORS))
    for width in distance * WIDTHS:
        held, values = _fitted(_means(p, centres, width), _means(u, centres, width))
        lowest = held.argmin(1)
        rows = np.arange(len(PRIORS))
        better = held[rows, lowest] < best
        best[better] = held[rows, lowest][better]
        penalty[better] = values[rows, lowest][better]
    return float(PRIORS[int(np.argmin(penalty - PRIORS + 1))])


def _means(values: Array, centres: Array, width: float) -> Array:
    """(FOLDS, BUMPS) sums of the bumps over each fold, as shares of all values."""
    bumps = np.exp(-0.5 * ((values[:, None] - centres) / width) ** 2)
    folds = np.arange(len(values)) % FOLDS
    return np.stack([bumps[folds == fold].mean(0) for fold in range(FOLDS)])


def _fitted(of_p: Array, of_u: Array) -> tuple[Array, Array]:
    """(priors, penalties) scores on held-out folds, and values of the objective on all of them."""
    theta = PRIORS[:, None]
    held = np.zeros((len(PRIORS), len(PENALTIES)))
    for fold in range(FOLDS):
        rest = np.arange(FOLDS) != fold
        train = theta * of_p[rest].mean(0) - of_u[rest].mean(0)
        test = theta * of_p[fold] - of_u[fold]
        # With a = max(0, beta) / lambda the held-out objective is lambda a.a / 2 - a.beta.
        a = np.maximum(0, train)
        held += (0.5 * (a * a).sum(1) - (a * test).sum(1))[:, None] / PENALTIES
    beta = theta * of_p.mean(0) - of_u.mean(0)
    return held, (np.maximum(0, beta) * beta).sum(1)[:, None] / PENALTIES
