"""Lemmas 1 and 2, Theorem 3 and Lemma A.2 as numbers: how far losses of finitely many samples lie from each other.

E = e^{1/t} throughout. The paper proves everything at temperature t = 1 and calls that no loss of generality, which
is not so: where it prints e, E is meant, and the constants grow like E^2.
"""

import math
from collections.abc import Callable, Sequence
from statistics import fmean
from typing import Any, Literal

from debiased_contrastive.objectives.checks import check_tau_plus

LOWEST_TEMPERATURE = 1 / 170  # below it, the fourth power of e^{1/t} overflows


def bias_gap_bound(
    mean_log_ratio: float,
    tau_plus: float,
    num_unlabeled: float,
    *,
    temperature: float = 1.0,
    which: Literal["printed", "corrected"] = "corrected",
) -> float:
    """Lower bound of L_Biased^N - L_Unbiased^N (Lemma 1).

    printed    mean_log_ratio - E^{3/2} sqrt(pi / (2 N))
    corrected  tau_plus mean_log_ratio - min{(E^2 - 1) / (2 sqrt(N)), (E^2 - 1)^2 / (8 N)}

    Verdict: at t = 1 the printed statement is true and loose, and the other form sharper in both terms. Its proof:
    the ratio (h + N m) / (h + N m_minus) is at least min(1, m / m_minus), and log(1 - tau + tau r) >= tau log r;
    the rest is what N samples lose to their mean. Below t = 0.54 and for few samples the printed constant, even
    with E for e, is smaller than what this proof gives; no case is known in which it fails.

    Args:
        mean_log_ratio: E_x min(0, log(m_plus / m_minus)), where m_plus and m_minus are the critic's means over the
            anchor's class and over the others; 0 as soon as classes are nearer to themselves.
        tau_plus: The probability of the anchor's class.
        num_unlabeled: N.
        temperature: t.
        which: The paper's form or the corrected one.

    >>> round(bias_gap_bound(0.0, 0.1, 510), 4), round(bias_gap_bound(0.0, 0.1, 510, which="printed"), 4)
    (-0.01, -0.2487)
    """
    check_sizes(tau_plus, num_unlabeled, 1)
    check_which(which, "printed", "corrected")
    if mean_log_ratio > 0:
        raise ValueError(f"mean_log_ratio is a mean of min(0, .), so at most 0; got {mean_log_ratio}")
    if which == "corrected":
        return tau_plus * mean_log_ratio - jensen_gap_bound(num_unlabeled, temperature=temperature)
    return mean_log_ratio - float(largest_critic(temperature) ** 1.5) * math.sqrt(math.pi / (2 * num_unlabeled))


def asymptotic_bias_gap(ratios: Sequence[float], tau_plus: float) -> float:
    """The limit of L_Biased^N - L_Unbiased^N for many samples: E_x log(1 - tau_plus + tau_plus m_plus / m_minus).

    Verdict: not in print. The better an embedding separates classes, the larger it is, which the paper says of its
    bound; but the printed term is 0 for every embedding that separates them at all.

    Args:
        ratios: m_plus / m_minus of each anchor.
        tau_plus: The probability of the anchor's class.

    >>> asymptotic_bias_gap([1.0, 1.0], 0.1)
    0.0
    """
    check_sizes(tau_plus, 1, 1)
    return fmean(math.log(1 - tau_plus + tau_plus * ratio) for ratio in ratios)


def jensen_gap_bound(num_samples: float, *, temperature: float = 1.0) -> float:
    """An upper bound of log(1 + Q m / h+) - E log(1 + Q mean_i h_i / h+) over N samples (Lemma 2).

    min{(E^2 - 1) / (2 sqrt(N)), (E^2 - 1)^2 / (8 N)}

    Verdict: Lemma 2 prints the limit and no rate. The logarithm has slope at most E and curvature at most E^2 where
    the critic lives, whatever Q and h+ are, and the critic's variance is at most (E - 1/E)^2 / 4.

    Args:
        num_samples: N.
        temperature: t.
    """
    check_sizes(0.0, num_samples, 1)
    spread = largest_critic(temperature) ** 2 - 1
    return min(spread / (2 * math.sqrt(num_samples)), spread * spread / (8 * num_samples))


def finite_sample_bound(
    tau_plus: float,
    num_unlabeled: float,
    num_positives: float,
    *,
    temperature: float = 1.0,
    which: Literal["printed", "printed proof", "corrected"] = "corrected",
) -> float:
    """An upper bound of |L_Debiased^{N,M} - its limit| (Theorem 3).

    With tau_minus = 1 - tau_plus:

    printed        E^{3/2} sqrt(pi / 2) (1 / sqrt(N) + tau_plus / sqrt(M)) / tau_minus
    printed proof  twice that: what its own tail bound integrates to
    corrected      (E^2 - 1) / (2 tau_minus) sqrt(1 / N + tau_plus^2 / M)

    Verdict: the printed statement is true at t = 1, but its proof does not give it, and at t = 0.1 its constant is
    exceeded tenfold; with E for e, as here, no such case is known. The corrected form bounds even the mean absolute
    difference: the logarithm has slope at most E, the floor only brings the estimate nearer, and the standard
    deviation of a mean of critics is at most (E - 1/E) / 2 over the root of their number. It also holds when the
    first positive is x+ itself, as in practice.

    Args:
        tau_plus: The probability of the anchor's class.
        num_unlabeled: N.
        num_positives: M.
        temperature: t.
        which: The paper's form, what its proof gives, or the corrected form.

    >>> [round(finite_sample_bound(0.1, 510, m), 5) for m in (1, 8)]
    [0.38819, 0.20113]
    """
    check_sizes(tau_plus, num_unlabeled, num_positives)
    check_which(which, "printed", "printed proof", "corrected")
    largest, tau_minus = largest_critic(temperature), 1 - tau_plus
    if which == "corrected":
        joint = math.sqrt(1 / num_unlabeled + tau_plus**2 / num_positives)
        return (largest * largest - 1) / (2 * tau_minus) * joint
    apart = 1 / math.sqrt(num_unlabeled) + tau_plus / math.sqrt(num_positives)
    constant = math.sqrt(math.pi / 2) * (2 if which == "printed proof" else 1)
    return float(largest**1.5) * constant * apart / tau_minus


