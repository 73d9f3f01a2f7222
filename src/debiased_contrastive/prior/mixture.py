"""tau_plus from similarities of positive and of random pairs: five estimators under one call."""

import math
from collections.abc import Callable
from typing import Literal, TypeAlias, get_args

import numpy as np
from scipy.optimize import isotonic_regression
from scipy.stats import gaussian_kde

from debiased_contrastive.prior.estimate import Array, PriorEstimate, Scores

Method: TypeAlias = Literal["best-bin", "density-ratio", "penL1", "AlphaMax", "AlphaMaxN"]

LOWEST_MEAN_RATIO = 0.95
"""Mean density ratio below which positives are not samples of the class."""
BEST_BIN_GAMMA, BEST_BIN_DELTA = 0.01, 0.1
KDE_BANDWIDTH, KDE_GRID = 0.1, 512
KDE_PAIRS = (4000, 8000)
"""Numbers of positive and random similarities for the densities; more only take longer."""
KDE_TOLERANCE = 1e-2
"""Relative step at which the fixed point is taken; with smaller ones it creeps to 0."""
BUMPS, FOLDS = 300, 5
PEN_L1_PAIRS = (2000, 4000)
PRIORS = np.geomspace(0.001, 0.95, 120)
"""Priors that penL1 tries, dense where they are small: 0.001 is common."""
PENALTIES = np.logspace(-3, 1, 10)
WIDTHS = np.logspace(-2, 1, 10)
"""Widths of the bumps, in median distances."""
SHARES = np.geomspace(0.001, 0.99, 200)
"""Shares that AlphaMax tries."""
LIKELIHOOD_FALL = (0.05, 0.2)
"""Losses in likelihood for each positive, between which the fall is taken for a line."""


def mixture_prior(scores: Scores, method: Method = "best-bin", *, seed: int = 0) -> PriorEstimate:
    """The share of pairs of one class among random pairs.

    The interval is a percentile bootstrap over as many pairs as are independent, if `scores.items` tells.

    Args:
        scores: Similarities of positive and of random pairs.
        method: The estimator.
        seed: Seed of the bootstrap.

    Returns:
        The estimate, its interval, and what speaks against it.

    Raises:
        ValueError: If no estimator has this name, or it cannot say anything about these similarities.
    """
    if method not in get_args(Method):
        raise ValueError(f"method must be one of {', '.join(get_args(Method))}; got {method!r}")
    estimator, draws = _ESTIMATORS[method]
    value = estimator(scores)
    generator = np.random.default_rng(seed)
    resampled = [estimator(scores.resample(generator)) for _ in range(draws)]
    # If the estimator is biased, draws are not centred on the value; the interval holds it all the same.
    low, high = np.quantile([*resampled, value], (0.025, 0.975))
    return PriorEstimate(method, value, min(float(low), value), max(float(high), value), doubts(scores, value))


def doubts(scores: Scores, value: float) -> tuple[str, ...]:
    """What speaks against an estimate from these similarities, in words."""
    found = []
    mean, auc = density_ratios(scores)[1], separability(scores)
    # The probability that a positive is more similar than a pair of two classes, given the estimate.
    implied = (auc - value / 2) / max(1e-9, 1 - value)
    if mean < LOWEST_MEAN_RATIO:
        found.append(
            f"positives lie where random pairs are rare (density ratio {mean:.2f} instead of 1): they are "
            "stand-ins, such as augmented views, and not samples of the class; the estimate means nothing"
        )
    elif auc < 0.55:
        found.append(f"positives are hardly more similar than random pairs (AUC {auc:.2f}): unreliable")
    elif (count := best_tail(scores)[1]) < 10:
        found.append(f"only {count} random pairs are as similar as the nearest positives: more pairs are needed")
    elif implied < 0.9:
        found.append(
            f"pairs of one class and of two are hardly told apart (AUC {implied:.2f}): unreliable, too high"
        )
    elif implied < 0.97:
        found.append(f"pairs of one class and of two overlap (AUC {implied:.2f}): the estimate is too high")
    if value < max(PRIORS[0], 1 / len(scores.positive)):
        found.append("less than these methods can tell from nothing")
    if implied > 1.1:
        found.append("more than the similarities allow: unreliable, too high")
    return tuple(found)


def separability(scores: Scores) -> float:
    """The probability that a positive pair is more similar than a random one, where ties count half."""
    random: Array = np.sort(scores.random)
    below = np.searchsorted(random, scores.positive, side="left")
    upto = np.searchsorted(random, scores.positive, side="right")
    return float((below + upto).mean() / (2 * len(random)))


def best_bin(scores: Scores) -> float:
    """Best-bin estimation (Garg et al., 2021): the ratio of the two upper tails, where it can be trusted most.

    min over thresholds c of q_u(c) / q_p(c), by an upper confidence bound. With q the shares of similarities at or
    above c, and n, m the independent pairs, c minimises
    q_u / q_p + ((1 + gamma) / q_p) (sqrt(log(4 / delta) / 2m) + sqrt(log(4 / delta) / 2n)).

    It over-estimates if no similarity is so high that only pairs of one class have it.
    """
    return best_tail(scores)[0]


