"""tau_plus from labels of items, from labels of pairs, or from known class frequencies."""

import math

import numpy as np
import numpy.typing as npt

from debiased_contrastive.prior.estimate import PriorEstimate

Z_95 = 1.959963984540054
"""Half width of a 95 % interval, in standard errors."""


def collision_prior(labels: npt.ArrayLike) -> PriorEstimate:
    """tau_plus from labels of a uniform random sample of items: the share of pairs with equal labels.

    sum_c n_c (n_c - 1) / (n (n - 1)), unbiased for sum_c rho(c)^2. The interval is the estimate and 1.96 standard
    errors, whose exact form is plugged in: with z1 = sum rho^3 - (sum rho^2)^2 and z2 = sum rho^2 - (sum rho^2)^2,
    the variance is (4 (n - 2) z1 + 2 z2) / (n (n - 1)). A percentile bootstrap would be wrong: it draws items
    twice, which then share their label.

    A sample that was balanced by class says 1 / K, whatever the data are.

    Args:
        labels: (n,) labels of any kind.

    Returns:
        The estimate, with a warning if all classes are equally large.

    >>> collision_prior(["a", "a", "b", "b"] * 50).value.__round__(4)
    0.4975
    """
    counts = np.unique(np.asarray(labels), return_counts=True)[1].astype(np.float64)
    n = counts.sum()
    if np.ndim(labels) != 1 or n < 2:
        raise ValueError(f"labels must be one row of at least two; got shape {np.shape(labels)}")
    value = float((counts * (counts - 1)).sum() / (n * (n - 1)))
    cubes = float((counts * (counts - 1) * (counts - 2)).sum() / (n * (n - 1) * (n - 2))) if n > 2 else value
    z1, z2 = max(0.0, cubes - value**2), value - value**2
    error = math.sqrt((4 * (n - 2) * z1 + 2 * z2) / (n * (n - 1)))
    warnings: tuple[str, ...] = ()
    if np.all(counts == counts[0]) and len(counts) > 1:
        warnings = ("all classes have the same number of labels: if the sample was balanced so, it cannot tell",)
    low, high = max(0.0, value - Z_95 * error), min(1.0, value + Z_95 * error)
    return PriorEstimate("labels", value, low, high, warnings)


def pair_prior(same: npt.ArrayLike) -> PriorEstimate:
    """tau_plus from random pairs that were labelled same or different, with Wilson's interval.

    Args:
        same: (m,) booleans, True where a pair shares a class.

    >>> pair_prior([True] + [False] * 9).value
    0.1
    """
    answers = np.asarray(same)
    if answers.ndim != 1 or not len(answers) or answers.dtype != np.bool_:
        raise ValueError(f"same must be one row of booleans; got {answers.dtype} of shape {answers.shape}")
    m, share = len(answers), float(answers.mean())
    centre = (share + Z_95**2 / (2 * m)) / (1 + Z_95**2 / m)
    half = Z_95 / (1 + Z_95**2 / m) * math.sqrt(share * (1 - share) / m + Z_95**2 / (4 * m**2))
    # The ends are exact if all answers are equal, where centre and half differ by rounding.
    low, high = (0.0 if share == 0 else centre - half), (1.0 if share == 1 else centre + half)
    return PriorEstimate("labelled pairs", share, max(0.0, low), min(1.0, high))


def anchor_priors(labels: npt.ArrayLike, frequencies: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """The anchors' own tau_plus: the probability of each one's class.

    p = tau_plus p+ + (1 - tau_plus) p- holds with the anchor's own class, so this is exact even if classes differ
    in size. As a tensor it can be the `tau_plus` of a call of the losses.

    Args:
        labels: (a,) class numbers from 0; -1 = unknown.
        frequencies: (K,) probabilities of the classes.

    Returns:
        (a,) priors; `frequency_prior`, one number for all, stands for those whose class is unknown.

    >>> anchor_priors([0, 2, -1], [0.5, 0.25, 0.25]).tolist()
    [0.5, 0.25, 0.375]
    """
    codes, rho = np.asarray(labels), np.asarray(frequencies, dtype=np.float64)
    together = frequency_prior(rho)
    whole = codes.ndim == 1 and codes.dtype.kind in "iu"
    if not whole or ((codes < -1) | (codes >= len(rho))).any():
        raise ValueError(
            f"labels must be one row of class numbers below {len(rho)}, -1 = unknown; got {codes!r:.60}"
        )
    return np.where(codes < 0, together, rho[codes])


def frequency_prior(frequencies: npt.ArrayLike) -> float:
    """tau_plus from known class frequencies: sum_c rho(c)^2, the probability that two samples share a class.

    Args:
        frequencies: (K,) probabilities of the classes.

    >>> frequency_prior([0.5, 0.25, 0.25])
    0.375
    """
    rho = np.asarray(frequencies, dtype=np.float64)
    if rho.ndim != 1 or (rho < 0).any() or not abs(rho.sum() - 1) <= 1e-6:
        raise ValueError(f"frequencies must be one row of probabilities that sum to 1; got a sum of {rho.sum()}")
    return float((rho**2).sum())
