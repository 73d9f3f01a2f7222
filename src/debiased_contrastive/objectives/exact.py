"""Two exact forms of the unbiased loss that need no true negatives: Eq. 4 and the limit, Eq. 6."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from debiased_contrastive.objectives.losses import reduced
from debiased_contrastive.objectives.settings import Reduction, check_choice, check_tau_plus, working_dtype

MAX_NUM_UNLABELED = 20
"""Beyond it the alternating sum of Eq. 4 has lost every digit: its terms grow like ((1+tau)/(1-tau))^N."""


def inclusion_exclusion_loss(
    positive: Tensor, unlabeled: Tensor, positives: Tensor, *, tau_plus: float, reduction: Reduction = "mean"
) -> Tensor:
    """An unbiased estimate of the unbiased loss from N unlabeled samples and N positives (Eq. 4).

    (1 - tau_plus)^{-N} sum_k C(N, k) (-tau_plus)^k  loss(v_1 ... v_k, u_{k+1} ... u_N)

    s+ = positive (a,); u = unlabeled (a, N); v = positives (a, N). loss(...) is Eq. 1 with those N samples.
    For study: exact in expectation, but its variance grows exponentially with N.

    Relations: tau_plus = 0 is the biased loss; on average over samples it is the unbiased loss (Eq. 2).
    """
    check_tau_plus(tau_plus)
    check_choice("reduction", reduction, Reduction)
    n = unlabeled.shape[-1]
    if positives.shape != unlabeled.shape or unlabeled.shape[:-1] != positive.shape:
        raise ValueError(
            "Eq. 4 needs as many positives as unlabeled samples: positive (a,), unlabeled (a, N), positives "
            f"(a, N); got {tuple(positive.shape)}, {tuple(unlabeled.shape)}, {tuple(positives.shape)}"
        )
    if not 1 <= n <= MAX_NUM_UNLABELED:
        raise ValueError(
            f"Eq. 4 needs 1 <= N <= {MAX_NUM_UNLABELED}; got {n}: use contrastive_loss for more samples"
        )
    dtype = working_dtype(positive, unlabeled, positives)
    positive, unlabeled, positives = positive.to(dtype), unlabeled.to(dtype), positives.to(dtype)
    total = torch.zeros_like(positive)
    for k in range(n + 1):
        mixed = torch.cat([positives[:, :k], unlabeled[:, k:]], -1)
        biased = -F.logsigmoid(positive - torch.logsumexp(mixed, -1))
        total = total + math.comb(n, k) * (-tau_plus) ** k * biased
    return reduced(total / (1 - tau_plus) ** n, reduction)


def asymptotic_loss(
    positive: Tensor,
    log_mean_unlabeled: Tensor,
    log_mean_positives: Tensor,
    *,
    tau_plus: float,
    num_negatives: float,
    reduction: Reduction = "mean",
) -> Tensor:
    """The limit of the unbiased loss for many samples, from expectations (Eq. 6); all tensors (a,).

    -log e^{s+} / (e^{s+} + Q (E_p e^s - tau_plus E_p+ e^s) / (1 - tau_plus)),  Q = num_negatives

    Relations: `contrastive_loss` tends to it as N = Q and M grow (Theorem 3). It has no floor: expectations
    satisfy E_p e^s >= tau_plus E_p+ e^s, and numbers that do not are refused.
    """
    check_tau_plus(tau_plus)
    check_choice("reduction", reduction, Reduction)
    excess = math.log(tau_plus) + log_mean_positives - log_mean_unlabeled if tau_plus else None
    if excess is not None and bool((excess >= 0).any()):
        raise ValueError(
            "Eq. 6 needs E_p e^s > tau_plus E_p+ e^s, as p = tau_plus p+ + (1 - tau_plus) p- implies; got "
            f"{int((excess >= 0).sum())} anchors where it fails: tau_plus is larger than the anchor's class"
        )
    log_g = log_mean_unlabeled
    if excess is not None:
        log_g = log_g + torch.log(-torch.expm1(excess)) - math.log1p(-tau_plus)
    return reduced(-F.logsigmoid(positive - log_g - math.log(num_negatives)), reduction)
