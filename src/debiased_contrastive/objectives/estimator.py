"""The estimator g of the true negatives' mean (Eq. 7): its floor, the largest safe tau_plus and the needed one."""

import math
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from debiased_contrastive.numerics import number_like
from debiased_contrastive.objectives.checks import FloorName, OnFloor
from debiased_contrastive.objectives.statistics import Statistics, log_mean_exp

Level: TypeAlias = Literal["bound", "zero", "small", "relative"]
SMALL_FLOOR = -10.0
"""log of the level "small"."""
RELATIVE_FLOOR = 0.05
"""The usual level "relative", as a share of the unlabeled mean."""
SMOOTHING = 0.05
"""Width k of the smooth floor, as a share of the unlabeled mean."""
CAP_SHARE = 0.5
"""Share of the largest safe tau_plus that `cap_tau` allows: it bounds the gradient's growth by 2."""
LARGEST_SHARE = 0.9999
"""Largest share of tau_cap that "auto" takes: the rest keeps the estimate off its floor by more than rounding."""
_LARGEST_EXPONENT = 40.0
"""exp(-exp(40)) is 0 in every dtype: exponents are cut here where only their vanishing matters."""


@dataclass(frozen=True)
class Floor:
    """The smallest value that the estimate may have, and what an anchor does whose estimate is below it."""

    level: Level
    """e^{-1/t}, the least that unit vectors can have; 0; e^{-10}; or a share of the unlabeled mean."""
    rule: OnFloor = "clamp"
    """See `log_negative_mean`."""
    share: float = RELATIVE_FLOOR
    """The level "relative" as a share of the unlabeled mean."""

    @classmethod
    def named(cls, name: FloorName, *, unit_vectors: bool) -> "Floor":
        """The floor of one word: a level, or a rule at the lowest level that the scores can have."""
        if name == "zero" or name == "small" or name == "relative":
            return cls(name)
        return cls("bound" if unit_vectors else "zero", "clamp" if name == "bound" else name)

    def log_level(self, log_mean_unlabeled: Tensor, temperature: float | Tensor | None = None) -> Tensor:
        """`lower` of the statistics: () or (a,). The temperature is needed for the level "bound" alone."""
        like = log_mean_unlabeled
        if self.level == "relative":
            return like + math.log(self.share)
        lower: float | Tensor = SMALL_FLOOR if self.level == "small" else -math.inf
        if self.level == "bound":
            assert temperature is not None
            lower = -(1 / (temperature.reshape(()).to(like) if isinstance(temperature, Tensor) else temperature))
        return number_like(lower, like)


def log1mexp(x: Tensor) -> Tensor:
    """log(1 - e^x) for x < 0, to the rounding of a number of size 1; exact digits near 0.

    Far below 0 a second branch, log1p(-e^x), would keep more digits of the tiny result. It is
    always added to a log-mean here, which rounds them away.
    """
    return torch.log(-torch.expm1(x))


def raw_estimate(statistics: Statistics, tau_plus: float | Tensor) -> tuple[Tensor, Tensor]:
    """log of the estimate before its floor (Eq. 7), and which anchors fall on the floor.

    a = (mean_i e^{u_i} - tau_plus mean_j e^{v_j}) / (1 - tau_plus),  floored where a <= e^{lower}

    In logarithms, with d = log_mean_positives + log tau_plus - log_mean_unlabeled, a > 0 iff d < 0.
    Where d >= 0 the first value is a placeholder. tau_plus = 0 has no correction and no floor.
    """
    log_tau_plus, log_tau_minus = _logs(tau_plus)
    d = statistics.log_mean_positives - statistics.log_mean_unlabeled + log_tau_plus
    is_positive = d < 0
    # The logarithm sees a harmless -1 on the rows not taken: 0 * inf would be NaN in backward.
    log_a = log1mexp(torch.where(is_positive, d, -1.0)) + (statistics.log_mean_unlabeled - log_tau_minus)
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
    gap_u = torch.where(above, lower - log_u, -1.0)
    gap_v = torch.where(above, lower - log_v, -1.0)
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

    - "clamp": b, Eq. 7; no gradient reaches the samples.
    - "biased": m, so that anchor uses the biased loss, as in the paper's ImageNet-100 runs.
    - "smooth": b + k m softplus((a - b) / (k m)) everywhere; differentiable, k = SMOOTHING.
    - "cap_tau": never reached; each anchor's tau_plus is at most CAP_SHARE of its largest safe value. The cap
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


