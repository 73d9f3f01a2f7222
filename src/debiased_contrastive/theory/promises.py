"""What the theory promises for one setting, beside what holds without it."""

import math
from typing import NamedTuple

from debiased_contrastive.theory import generalization
from debiased_contrastive.theory.bounds import bias_gap_bound, both_forms, finite_sample_bound, largest_critic


class Promise(NamedTuple):
    """An upper bound, beside what holds without it."""

    statement: str
    value: float
    printed: float | None
    """By the paper's constants, with e^{1/t} for e."""
    trivial: float | None
    """What holds without any theory; None where there is nothing to compare with."""

    @property
    def verdict(self) -> str:
        """Whether the bound says anything; empty where there is nothing to compare it with."""
        if self.trivial is None:
            return ""
        return "vacuous" if self.value >= self.trivial else "says something"


def promises(
    tau_plus: float,
    num_unlabeled: int,
    num_positives: int,
    temperature: float,
    *,
    delta: float = 0.05,
    num_anchors: int | None = None,
    rademacher: float = 0.0,
) -> list[Promise]:
    """What the theory guarantees for one setting.

    Args:
        tau_plus: The probability of the anchor's class.
        num_unlabeled: N.
        num_positives: M.
        temperature: t.
        delta: The probability that a guarantee fails.
        num_anchors: T of Theorem 5; None stands for its limit.
        rademacher: R_S of Theorem 5, a sum over all samples.

    Returns:
        One promise for each statement, in the paper's order.

    >>> for promise in promises(0.1, 510, 1, 1.0)[:2]:
    ...     print(promise.statement, round(promise.value, 3), promise.verdict)
    mean |debiased loss - its limit| (Theorem 3) 0.388 says something
    |debiased loss - its limit| of one anchor, but for a chance of 0.05 (Lemma A.2) 1.054 says something
    """
    if not 0 < delta < 1:
        raise ValueError(f"delta must lie in (0, 1); got {delta}: it is the chance that a promise fails")
    square, n, t = largest_critic(temperature) ** 2, num_unlabeled, temperature
    finite = both_forms(finite_sample_bound, tau_plus, n, num_positives, temperature=t)
    # The tail bound equals delta at this difference.
    likely = 2 * finite["corrected"] * math.sqrt(math.log(2 / delta) / 2)
    # Both the estimate and its limit lie between 1 / E and (E - tau / E) / tau_minus, and x+ is at least as near.
    widest = math.log1p(n * (square - tau_plus) / (1 - tau_plus)) - math.log1p(n)
    slack = both_forms(bias_gap_bound, 0.0, tau_plus, n, temperature=t)
    slopes = both_forms(generalization.lipschitz_constant, tau_plus, n, num_positives, temperature=t)
    absolute_slope = generalization.absolute_lipschitz_constant(tau_plus, temperature=t)
    one_anchor = f"|debiased loss - its limit| of one anchor, but for a chance of {delta:g} (Lemma A.2)"
    return [
        _promise("mean |debiased loss - its limit| (Theorem 3)", finite, widest),
        Promise(one_anchor, likely, None, widest),
        _promise(
            "unbiased loss - biased loss, where classes are near (Lemma 1)",
            {which: -value for which, value in slack.items()},
            math.log1p(n * square) - math.log1p(n),
        ),
        _promise("the loss itself (Lemma A.4)", both_forms(generalization.loss_bound, tau_plus, n, temperature=t)),
        _promise("norm of its gradient in (u, v) (Lemma A.4)", slopes),
        Promise("sum of its absolute derivatives", absolute_slope, None, None),
        *_classifier_promises(tau_plus, n, num_positives, t, delta, num_anchors, rademacher),
    ]


def needed_unlabeled(tau_plus: float, temperature: float, distance: float = 0.1) -> int:
    """The N from which Theorem 3's bound is below a distance.

    Args:
        tau_plus: The probability of the anchor's class.
        temperature: t.
        distance: Mean distance of the loss to its limit.

    Returns:
        N, for M = tau_plus N and at least 1.
    """
    # With M in proportion, the bound falls like 1 / sqrt(N): one N, large enough for M >= 1, tells all others.
    n = max(1e6, 1 / tau_plus) if tau_plus else 1e6
    bound = finite_sample_bound(tau_plus, n, max(1, tau_plus * n), temperature=temperature)
    return math.ceil(n * (bound / distance) ** 2)


def _promise(statement: str, bounds: dict[str, float], trivial: float | None = None) -> Promise:
    return Promise(statement, bounds["corrected"], bounds["printed"], trivial)


def _classifier_promises(
    tau_plus: float, n: int, m: int, t: float, delta: float, num_anchors: int | None, rademacher: float
) -> list[Promise]:
    """Theorem 5: what is added to the debiased loss, and what must not be reached to say something."""
    classes = math.floor(min(n + 1, 1 / max(tau_plus, 1e-18) + 1e-9))
    # No embedding has a smaller debiased loss, and log K is reached without any.
    trivial = math.log(classes) - math.log1p(n / largest_critic(t) ** 2)
    anchors_or_one = 1 if num_anchors is None else num_anchors
    given = {"rademacher": rademacher, "num_anchors": anchors_or_one, "delta": delta, "temperature": t}
    guarantee = generalization.generalization_bound(tau_plus, n, m, **given, which="explicit")
    total = guarantee.finite_sample if num_anchors is None else guarantee.total
    anchors = "anchors without end" if num_anchors is None else f"{num_anchors} anchors"
    what = f"loss of a classifier of {classes} classes - debiased loss, {anchors} (Theorem 5)"
    rows = [Promise(what, total, None, trivial)]
    if num_anchors is not None:
        rows.append(Promise("  of it for N and M", guarantee.finite_sample, None, None))
        rows.append(Promise("  of it for the choice among embeddings", guarantee.complexity, None, None))
        rows.append(Promise("  of it for chance", guarantee.confidence, None, None))
    return rows