def best_tail(scores: Scores) -> tuple[float, int]:
    """The estimate by the best bin, and how many random pairs its tail holds."""
    positive = np.sort(scores.positive)[::-1]
    random = np.sort(scores.random)
    # With ties, the tail of a value ends at its last place among the positives.
    places = np.flatnonzero(np.append(positive[1:] != positive[:-1], True))
    places = places[places >= 1]
    counts = len(random) - np.searchsorted(random, positive[places], side="left")
    q_p, q_u = (places + 1) / len(positive), counts / len(random)
    n, m = scores.effective
    spread = math.sqrt(math.log(4 / BEST_BIN_DELTA) / (2 * m)) + math.sqrt(math.log(4 / BEST_BIN_DELTA) / (2 * n))
    best = int(np.argmin(q_u / q_p + (1 + BEST_BIN_GAMMA) / q_p * spread))
    return min(1.0, float(q_u[best] / q_p[best])), int(counts[best])


def density_ratio(scores: Scores) -> float:
    """KDE-EM (the core of DEDPUL; Ivanov, 2020): the fixed point of the posterior's mean.

    The largest alpha with alpha = mean_u min(1, alpha r(u)), r the ratio of the two densities, divided by its mean
    over random pairs, which should be 1.
    """
    ratio, mean = density_ratios(scores)
    if mean > 0.5:
        ratio = ratio / mean
    alpha = 1.0
    while True:
        after = float(np.minimum(1, alpha * ratio).mean())
        if abs(after - alpha) < KDE_TOLERANCE * alpha or after < 1e-6:
            return after
        alpha = after


def density_ratios(scores: Scores) -> tuple[Array, float]:
    """The ratio of the densities of positive and random pairs, made non-decreasing, at random pairs; and its mean.

    The mean is that of the raw ratio: 1 unless positives lie where random pairs never do. Densities are Gaussian
    kernel estimates of atanh(similarity).
    """
    generator = np.random.default_rng(0)
    thinned = [
        values if len(values) <= most else generator.choice(values, most, replace=False)
        for values, most in zip((scores.positive, scores.random), KDE_PAIRS, strict=True)
    ]
    p, u = (np.arctanh(np.clip(values, -1 + 1e-7, 1 - 1e-7)) for values in thinned)
    if np.ptp(p) == 0 or np.ptp(u) == 0:
        raise ValueError("similarities must not all be equal: there is no density to compare")
    grid = np.linspace(min(p.min(), u.min()), max(p.max(), u.max()), KDE_GRID)
    f_p, f_u = (gaussian_kde(values, KDE_BANDWIDTH)(grid) for values in (p, u))
    raw = f_p / np.maximum(f_u, 1e-300)
    # Without random pairs the ratio is unbounded, and has no weight.
    rising = isotonic_regression(np.minimum(raw, 1e12), weights=np.maximum(f_u, 1e-12)).x
    return np.interp(u, grid, rising), float(np.interp(u, grid, raw).clip(max=1e12).mean())


