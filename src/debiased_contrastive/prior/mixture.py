"""tau_plus from similarities of positive and of random pairs: five estimators under one call."""

from collections.abc import Callable
from typing import Literal, TypeAlias, get_args

import numpy as np

from debiased_contrastive.prior.alpha_max import alpha_max, alpha_max_noisy
from debiased_contrastive.prior.best_bin import best_bin, separability, tail
from debiased_contrastive.prior.density_ratio import density_ratio, ratio_mean
from debiased_contrastive.prior.estimate import PriorEstimate, Scores
from debiased_contrastive.prior.pen_l1 import PRIORS, pen_l1

Method: TypeAlias = Literal["best-bin", "density-ratio", "penL1", "AlphaMax", "AlphaMaxN"]

_FUNCTIONS: dict[str, tuple[Callable[[Scores], float], int]] = {
    "best-bin": (best_bin, 200),
    "density-ratio": (density_ratio, 20),
    "penL1": (pen_l1, 20),
    "AlphaMax": (alpha_max, 20),
    "AlphaMaxN": (lambda scores: alpha_max_noisy(scores)[0], 200),
}
"""With the number of bootstrap draws, by what they cost."""
STAND_IN = 0.95
"""Mean density ratio below which positives are no samples of the class."""


def mixture_prior(scores: Scores, method: Method = "best-bin", *, seed: int = 0) -> PriorEstimate:
    """The share of pairs of one class among random pairs.

    The interval is a percentile bootstrap over as many pairs as are independent, if `scores.items` tells.
    """
    if method not in get_args(Method):
        raise ValueError(f"method must be one of {', '.join(get_args(Method))}; got {method!r}")
    function, draws = _FUNCTIONS[method]
    value = function(scores)
    generator = np.random.default_rng(seed)
    independent = (int(scores.effective[0]), int(scores.effective[1]))
    found = [function(scores.drawn(generator, independent)) for _ in range(draws)]
    # Draws are not centred on the value where the estimator is biased; it belongs to the interval all the same.
    low, high = np.quantile([*found, value], (0.025, 0.975))
    return PriorEstimate(method, value, min(float(low), value), max(float(high), value), doubts(scores, value))


def doubts(scores: Scores, value: float) -> tuple[str, ...]:
    """What speaks against an estimate from these similarities."""
    found = []
    mean, auc = ratio_mean(scores), separability(scores)
    # The chance that a positive is more similar than a pair of two classes, given the estimate.
    implied = (auc - value / 2) / max(1e-9, 1 - value)
    if mean < STAND_IN:
        found.append(
            f"positives lie where random pairs are rare (density ratio {mean:.2f} instead of 1): they are "
            "stand-ins, such as augmented views, and not samples of the class; the estimate means nothing"
        )
    elif auc < 0.55:
        found.append(f"positives are hardly more similar than random pairs (AUC {auc:.2f}): unreliable")
    elif (count := tail(scores)[1]) < 10:
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