def second_order_bound(variance: float, mean_negative: float, *, temperature: float = 1.0) -> float:
    """An upper bound of the signed difference of Theorem 3, |E Delta|, for positives independent of x+.

    V max{E^2 / 2, E / (4 (m_minus - 1/E))}

    So the bias falls like 1 / N + tau_plus^2 / M, the square of the printed rate, unless m_minus lies on the floor,
    where this bound is infinite.

    Verdict: not in print. Concavity gives one side, with E max(0, 1/E - a) <= V / (4 (m_minus - 1/E)); the
    curvature, at most E^2, the other.

    Args:
        variance: V, the variance of the estimate before its floor.
        mean_negative: m_minus.
        temperature: t.
    """
    largest = largest_critic(temperature)
    above = mean_negative - 1 / largest
    if above < 0 or variance < 0:
        raise ValueError(
            f"mean_negative must be at least the floor, {1 / largest:.3g}, and variance at least 0; got "
            f"{mean_negative} and {variance}"
        )
    if not variance:
        return 0.0
    return variance * max(largest**2 / 2, largest / (4 * above) if above else math.inf)


def tail_bound(
    epsilon: float,
    tau_plus: float,
    num_unlabeled: float,
    num_positives: float,
    *,
    temperature: float = 1.0,
    which: Literal["printed", "halves", "corrected"] = "corrected",
) -> float:
    """An upper bound of the probability that the difference of Theorem 3 is at least epsilon (Lemma A.2).

    It may be above 1.

    printed    2 exp(-N eps^2 tau_minus^2 / (2 E^3)) + 2 exp(-M eps^2 (tau_minus / tau_plus)^2 / (2 E^3))
    halves     the same with (E^2 - 1)^2 for E^3: the printed proof with Hoeffding's inequality quoted rightly
    corrected  2 exp(-2 eps^2 tau_minus^2 / ((E^2 - 1)^2 (1 / N + tau_plus^2 / M)))

    Verdict: the printed proof is wrong, it has the range of the critic where its square belongs; at t = 1 no case
    is known in which the inequality itself fails. The corrected form applies Hoeffding to all N + M samples at
    once.

    Args:
        epsilon: The difference.
        tau_plus: The probability of the anchor's class.
        num_unlabeled: N.
        num_positives: M.
        temperature: t.
        which: The paper's form, its proof put right, or the corrected form.

    >>> [round(tail_bound(1.0, 0.1, 128, 32, which=which), 6) for which in ("corrected", "printed", "halves")]
    [0.015126, 0.151402, 0.561683]
    """
    check_sizes(tau_plus, num_unlabeled, num_positives)
    check_which(which, "printed", "halves", "corrected")
    largest, tau_minus = largest_critic(temperature), 1 - tau_plus
    spread = (largest**2 - 1) ** 2
    if which == "corrected":
        joint = 1 / num_unlabeled + tau_plus**2 / num_positives
        return 2 * math.exp(-2 * (epsilon * tau_minus) ** 2 / (spread * joint))
    scale = 2 * (largest**3 if which == "printed" else spread)
    from_unlabeled = 2 * math.exp(-num_unlabeled * (epsilon * tau_minus) ** 2 / scale)
    if not tau_plus:
        return from_unlabeled
    return from_unlabeled + 2 * math.exp(-num_positives * (epsilon * tau_minus / tau_plus) ** 2 / scale)


def both_forms(bound: Callable[..., float], *sizes: float, **rest: Any) -> dict[str, float]:
    """A bound in its corrected and in its printed form, as the fields of a `Case`."""
    return {which: bound(*sizes, which=which, **rest) for which in ("corrected", "printed")}


def largest_critic(temperature: float) -> float:
    """E = e^{1/t}, the largest critic h = e^{cos / t}; 1 / E is the smallest one, the estimator's floor."""
    if not LOWEST_TEMPERATURE <= temperature < math.inf:
        raise ValueError(
            f"temperature must be finite and at least {LOWEST_TEMPERATURE:.4f}, below which every bound is "
            f"astronomical; got {temperature}"
        )
    return math.exp(1 / temperature)


def check_sizes(tau_plus: float, num_unlabeled: float, num_positives: float) -> None:
    """Raise unless these are a prior and two numbers of samples."""
    check_tau_plus(tau_plus)
    for name, count in (("num_unlabeled", num_unlabeled), ("num_positives", num_positives)):
        if not 1 <= count <= 1e18:
            raise ValueError(f"{name} must lie between 1 and 1e18; got {count}")


def check_which(which: str, *known: str) -> None:
    """Raise unless a bound has this form."""
    if which not in known:
        raise ValueError(f"which must be one of {', '.join(known)}; got {which!r}")
