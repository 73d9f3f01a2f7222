"""What the theory promises for one setting, beside what would be true anyway."""

import math
from typing import NamedTuple

from debiased_contrastive.theory.bias import bias_gap_bound
from debiased_contrastive.theory.finite_sample import finite_sample_bound
from debiased_contrastive.theory.generalization import (
    absolute_lipschitz_constant,
    lipschitz_constant,
    loss_bound,
)
from debiased_contrastive.theory.setting import check_setting, largest_critic


class Promise(NamedTuple):
    """One guarantee."""

    statement: str
    value: float
    printed: float | None
    """By the paper's constants, with e^{1/t} for e."""
    trivial: float | None
    """What holds without any theory; None where there is nothing to compare with."""

    @property
    def verdict(self) -> str:
        """Whether it says anything."""
        if self.trivial is None:
            return ""
        return "vacuous" if self.value >= self.trivial else "says something"


def promises(
    tau_plus: float, num_unlabeled: int, num_positives: int, temperature: float, delta: float = 0.05
) -> list[Promise]:
    """The guarantees, each a number that something is not above.

    >>> for promise in promises(0.1, 510, 1, 1.0)[:2]:
    ...     print(promise.statement, round(promise.value, 3), promise.verdict)
    mean |debiased loss - its limit| (Theorem 3) 0.388 says something
    the same with probability 0.95 (Lemma A.2) 1.054 says something
    """
    check_setting(tau_plus, num_unlabeled, num_positives)
    if not 0 < delta < 1:
        raise ValueError(f"delta must lie in (0, 1); got {delta}: it is the chance that a promise fails")
    sizes = (tau_plus, num_unlabeled, num_positives)
    square, tau_minus = largest_critic(temperature) ** 2, 1 - tau_plus
    # Both the estimate and its limit lie between the floor and ((E - tau / E) / tau_minus).
    widest = math.log((square - tau_plus) / tau_minus)
    finite, printed = (
        finite_sample_bound(*sizes, temperature=temperature, which=which) for which in ("corrected", "printed")
    )
    # The tail bound equals delta at this difference.
    likely = 2 * finite * math.sqrt(math.log(2 / delta) / 2)
    slack, printed_slack = (
        -bias_gap_bound(0.0, tau_plus, num_unlabeled, temperature=temperature, which=which)
        for which in ("corrected", "printed")
    )
    absolute = absolute_lipschitz_constant(tau_plus, temperature=temperature)
    classes = num_unlabeled + 1
    return [
        Promise("mean |debiased loss - its limit| (Theorem 3)", finite, printed, widest),
        Promise(f"the same with probability {1 - delta:g} (Lemma A.2)", likely, None, widest),
        Promise("unbiased loss - biased loss, near classes (Lemma 1)", slack, printed_slack, 2 * math.log(square)),
        Promise("the loss itself (Lemma A.4)", *_of_size(tau_plus, num_unlabeled, temperature), None),
        Promise("norm of its gradient in (u, v) (Lemma A.4)", *_of_slope(*sizes, temperature), None),
        Promise("sum of its absolute derivatives", absolute, None, None),
        Promise("classes whose classifier the loss bounds (Lemma 4)", classes, classes, None),
        Promise("N that Theorem 3 needs for 0.1, with M = tau_plus N", *_needed(tau_plus, temperature), None),
    ]


def _of_size(tau_plus: float, num_unlabeled: int, temperature: float) -> tuple[float, float]:
    corrected = loss_bound(tau_plus, num_unlabeled, temperature=temperature)
    return corrected, loss_bound(tau_plus, num_unlabeled, temperature=temperature, which="printed")


def _of_slope(tau_plus: float, num_unlabeled: int, num_positives: int, temperature: float) -> tuple[float, float]:
    sizes = (tau_plus, num_unlabeled, num_positives)
    corrected = lipschitz_constant(*sizes, temperature=temperature)
    return corrected, lipschitz_constant(*sizes, temperature=temperature, which="printed")


def _needed(tau_plus: float, temperature: float) -> tuple[float, float]:
    """N with M in proportion to it, by both forms of the bound."""
    # If M grows with N, both forms fall like 1 / sqrt(N): one N, large enough for M >= 1, tells all others.
    n = max(1e6, 1 / tau_plus) if tau_plus else 1e6
    corrected, printed = (
        n
        * (finite_sample_bound(tau_plus, n, max(1, tau_plus * n), temperature=temperature, which=which) / 0.1) ** 2
        for which in ("corrected", "printed")
    )
    return corrected, printed
