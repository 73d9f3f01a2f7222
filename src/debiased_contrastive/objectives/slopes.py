"""The debiased loss of one positive with its derivatives in closed form, faster than by autograd.

`losses.debiased` has the same values in log space, for every rule and any statistics, and a second derivative.
"""

import math

import torch
from torch import Tensor


def debiased_with_slopes(
    positive: Tensor, total: Tensor, count: float, tau_plus: float, lower: float
) -> tuple[Tensor, Tensor, Tensor]:
    """The losses of Eq. 8 with M = 1 and v = x+, clamped, and their derivatives by s+ and by `total`; all (a,).

    N g = max{ (total - tau_plus N e^{s+}) / (1 - tau_plus), N e^lower },  loss = log(1 + N g / e^{s+})

    Above the floor d(N g) = (d total - tau_plus N e^{s+} ds+) / (1 - tau_plus); on it N g is constant.
    Nothing is recorded: call it where gradients are off, as they are in an autograd function.

    Args:
        positive: e^{s+}.
        total: The sum of e^u over the N unlabeled samples.
        count: N.
        tau_plus: One for all anchors.
        lower: log of the floor.
    """
    raw = torch.add(total, positive, alpha=-tau_plus * count)
    raw /= 1 - tau_plus
    least = count * math.exp(lower)
    negative = raw.clamp(min=least) if tau_plus else raw
    losses = torch.log1p(negative / positive)
    denominator = positive + negative
    by_negative = denominator.reciprocal()
    by_total = by_negative / (1 - tau_plus)
    if tau_plus:
        by_total *= raw > least
    # N g / (e^{s+} + N g) is the pull through the numerator.
    pull = negative.mul_(by_negative).neg_()
    return losses, pull.addcmul_(positive, by_total, value=-tau_plus * count), by_total
