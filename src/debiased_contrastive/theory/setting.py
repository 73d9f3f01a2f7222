"""The numbers that every bound takes, and their limits."""

import math

from debiased_contrastive.objectives.settings import check_tau_plus


def largest_critic(temperature: float) -> float:
    """e^{1/t}, the largest value of the critic h = e^{cos / t}; 1 over it is the smallest, the estimator's floor.

    The paper proves everything at t = 1 and calls that no loss of generality. It is one: where it prints e, this
    is meant, so constants grow like e^{2/t}.
    """
    if not temperature > 0:
        raise ValueError(f"temperature must be positive; got {temperature}: the proofs have 1, training about 0.5")
    return math.exp(1 / temperature) if 1 / temperature < 350 else math.inf


def check_setting(tau_plus: float, num_unlabeled: float, num_positives: float) -> None:
    """Raise unless a prior and two numbers of samples."""
    check_tau_plus(tau_plus)
    for name, count in (("num_unlabeled", num_unlabeled), ("num_positives", num_positives)):
        if not count >= 1:
            raise ValueError(f"{name} must be at least 1; got {count}")


def check_which(which: str, *known: str) -> None:
    """Raise unless it is one of the known forms."""
    if which not in known:
        raise ValueError(f"which must be one of {', '.join(known)}; got {which!r}")