@torch.no_grad()
def effective_tau_plus(statistics: Statistics, log_mean_negatives: Tensor) -> Tensor:
    """The tau_plus, for each anchor, with which Eq. 7 gives the true negatives' mean m_minus; at least 0.

    tau_eff = (mean e^u - m_minus) / (mean e^v - m_minus)

    Relations: with positives that are samples of the anchor's class it is the class prior, on average; augmented
    views are nearer, so it is smaller. It is below `largest_tau_plus` wherever m_minus is above the floor.
    """
    log_u, log_v = statistics.log_mean_unlabeled, statistics.log_mean_positives
    # Means relative to the largest, so that nothing overflows.
    largest = torch.maximum(torch.maximum(log_u, log_v), log_mean_negatives)
    u, v, minus = (torch.exp(log_mean - largest) for log_mean in (log_u, log_v, log_mean_negatives))
    ratio = (u - minus) / (v - minus).clamp(min=torch.finfo(u.dtype).tiny)
    return torch.where(u > minus, ratio.clamp(max=1.0), 0.0)


@torch.no_grad()
def guess_log_mean_negatives(logits: Tensor, prior: float, beta: float = 0.0) -> Tensor:
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
    return float(torch.where(tau_cap > 0, tau_eff / tau_cap, 0.0).clamp(max=LARGEST_SHARE).median())


@torch.no_grad()
def auto_tau_plus(statistics: Statistics, share: float, prior: float) -> Tensor:
    """The tau_plus of each anchor (a,): that share of its tau_cap, at most the prior."""
    return (share * largest_tau_plus(statistics)).clamp(max=prior)


def with_constant_correction(statistics: Statistics, tau_plus: float | Tensor) -> Statistics:
    """Statistics whose unlabeled mean is g of Eq. 7, the correction being a constant for gradients.

    The biased loss of them has the value of the debiased loss, and a gradient of the size that this value calls
    for. Through the correction it would be larger by mean e^u / ((1 - tau_plus) g), which has no bound, though with
    one positive its direction is the same.
    """
    if not isinstance(tau_plus, Tensor) and tau_plus == 0:
        return statistics
    log_m = statistics.log_mean_unlabeled
    shift = (log_negative_mean(statistics, tau_plus, "clamp") - log_m).detach()
    return replace(statistics, log_mean_unlabeled=log_m + shift)


def _logs(tau_plus: float | Tensor) -> tuple[float | Tensor, float | Tensor]:
    """log tau_plus and log(1 - tau_plus)."""
    if isinstance(tau_plus, Tensor):
        return tau_plus.log(), torch.log1p(-tau_plus)
    return math.log(tau_plus), math.log1p(-tau_plus)


def _smooth(statistics: Statistics, tau_plus: float | Tensor) -> Tensor:
    log_m, lower = statistics.log_mean_unlabeled, statistics.lower
    log_ratio = statistics.log_mean_positives + _logs(tau_plus)[0] - log_m
    a = -torch.expm1(log_ratio.clamp(max=_LARGEST_EXPONENT)) / (1 - tau_plus)
    x = (a - torch.exp((lower - log_m).clamp(max=_LARGEST_EXPONENT))) / SMOOTHING
    # log softplus(x) is x far below 0, where softplus itself would underflow.
    far = x < -30
    log_softplus = torch.where(far, x, torch.where(far, 1.0, x).logaddexp(x.new_zeros(())).log())
    return torch.logaddexp(lower, log_m + math.log(SMOOTHING) + log_softplus)
