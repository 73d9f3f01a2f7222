"""Two exact forms of the unbiased loss that need no true negatives: Eq. 4 and the limit, Eq. 6."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from debiased_contrastive.numerics import working_dtype
from debiased_contrastive.objectives.checks import Reduction, check_choice, check_tau_plus
from debiased_contrastive.objectives.losses import reduce_losses

LARGEST_GROWTH = 1e12
"""Up to here the alternating sum of Eq. 4, whose terms grow like ((1+tau)/(1-tau))^N, keeps some digits."""


def inclusion_exclusion_loss(
    positive: Tensor, unlabeled: Tensor, positives: Tensor, *, tau_plus: float, reduction: Reduction = "mean"
) -> Tensor:
    """An unbiased estimate of the unbiased loss from N unlabeled samples and N positives (Eq. 4).

    (1 - tau_plus)^{-N} sum_k C(N, k) (-tau_plus)^k  loss(v_1 ... v_k, u_{k+1} ... u_N)

    loss(...) is Eq. 1 with those N samples. For study: exact in expectation, but its variance grows
    exponentially with N.

    Relations: tau_plus = 0 is the biased loss; on average over samples it is the unbiased loss (Eq. 2).

    Args:
        positive: s+, the logit of each anchor's positive (a,).
        unlabeled: u, the logits of its unlabeled samples (a, N).
        positives: v, the logits of as many samples of its class (a, N).
        tau_plus: Probability that an unlabeled sample has the anchor's class.
        reduction: "mean", "sum", or "none" for one loss an anchor (a,).

    Returns:
        The loss, computed in float64, in the dtype of the logits, at least float32.
    """
    check_choice("reduction", reduction, Reduction)
    _check_constant(tau_plus)
    if positives.shape != unlabeled.shape or unlabeled.dim() != 2 or unlabeled.shape[:1] != positive.shape:
        raise ValueError(
            "Eq. 4 needs as many positives as unlabeled samples: positive (a,), unlabeled (a, N), positives "
            f"(a, N); got {tuple(positive.shape)}, {tuple(unlabeled.shape)}, {tuple(positives.shape)}"
        )
    n = unlabeled.shape[1]
    growth = ((1 + tau_plus) / (1 - tau_plus)) ** n
    if n < 1 or growth > LARGEST_GROWTH:
        raise ValueError(
            f"Eq. 4 needs N >= 1 and ((1 + tau_plus) / (1 - tau_plus))^N <= {LARGEST_GROWTH:.0e}, beyond which it "
            f"has no digits left; got N = {n}, {growth:.0e}: use contrastive_loss for more samples"
        )
    dtype = working_dtype(positive, unlabeled, positives)
    # In double whatever came: the terms cancel.
    s_plus, u, v = positive.double(), unlabeled.double(), positives.double()
    _check_finite(s_plus, u, v)
    total = torch.zeros_like(s_plus)
    for k in range(n + 1):
        mixed = torch.cat([v[:, :k], u[:, k:]], 1)
        biased = -F.logsigmoid(s_plus - torch.logsumexp(mixed, 1))
        total = total + math.comb(n, k) * (-tau_plus) ** k * biased
    return reduce_losses((total / (1 - tau_plus) ** n).to(dtype), reduction)


def asymptotic_loss(
    positive: Tensor,
    log_mean_unlabeled: Tensor,
    log_mean_positives: Tensor,
    *,
    tau_plus: float,
    num_negatives: float,
    reduction: Reduction = "mean",
) -> Tensor:
    """The limit of the unbiased loss for many samples, from expectations (Eq. 6).

    -log e^{s+} / (e^{s+} + Q (E_p e^s - tau_plus E_p+ e^s) / (1 - tau_plus))

    Relations: `contrastive_loss` tends to it as N = Q and M grow (Theorem 3). It has no floor: expectations
    satisfy E_p e^s >= tau_plus E_p+ e^s, and numbers that do not are refused.

    Args:
        positive: s+, the logit of each anchor's positive (a,).
        log_mean_unlabeled: log E_p e^s over all samples (a,).
        log_mean_positives: log E_p+ e^s over samples of the anchor's class (a,).
        tau_plus: Probability that a sample has the anchor's class.
        num_negatives: Q, how much the negatives weigh.
        reduction: "mean", "sum", or "none" for one loss an anchor (a,).

    Returns:
        The loss, in the widest dtype of the logits, at least float32.
    """
    check_choice("reduction", reduction, Reduction)
    _check_constant(tau_plus)
    if not 0 < num_negatives < math.inf:
        raise ValueError(f"num_negatives, Q of Eq. 6, must be positive and finite; got {num_negatives}")
    if not positive.shape == log_mean_unlabeled.shape == log_mean_positives.shape:
        raise ValueError(
            "positive, log_mean_unlabeled and log_mean_positives must have the same shape (a,); got "
            f"{tuple(positive.shape)}, {tuple(log_mean_unlabeled.shape)}, {tuple(log_mean_positives.shape)}"
        )
    dtype = working_dtype(positive, log_mean_unlabeled, log_mean_positives)
    s_plus, log_g, log_v = (x.to(dtype) for x in (positive, log_mean_unlabeled, log_mean_positives))
    _check_finite(s_plus, log_g, log_v)
    if tau_plus:
        excess = math.log(tau_plus) + log_v - log_g
        if bool((excess >= 0).any()):
            raise ValueError(
                "Eq. 6 needs E_p e^s > tau_plus E_p+ e^s, as p = tau_plus p+ + (1 - tau_plus) p- implies; got "
                f"{int((excess >= 0).sum())} anchors where it fails: tau_plus is larger than the anchor's class"
            )
        log_g = log_g + torch.log(-torch.expm1(excess)) - math.log1p(-tau_plus)
    return reduce_losses(-F.logsigmoid(s_plus - log_g - math.log(num_negatives)), reduction)


def _check_constant(tau_plus: float) -> None:
    if isinstance(tau_plus, Tensor):
        raise ValueError(
            "tau_plus must be a float here; got a tensor: call it once for each value, or use contrastive_loss"
        )
    check_tau_plus(tau_plus)


def _check_finite(*tensors: Tensor) -> None:
    if not all(bool(tensor.isfinite().all()) for tensor in tensors):
        raise ValueError("logits and log-means must be finite; got NaN or inf: every sample must be present")
