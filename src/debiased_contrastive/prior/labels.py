"""tau_plus from labels: of items, of pairs, or of class frequencies that are known."""

import math

import numpy as np
import numpy.typing as npt

from debiased_contrastive.prior.estimate import PriorEstimate

NORMAL = 1.959963984540054
"""97.5 % point of the normal distribution."""


def collision_prior(labels: npt.ArrayLike) -> PriorEstimate:
    """From the labels (n,) of a uniform random sample of items: the share of pairs with equal labels.

    sum_c n_c (n_c - 1) / (n (n - 1)), unbiased for sum_c rho(c)^2. The interval is the estimate and 1.96 standard
    errors, whose exact form is plugged in: with z1 = sum rho^3 - (sum rho^2)^2 and z2 = sum rho^2 - (sum rho^2)^2,
    the variance is (4 (n - 2) z1 + 2 z2) / (n (n - 1)). A percentile bootstrap would be wrong: it draws items
    twice, which then share their label.

    A sample that was balanced by class says 1 / K, whatever the data are.

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
    return PriorEstimate(
        "labels", value, max(0.0, value - NORMAL * error), min(1.0, value + NORMAL * error), warnings
    )


def pair_prior(same: npt.ArrayLike) -> PriorEstimate:
    """From random pairs that were labelled same (True) or different (False), (m,); Wilson's interval.

    >>> pair_prior([True] + [False] * 9).value
    0.1
    """
    answers = np.asarray(same)
    if answers.ndim != 1 or not len(answers) or answers.dtype != np.bool_:
        raise ValueError(f"same must be one row of booleans; got {answers.dtype} of shape {answers.shape}")
    m, share = len(answers), float(answers.mean())
    centre = (share + NORMAL**2 / (2 * m)) / (1 + NORMAL**2 / m)
    half = NORMAL / (1 + NORMAL**2 / m) * math.sqrt(share * (1 - share) / m + NORMAL**2 / (4 * m**2))
    return PriorEstimate("labelled pairs", share, max(0.0, centre - half), min(1.0, centre + half))


def anchor_priors(labels: npt.ArrayLike, frequencies: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """The anchors' own tau_plus (a,): the probability of each one's class, labels (a,) from 0, -1 = unknown.

    p = tau_plus p+ + (1 - tau_plus) p- holds with the anchor's own class, so that this is exact where classes
    differ in size; one number for all, `frequency_prior`, stands for those whose class is unknown. As a tensor
    it is the `tau_plus` of a call of the losses.

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
    """From the classes' probabilities (K,): sum_c rho(c)^2, at least 1 / K.

    >>> frequency_prior([0.5, 0.25, 0.25])
    0.375
    """
    rho = np.asarray(frequencies, dtype=np.float64)
    if rho.ndim != 1 or (rho < 0).any() or not abs(rho.sum() - 1) <= 1e-6:
        raise ValueError(f"frequencies must be one row of probabilities that sum to 1; got a sum of {rho.sum()}")
    return float((rho**2).sum())
