"""The debiased loss of one positive with its derivatives in closed form: those of autograd, in a third of the time.

`losses.debiased` has the same values, for every rule and any statistics, and can be differentiated again.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from debiased_contrastive.objectives.losses import SOFTPLUS_IS_LINEAR


@torch.no_grad()
def debiased_with_slopes(
    positive: Tensor, log_mean_unlabeled: Tensor, num_unlabeled: float, tau_plus: float, lower: float
) -> tuple[Tensor, Tensor, Tensor]:
    """The losses of Eq. 8 with M = 1 and v = x+, clamped, and their derivatives by both tensors; all (a,).

    With m the unlabeled mean, p = tau_plus e^{s+} / m, and sigma the slope of softplus at log N g - s+: above the
    floor dg/g = (dm/m - p ds+) / (1 - p), so the slopes are sigma / (1 - p) by log m, and its negative by s+. On
    the floor g is constant: 0 and -sigma.
    """
    log_n = math.log(num_unlabeled)
    margin = log_mean_unlabeled - positive
    if tau_plus:
        rest = torch.expm1(math.log(tau_plus) - margin).neg_()  # 1 - p
        on_floor = (lower + log_n) - positive
        margin = rest.log().add_(margin).add_(log_n - math.log1p(-tau_plus))
        # Not so where the estimate is negative, too, whose logarithm is not a number.
        above = margin > on_floor
        margin = torch.where(above, margin, on_floor)
    else:
        margin.add_(log_n)
    # Beyond the threshold softplus(x) = x to the last digit, of float64 too.
    losses = F.softplus(margin, threshold=SOFTPLUS_IS_LINEAR)
    sigma = margin.sigmoid_()
    if not tau_plus:
        return losses, -sigma, sigma
    by_mean = rest.reciprocal_().mul_(sigma)
    by_positive = torch.where(above, by_mean, sigma).neg_()
    return losses, by_positive, torch.where(above, by_mean, 0.0)
