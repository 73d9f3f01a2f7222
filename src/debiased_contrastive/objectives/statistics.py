"""The few numbers per anchor from which every objective is computed (Sections 3 and 4)."""

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from debiased_contrastive.numerics import number_like


@dataclass(frozen=True)
class Statistics:
    """What an objective may know of an anchor x. Letters: a anchors, N unlabeled u, M positives v.

    Whoever makes them decides who is positive and who is unlabeled: masks, queues, other processes
    and labels end here. Two producers exist, dense logits (`from_logits`) and the kernels.
    """

    positive: Tensor
    """(a,) logit s(x, x+) of the numerator's positive; of several, the log of their sum in the denominator. Or
    (a, m): each of m positives stands alone in a numerator, and the loss is the mean over them."""
    log_mean_unlabeled: Tensor
    """(a,) log 1/N sum_i exp s(x, u_i)."""
    num_unlabeled: float | Tensor
    """N, one number or (a,): the weight of the mean in the loss."""
    log_mean_positives: Tensor
    """(a,) log 1/M sum_j exp s(x, v_j)."""
    num_positives: float | Tensor
    """M, one number or (a,); no objective needs it, a reader of diagnostics does."""
    lower: Tensor
    """() or (a,) smallest logit possible: -1/t for unit vectors, -inf where nothing bounds it."""
    attraction: float | Tensor = 0.0
    """(a,) `positive` minus the mean logit of the numerator, added to the loss; 0 where that holds x+ alone."""

    def detach(self) -> "Statistics":
        """The same numbers without their graph, to be looked at later."""
        return Statistics(**{k: v.detach() if isinstance(v, Tensor) else v for k, v in vars(self).items()})

    def first_anchors(self, count: int) -> "Statistics":
        """The statistics of the first `count` anchors."""
        rows = {k: v[:count] for k, v in vars(self).items() if isinstance(v, Tensor) and v.dim() > 0}
        return replace(self, **rows)


def log_mean_exp(logits: Tensor, beta: float = 0.0, weights: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """log of the (weighted, tilted) mean exponential over the present entries of a row, and how many there are.

    log [ sum_i w_i e^{(1 + beta) l_i} / sum_i w_i e^{beta l_i} ],  l = logits (a, n), -inf marks an absent entry

    Relations: beta = 0 is the plain mean; beta > 0 weights each sample by e^{beta l}, which is the
    hard-negative tilt of Robinson et al. (2021); w is 1 unless weights (a, n) are given. An empty row, and one
    whose every weight is 0, returns a finite number and count 0.
    """
    present = logits != -math.inf
    count = present.sum(-1)
    if weights is None:
        # An empty row would give log 0 - log 0; its weight N = 0 removes whatever stands here instead.
        logits = torch.where((count == 0).unsqueeze(-1), 0.0, logits)
        count = count.to(logits.dtype)
        log_weight = torch.logsumexp(beta * logits, -1) if beta else count.clamp(min=1).log()
        return torch.logsumexp((1 + beta) * logits, -1) - log_weight, count
    total = torch.where(present, weights, 0.0).sum(-1)
    is_empty = total == 0
    logits, log_w = (torch.where(is_empty.unsqueeze(-1), 0.0, each) for each in (logits, weights.log()))
    log_weight = torch.logsumexp(beta * logits + log_w, -1) if beta else torch.where(is_empty, 1.0, total).log()
    mean = torch.logsumexp((1 + beta) * logits + log_w, -1) - log_weight
    return mean, torch.where(is_empty, 0, count).to(logits.dtype)


def from_logits(
    positive: Tensor,
    unlabeled: Tensor,
    positives: Tensor | None,
    *,
    lower: float | Tensor,
    beta: float,
    weights: Tensor | None = None,
) -> Statistics:
    """Statistics of dense logits: positive (a,), unlabeled (a, n), positives (a, m) or None for v = x+.

    weights: how surely each unlabeled sample is a true negative (a, n); None is 1.
    """
    log_mean_unlabeled, num_unlabeled = log_mean_exp(unlabeled, beta, weights)
    if positives is None:
        log_mean_positives, num_positives = positive, torch.ones_like(positive)
    else:
        log_mean_positives, num_positives = log_mean_exp(positives)
    return Statistics(
        positive=positive,
        log_mean_unlabeled=log_mean_unlabeled,
        num_unlabeled=num_unlabeled,
        log_mean_positives=log_mean_positives,
        num_positives=num_positives,
        lower=number_like(lower, positive),
    )
