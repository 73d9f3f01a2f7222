"""Which tau_plus the correction needs, where what stands in for the anchor's class is nearer than the class is."""

from dataclasses import replace

import torch
from torch import Tensor

from debiased_contrastive.objectives.estimator import largest_tau_plus, log_negative_mean
from debiased_contrastive.objectives.statistics import Statistics, log_mean_exp

MOST = 0.9999
"""Largest share of tau_cap: the rest keeps the estimate off its floor by more than rounding."""


@torch.no_grad()
def effective_tau_plus(statistics: Statistics, log_mean_negatives: Tensor) -> Tensor:
    """The tau_plus, for each anchor, with which Eq. 7 gives the true negatives' mean m_minus; at least 0.

    tau_eff = (mean e^u - m_minus) / (mean e^v - m_minus)

    Relations: with positives that are samples of the anchor's class it is the class prior, on average; augmented
    views are nearer, so it is smaller. It is below `largest_tau_plus` wherever m_minus is above the floor.
    """
    log_u, log_v = statistics.log_mean_unlabeled, statistics.log_mean_positives
    # Means relative to the largest, so that nothing overflows.
    most = torch.maximum(torch.maximum(log_u, log_v), log_mean_negatives)
    u, v, minus = (torch.exp(log_mean - most) for log_mean in (log_u, log_v, log_mean_negatives))
    ratio = (u - minus) / (v - minus).clamp(min=torch.finfo(u.dtype).tiny)
    return torch.where(u > minus, ratio.clamp(max=1.0), 0.0)


@torch.no_grad()
def log_mean_without(logits: Tensor, prior: float, beta: float = 0.0) -> Tensor:
    """log of the mean exponential of each anchor's true negatives, guessed from unlabeled logits (a, n).

    -inf marks an absent sample. A share `prior` of a row, give or take a standard deviation, is of the anchor's
    class, and is most similar: the rest without its largest is one guess. Where classes overlap it is too low: true
    negatives are among the largest, too; then the lower half of the rest, mirrored at its middle, is a better
    one. The larger of the two counts: a tau_plus that is too small does less harm than one that is too large.
    """
    ordered, present = logits.sort(1).values, (logits > -torch.inf).sum(1, keepdim=True)
    rank = torch.arange(logits.shape[1], device=logits.device) - (logits.shape[1] - present)
    # A row may hold more of the class than its share: at a low temperature one that stays outweighs all negatives.
    kept = present - torch.ceil(prior * present + (prior * (1 - prior) * present).sqrt()).long()
    middle = (kept - 1).clamp(min=0) // 2
    centre = ordered.gather(1, (logits.shape[1] - present + middle).clamp(max=logits.shape[1] - 1))
    below = ordered.masked_fill((rank < 0) | (rank > middle), -torch.inf)
    mirrored = (2 * centre - below).masked_fill(below == -torch.inf, -torch.inf)
    trimmed, _ = log_mean_exp(ordered.masked_fill(rank >= kept.clamp(min=1), -torch.inf), beta)
    symmetric, _ = log_mean_exp(torch.cat([below, mirrored], 1), beta)
    return torch.maximum(trimmed, symmetric)


@torch.no_grad()
def share_of_cap(statistics: Statistics, log_mean_negatives: Tensor) -> float:
    """Median over anchors of tau_eff / tau_cap: which part of the largest tau_plus the correction needs."""
    tau_cap = largest_tau_plus(statistics)
    tau_eff = effective_tau_plus(statistics, log_mean_negatives)
    # An anchor whose unlabeled samples are all at the floor has nothing to correct.
    return float(torch.where(tau_cap > 0, tau_eff / tau_cap, 0.0).clamp(max=MOST).median())


@torch.no_grad()
def following_tau_plus(statistics: Statistics, share: float, prior: float) -> Tensor:
    """(a,) that share of each anchor's tau_cap, at most the prior."""
    return (share * largest_tau_plus(statistics)).clamp(max=prior)


def with_constant_correction(statistics: Statistics, tau_plus: float | Tensor) -> Statistics:
    """Statistics whose unlabeled mean is g of Eq. 7, the correction being a constant for gradients.

    The biased loss of them has the value of the debiased loss, and a gradient of the size that this value calls
    for. Through the correction it would be larger by mean e^u / ((1 - tau_plus) g), which has no bound, though with
    one positive its direction is the same.
    """
    log_m = statistics.log_mean_unlabeled
    if not isinstance(tau_plus, Tensor) and tau_plus == 0:
        return statistics
    shift = (log_negative_mean(statistics, tau_plus, "clamp") - log_m).detach()
    return replace(statistics, log_mean_unlabeled=log_m + shift)
