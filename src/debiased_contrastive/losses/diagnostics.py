"""What a loss tells of its last call."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Diagnostics:
    """What the last call of a loss saw of this process's anchors, as plain numbers."""

    tau_plus: float
    """The tau_plus that was used, as a mean over anchors; 0 with labels and in the warm-up of "auto"."""
    floored: float
    """Share of anchors that tau_plus puts on the floor, where `on_floor` takes over."""
    tau_cap_median: float
    """Median over anchors of the largest tau_plus that would not clamp."""
    tau_cap_low: float
    """5 % quantile of the same: the largest tau_plus that leaves 95 % of the anchors off the floor."""
    mean_log_g: float
    """Mean of log g over the anchors whose g, the estimated mean exponential of true negatives, is not 0."""
    num_unlabeled: float
    """N, mean over anchors."""
    num_positives: float
    """M, mean over anchors."""
    mean_q: float | None = None
    """With knowledge about classes: mean probability that an anchor shares its class with an unlabeled sample."""
    effective_number: float | None = None
    """With knowledge: (sum of the weights)^2 / sum of their squares, mean over anchors; N where all are equal."""
    covariance: float | None = None
    """With knowledge: Cov(q, e^s) over an anchor's samples, as a share of their mean e^s: what weights remove."""
    entropy: float | None = None
    """With membership: mean entropy of its rows, in nats; 0 is sure, log k knows nothing."""

    def as_dict(self) -> dict[str, float]:
        """The figures by name, without those that the call does not have: what any logger takes."""
        return {name: float(value) for name, value in vars(self).items() if value is not None}
