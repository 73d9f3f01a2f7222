"""Lemma 1: how far the biased loss lies above the unbiased one."""

import math
from collections.abc import Sequence
from statistics import fmean
from typing import Literal

from debiased_contrastive.theory.finite_sample import jensen_gap_bound
from debiased_contrastive.theory.setting import check_setting, check_which, largest_critic


def bias_gap_bound(
    mean_log_ratio: float,
    tau_plus: float,
    num_unlabeled: float,
    *,
    temperature: float = 1.0,
    which: Literal["printed", "corrected"] = "corrected",
) -> float:
    """A number that L_Biased^N - L_Unbiased^N is not below (Lemma 1).

    mean_log_ratio is E_x min(0, log(m_plus / m_minus)), where m_plus and m_minus are the critic's means over the
    anchor's class and over the others; it is 0 as soon as classes are nearer to themselves. With E = e^{1/t}:

    printed    mean_log_ratio - E^{3/2} sqrt(pi / (2 N))
    corrected  tau_plus mean_log_ratio - min{(E^2 - 1) / (2 sqrt(N)), (E^2 - 1)^2 / (8 N)}

    Verdict: at t = 1 the printed statement is true and loose, and the other form sharper in both terms. Its proof:
    the ratio (h + N m) / (h + N m_minus) is at least min(1, m / m_minus), and log(1 - tau + tau r) >= tau log r;
    the rest is what N samples lose to their mean. Below t = 0.54 and for few samples the printed constant, even
    with E for e, is smaller than what this proof gives; no case is known in which it fails.

    >>> round(bias_gap_bound(0.0, 0.1, 510), 4), round(bias_gap_bound(0.0, 0.1, 510, which="printed"), 4)
    (-0.01, -0.2487)
    """
    check_setting(tau_plus, num_unlabeled, 1)
    check_which(which, "printed", "corrected")
    if mean_log_ratio > 0:
        raise ValueError(f"mean_log_ratio is a mean of min(0, .), so at most 0; got {mean_log_ratio}")
    if which == "corrected":
        return tau_plus * mean_log_ratio - jensen_gap_bound(num_unlabeled, temperature=temperature)
    return mean_log_ratio - float(largest_critic(temperature) ** 1.5) * math.sqrt(math.pi / (2 * num_unlabeled))


def asymptotic_bias_gap(ratios: Sequence[float], tau_plus: float) -> float:
    """The limit of L_Biased^N - L_Unbiased^N for many samples: E_x log(1 - tau_plus + tau_plus m_plus / m_minus).

    ratios: m_plus / m_minus of the anchors.

    Verdict: not in print. The better an embedding separates classes, the larger it is, which the paper says of its
    bound; but the printed term is 0 for every embedding that separates them at all.

    >>> asymptotic_bias_gap([1.0, 1.0], 0.1)
    0.0
    """
    check_setting(tau_plus, 1, 1)
    return fmean(math.log(1 - tau_plus + tau_plus * ratio) for ratio in ratios)
