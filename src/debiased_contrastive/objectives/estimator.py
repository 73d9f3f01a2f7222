"""The estimator g of the true negatives' mean (Eq. 7), its floors, and how far it can be trusted."""

import math

import torch
from torch import Tensor

from debiased_contrastive.objectives.checks import OnFloor
from debiased_contrastive.objectives.statistics import Statistics

SMOOTHING = 0.05
"""Width k of the smooth floor, as a share of the unlabeled mean."""
CAP_SHARE = 0.5
"""Share of the largest safe tau_plus that `cap_tau` allows: it bounds the gradient's growth by 2."""

_NEVER = 40.0
"""exp(-exp(40)) is 0 in every dtype: exponents are cut here where only their vanishing matters."""


def log1mexp(d: Tensor) -> Tensor:
    """log(1 - e^{-d}) for d > 0, to the rounding of a number of size 1; exact digits for small d.

    For large d a second branch, log1p(-e^{-d}), would keep more digits of the tiny result. It is
    always added to a log-mean here, which rounds them away.
    """
    return torch.log(-torch.expm1(-d))


def raw_estimate(statistics: Statistics, tau_plus: float | Tensor) -> tuple[Tensor, Tensor]:
    """log of the estimate before its floor (Eq. 7), and which anchors fall on the floor.

    a = (mean_i e^{u_i} - tau_plus mean_j e^{v_j}) / (1 - tau_plus),  floored where a <= e^{lower}

    In logarithms, with d = log_mean_unlabeled - log_mean_positives - log tau_plus, a > 0 iff d > 0.
    Where d <= 0 the first value is a placeholder. tau_plus = 0 has no correction and no floor.
    """
    log_tau_plus, log_tau_minus = _logs(tau_plus)
    d = statistics.log_mean_unlabeled - statistics.log_mean_positives - log_tau_plus
    is_positive = d > 0
    # The logarithm sees a harmless 1 on the rows not taken: 0 * inf would be NaN in backward.
    log_a = statistics.log_mean_unlabeled + log1mexp(torch.where(is_positive, d, 1.0)) - log_tau_minus
    floored = ~(is_positive & (log_a > statistics.lower))
    return log_a, floored & (tau_plus > 0) if isinstance(tau_plus, Tensor) else floored


def largest_tau_plus(statistics: Statistics) -> Tensor:
    """The largest tau_plus that leaves each anchor above its floor; 1 where every value does. Detached.

    tau_cap = (mean e^u - e^lower) / (mean e^v - e^lower)
    """
    log_u = statistics.log_mean_unlabeled.detach()
    log_v = statistics.log_mean_positives.detach()
    lower = statistics.lower.detach()
    above = (log_u > lower) & (log_v > log_u)
    # Placeholders first, selection after: differences of infinities must not appear.
    gap_u = torch.where(above, log_u - lower, 1.0)
    gap_v = torch.where(above, log_v - lower, 1.0)
    ratio = torch.exp(torch.where(above, log_u - log_v, 0.0) + log1mexp(gap_u) - log1mexp(gap_v))
    return torch.where(log_v > log_u, torch.where(above, ratio, 0.0), 1.0)


def floored_share(statistics: Statistics, tau_plus: float | Tensor) -> Tensor:
    """Share of anchors that this tau_plus puts on the floor, before any `on_floor` rule mends it."""
    if not isinstance(tau_plus, Tensor) and tau_plus == 0:
        return statistics.positive.new_zeros(())
    return raw_estimate(statistics, tau_plus)[1].to(statistics.positive.dtype).mean()


def log_negative_mean(statistics: Statistics, tau_plus: float | Tensor, on_floor: OnFloor) -> Tensor:
    """log g per anchor (Eq. 7): the mean exponential over true negatives, from unlabeled samples.

    g = max{ (mean_i e^{u_i} - tau_plus mean_j e^{v_j}) / (1 - tau_plus), e^{lower} }

    Relations: tau_plus = 0 is the unlabeled mean itself, so the biased loss. `on_floor` says what stands
    below the floor b = e^{lower}, with a the raw estimate and m the unlabeled mean:
    "clamp"   b, Eq. 7; no gradient reaches the samples.
    "biased"  m: that anchor uses the biased loss, as in the paper's ImageNet-100 runs.
    "smooth"  b + k m softplus((a - b) / (k m)) everywhere: differentiable, k = SMOOTHING.
    "cap_tau" never reached: each anchor's tau_plus is at most CAP_SHARE of its largest safe value. The cap
              acts before the floor would, so that the loss stays continuous, and is a constant for gradients.
    """
    log_m = statistics.log_mean_unlabeled
    if not isinstance(tau_plus, Tensor) and tau_plus == 0:
        return log_m
    if on_floor == "cap_tau":
        tau_plus = (CAP_SHARE * largest_tau_plus(statistics)).clamp(max=tau_plus)
    if on_floor == "smooth":
        log_g = _smooth(statistics, tau_plus)
        return torch.where(tau_plus > 0, log_g, log_m) if isinstance(tau_plus, Tensor) else log_g
    log_a, floored = raw_estimate(statistics, tau_plus)
    return torch.where(floored, log_m if on_floor == "biased" else statistics.lower, log_a)


def _logs(tau_plus: float | Tensor) -> tuple[float | Tensor, float | Tensor]:
    """log tau_plus and log(1 - tau_plus)."""
    if isinstance(tau_plus, Tensor):
        return tau_plus.log(), torch.log1p(-tau_plus)
    return math.log(tau_plus), math.log1p(-tau_plus)


def _smooth(statistics: Statistics, tau_plus: float | Tensor) -> Tensor:
    log_m, lower = statistics.log_mean_unlabeled, statistics.lower
    log_ratio = statistics.log_mean_positives + _logs(tau_plus)[0] - log_m
    a = -torch.expm1(log_ratio.clamp(max=_NEVER)) / (1 - tau_plus)
    x = (a - torch.exp((lower - log_m).clamp(max=_NEVER))) / SMOOTHING
    # log softplus(x) is x far below 0, where softplus itself would underflow.
    far = x < -30
    log_softplus = torch.where(far, x, torch.where(far, 1.0, x).logaddexp(x.new_zeros(())).log())
    return torch.logaddexp(lower, log_m + math.log(SMOOTHING) + log_softplus)
