"""Which tau_plus the correction needs, where what stands in for the anchor's class is nearer than the class is."""

import torch
from torch import Tensor

from debiased_contrastive.objectives.statistics import Statistics, log_mean_exp


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
