"""The numbers that every bound takes, and their limits."""

import math

from debiased_contrastive.objectives.checks import check_tau_plus

LOWEST_TEMPERATURE = 1 / 170
"""Below it, the fourth power of e^{1/t} is no number any more."""


def largest_critic(temperature: float) -> float:
    """E = e^{1/t}, the largest value of the critic h = e^{cos / t}; 1 / E is the smallest, the estimator's floor.

    The paper proves everything at t = 1 and calls that no loss of generality. It is one: where it prints e, E is
    meant, and constants grow like E^2.
    """
    if not LOWEST_TEMPERATURE <= temperature < math.inf:
        raise ValueError(
            f"temperature must be finite and at least {LOWEST_TEMPERATURE:.4f}, below which every bound is "
            f"astronomical; got {temperature}"
        )
    return math.exp(1 / temperature)


def check_setting(tau_plus: float, num_unlabeled: float, num_positives: float) -> None:
    """Raise unless a prior and two numbers of samples."""
    check_tau_plus(tau_plus)
    for name, count in (("num_unlabeled", num_unlabeled), ("num_positives", num_positives)):
        if not 1 <= count <= 1e18:
            raise ValueError(f"{name} must lie between 1 and 1e18; got {count}")


def check_which(which: str, *known: str) -> None:
    """Raise unless it is one of the known forms."""
    if which not in known:
        raise ValueError(f"which must be one of {', '.join(known)}; got {which!r}")