def pen_l1(scores: Scores) -> float:
    """penL1 (du Plessis, Niu, Sugiyama, 2015): the prior that needs the least penalty to explain the mixture.

    argmin over theta of sum_l max(0, beta_l)^2 / lambda - theta + 1, beta_l = theta mean_p phi_l - mean_u phi_l.
    phi_l are Gaussian bumps at random pairs; width and lambda are chosen for each theta by cross-validation. A
    minimum at the lowest theta means that the estimator found nothing.
    """
    generator = np.random.default_rng(0)
    p, u = (
        generator.permutation(values)[:most]
        for values, most in zip((scores.positive, scores.random), PEN_L1_PAIRS, strict=True)
    )
    centres = u[:BUMPS]
    few = min(BUMPS, len(u) // 2)
    distance = float(np.median(np.abs(u[:few] - u[few : 2 * few]))) or 1e-6
    best, penalty = np.full(len(PRIORS), np.inf), np.zeros(len(PRIORS))
    for width in distance * WIDTHS:
        held_out, values = _fit_penalties(_bump_means(p, centres, width), _bump_means(u, centres, width))
        rows, lowest = np.arange(len(PRIORS)), held_out.argmin(1)
        better = held_out[rows, lowest] < best
        best[better] = held_out[rows, lowest][better]
        penalty[better] = values[rows, lowest][better]
    return float(PRIORS[int(np.argmin(penalty - PRIORS + 1))])


def _bump_means(values: Array, centres: Array, width: float) -> Array:
    """(FOLDS, BUMPS) means of the bumps over each fold."""
    bumps = np.exp(-0.5 * ((values[:, None] - centres) / width) ** 2)
    folds = np.arange(len(values)) % FOLDS
    return np.stack([bumps[folds == fold].mean(0) for fold in range(FOLDS)])


def _fit_penalties(mean_p: Array, mean_u: Array) -> tuple[Array, Array]:
    """(priors, penalties) objectives on held-out folds, and values of the objective on all of them."""
    theta = PRIORS[:, None]
    held_out = np.zeros((len(PRIORS), len(PENALTIES)))
    for fold in range(FOLDS):
        rest = np.arange(FOLDS) != fold
        train = theta * mean_p[rest].mean(0) - mean_u[rest].mean(0)
        test = theta * mean_p[fold] - mean_u[fold]
        # With a = max(0, beta) / lambda the held-out objective is lambda a.a / 2 - a.beta.
        a = np.maximum(0, train)
        held_out += (0.5 * (a * a).sum(1) - (a * test).sum(1))[:, None] / PENALTIES
    beta = theta * mean_p.mean(0) - mean_u.mean(0)
    return held_out, (np.maximum(0, beta) * beta).sum(1)[:, None] / PENALTIES


def alpha_max(scores: Scores) -> float:
    """AlphaMax (Jain et al., 2016): the share c up to which the mixture can be called positive at no cost.

    The cost is in likelihood. For each c: max over beta in [0, 1]^bins with sum_i beta_i w_i = c of
    sum_i p_i log(beta_i w_i / c) + sum_i w_i log((1 - beta_i) w_i + c p_i), with p and w the bins' shares of the
    positive and of the random similarities. With bins that do not overlap the maximum is one root for each bin
    under one multiplier.
    """
    p, w = _histograms(scores)
    drop = np.minimum.accumulate(_likelihood(p, w, SHARES[:, None]))
    drop = drop.max() - drop
    if drop[-1] < LIKELIHOOD_FALL[1]:
        return 1.0
    # The knee is where the flat part would meet the fall, which is a straight line at first.
    first, second = np.interp(LIKELIHOOD_FALL, drop, SHARES)
    back = LIKELIHOOD_FALL[0] * (second - first) / (LIKELIHOOD_FALL[1] - LIKELIHOOD_FALL[0])
    return float(np.clip(first - back, 0, 1))


def alpha_max_noisy(scores: Scores) -> tuple[float, float]:
    """AlphaMaxN: the prior where a share beta of the positive pairs really shares a class, and that beta.

    With alpha_plus the share of positives in the mixture and beta_plus = 1 - the share of the mixture in the
    positives: alpha = alpha_plus beta_plus / (1 - alpha_plus (1 - beta_plus)), beta = beta_plus / (the same).
    """
    alpha_plus, beta_plus = best_bin(scores), 1 - best_bin(scores.swap())
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
    # Without this, a bin without random pairs would have no weight in the mixture.
    w = (w * len(scores.random) + 0.5) / (len(scores.random) + 0.5 * len(w))
    return p, w


def _likelihood(p: Array, w: Array, shares: Array) -> Array:
    """(s,) the largest likelihood for each of the shares (s, 1)."""
    # The multiplier is found by bisection, over all sizes that it may have.
    low, high = np.full_like(shares, -1e9), np.full_like(shares, 1e9)
    for _ in range(80):
        middle = np.sinh((np.arcsinh(low) + np.arcsinh(high)) / 2)
        too_many = (_beta(p, w, shares, middle) * w).sum(1, keepdims=True) > shares
        low, high = np.where(too_many, middle, low), np.where(too_many, high, middle)
    beta = _beta(p, w, shares, high)
    inside = p > 0
    from_positive = (p[inside] * np.log(beta[:, inside] * w[inside] / shares)).sum(1)
    likelihood: Array = from_positive + (w * np.log(np.maximum((1 - beta) * w + shares * p, 1e-300))).sum(1)
    return likelihood


def _beta(p: Array, w: Array, shares: Array, multiplier: Array) -> Array:
    """The root of p / beta - w^2 / ((1 - beta) w + share p) - multiplier w, a quadratic equation; at most 1."""
    a, c = multiplier * w**2, p * w + shares * p**2
    b = p * w + w**2 + a + multiplier * w * shares * p
    root = np.sqrt(np.maximum(b * b - 4 * a * c, 0))
    # Each form is used where nothing cancels; a negative b has a negative multiplier, so a is not 0.
    beta: Array = np.where(b > 0, 2 * c / np.where(b > 0, b + root, 1), (b - root) / np.where(b > 0, 1, 2 * a))
    return np.clip(beta, 1e-300, 1)


_ESTIMATORS: dict[str, tuple[Callable[[Scores], float], int]] = {
    "best-bin": (best_bin, 200),
    "density-ratio": (density_ratio, 20),
    "penL1": (pen_l1, 20),
    "AlphaMax": (alpha_max, 20),
    "AlphaMaxN": (lambda scores: alpha_max_noisy(scores)[0], 200),
}
"""Each estimator with its number of bootstrap draws, which depends on their cost."""
