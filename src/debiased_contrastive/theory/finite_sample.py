"""Lemma 2, Theorem 3 and Lemma A.2: how far the loss of finitely many samples lies from its limit."""

import math
from typing import Literal

from debiased_contrastive.theory.setting import check_setting, check_which, largest_critic


def jensen_gap_bound(num_samples: float, *, temperature: float = 1.0) -> float:
    """A number that log(1 + Q m / h+) - E log(1 + Q mean_i h_i / h+) is not above, over N samples (Lemma 2).

    min{(E^2 - 1) / (2 sqrt(N)), (E^2 - 1)^2 / (8 N)},  E = e^{1/t}

    Verdict: Lemma 2 prints the limit and no rate. The logarithm has slope at most E and curvature at most E^2 where
    the critic lives, whatever Q and h+ are, and the critic's variance is at most (E - 1/E)^2 / 4.
    """
    check_setting(0.0, num_samples, 1)
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
    """A number that |L_Debiased^{N,M} - its limit| is not above (Theorem 3).

    With E = e^{1/t} and tau_minus = 1 - tau_plus:

    printed        E^{3/2} sqrt(pi / 2) (1 / sqrt(N) + tau_plus / sqrt(M)) / tau_minus
    printed proof  twice that: what its own tail bound integrates to
    corrected      (E^2 - 1) / (2 tau_minus) sqrt(1 / N + tau_plus^2 / M)

    Verdict: the printed statement is true at t = 1, but its proof does not give it, and at t = 0.1 its constant is
    exceeded tenfold; with E for e, as here, no such case is known. The corrected form bounds even the mean absolute
    difference: the logarithm has slope at most E, the floor only brings the estimate nearer, and the standard
    deviation of a mean of critics is at most (E - 1/E) / 2 over the root of their number. It also holds when the
    first positive is x+ itself, as in practice.

    >>> [round(finite_sample_bound(0.1, 510, m), 5) for m in (1, 8)]
    [0.38819, 0.20113]
    """
    check_setting(tau_plus, num_unlabeled, num_positives)
    check_which(which, "printed", "printed proof", "corrected")
    largest, tau_minus = largest_critic(temperature), 1 - tau_plus
    if which == "corrected":
        joint = math.sqrt(1 / num_unlabeled + tau_plus**2 / num_positives)
        return (largest * largest - 1) / (2 * tau_minus) * joint
    apart = 1 / math.sqrt(num_unlabeled) + tau_plus / math.sqrt(num_positives)
    constant = math.sqrt(math.pi / 2) * (2 if which == "printed proof" else 1)
    return float(largest**1.5) * constant * apart / tau_minus


def second_order_bound(variance: float, mean_negative: float, *, temperature: float = 1.0) -> float:
    """A number that the signed difference of Theorem 3, |E Delta|, is not above, for positives independent of x+.

    V max{E^2 / 2, E / (4 (m_minus - 1/E))},  V = variance of the estimate before its floor

    So bias falls like 1 / N + tau_plus^2 / M, the square of the printed rate, unless m_minus lies on the floor.

    Verdict: not in print. Concavity gives one side, with E max(0, 1/E - a) <= V / (4 (m_minus - 1/E)); the
    curvature, at most E^2, the other.
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
    """A number that the probability of a difference of at least epsilon is not above (Lemma A.2).

    printed    2 exp(-N eps^2 tau_minus^2 / (2 E^3)) + 2 exp(-M eps^2 (tau_minus / tau_plus)^2 / (2 E^3))
    halves     the same with (E^2 - 1)^2 for E^3: the printed proof with Hoeffding's inequality quoted rightly
    corrected  2 exp(-2 eps^2 tau_minus^2 / ((E^2 - 1)^2 (1 / N + tau_plus^2 / M)))

    Verdict: the printed proof is wrong, it has the range of the critic where its square belongs; at t = 1 no case
    is known in which the inequality itself fails. The corrected form applies Hoeffding to all N + M samples at
    once.

    >>> [round(tail_bound(1.0, 0.1, 128, 32, which=which), 6) for which in ("corrected", "printed", "halves")]
    [0.015126, 0.151402, 0.561683]
    """
    check_setting(tau_plus, num_unlabeled, num_positives)
    check_which(which, "printed", "halves", "corrected")
    largest, tau_minus = largest_critic(temperature), 1 - tau_plus
    spread = (largest**2 - 1) ** 2
    if which == "corrected":
        joint = 1 / num_unlabeled + tau_plus**2 / num_positives
        return 2 * math.exp(-2 * (epsilon * tau_minus) ** 2 / (spread * joint))
    scale = 2 * (largest**3 if which == "printed" else spread)
    of_unlabeled = 2 * math.exp(-num_unlabeled * (epsilon * tau_minus) ** 2 / scale)
    if not tau_plus:
        return of_unlabeled
    return of_unlabeled + 2 * math.exp(-num_positives * (epsilon * tau_minus / tau_plus) ** 2 / scale)
