"""What the loss modules share: their settings, the last step from statistics to a value, diagnostics."""

import math
from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor

from debiased_contrastive.kernels.gather import Share
from debiased_contrastive.kernels.unlabeled import Kernel
from debiased_contrastive.objectives.estimator import floored_share, largest_tau_plus, log_negative_mean
from debiased_contrastive.objectives.losses import debiased, reduced
from debiased_contrastive.objectives.settings import (
    OnFloor,
    Reduction,
    check_beta,
    check_choice,
    check_tau_plus,
)
from debiased_contrastive.objectives.statistics import Statistics


@dataclass(frozen=True)
class Options:
    """The settings of a loss module, checked when it is made."""

    tau_plus: float | Tensor
    on_floor: OnFloor
    beta: float
    normalize: bool
    relative_floor: float
    gather_distributed: bool
    kernel: Kernel
    reduction: Reduction

    def __post_init__(self) -> None:
        check_tau_plus(self.tau_plus)
        check_choice("on_floor", self.on_floor, OnFloor)
        check_choice("kernel", self.kernel, Kernel)
        check_choice("reduction", self.reduction, Reduction)
        check_beta(self.beta)
        if not 0 <= self.relative_floor < 1:
            raise ValueError(f"relative_floor must lie in [0, 1) (0 is off); got {self.relative_floor!r}")
        if self.relative_floor and self.normalize:
            raise ValueError(
                "relative_floor is for normalize=False; unit vectors have the floor exp(-1/temperature): "
                "leave relative_floor at 0 or pass normalize=False"
            )

    def lower(self, temperature: float | Tensor, log_mean_unlabeled: Tensor) -> Tensor:
        """log of the floor: -1/t for unit vectors, else a share of the unlabeled mean, else -inf."""
        if self.normalize:
            like = log_mean_unlabeled
            return torch.as_tensor(-1 / temperature, dtype=like.dtype, device=like.device)
        if self.relative_floor:
            return log_mean_unlabeled + math.log(self.relative_floor)
        return log_mean_unlabeled.new_full((), -math.inf)

    def value(self, losses: Tensor, share: Share) -> Tensor:
        """The reduced loss; its mean over processes, and DDP's mean gradient, are those of the full batch."""
        loss = reduced(losses, self.reduction)
        if share.is_alone or self.reduction == "none":
            return loss
        return loss * (share.weight if self.reduction == "mean" else len(share.sizes))

    def __str__(self) -> str:
        """Name and value of each setting."""
        return ", ".join(f"{field.name}={getattr(self, field.name)}" for field in fields(self))


@dataclass(frozen=True)
class Diagnostics:
    """What the last call saw, as plain numbers; of this process's anchors."""

    floored: float
    """Share of anchors that tau_plus puts on the floor, where `on_floor` takes over."""
    tau_cap_median: float
    """Median over anchors of the largest tau_plus that would not clamp."""
    tau_cap_low: float
    """5 % quantile of the same: the largest tau_plus that leaves 95 % of the anchors off the floor."""
    mean_log_g: float
    """Mean of log g, the estimated mean exponential over true negatives."""
    num_unlabeled: float
    """N, mean over anchors."""
    num_positives: float
    """M, mean over anchors."""


@dataclass(frozen=True)
class LastCall:
    """Kept by a module after each call; nothing is computed until somebody asks."""

    statistics: Statistics
    tau_plus: float | Tensor
    on_floor: OnFloor


def losses_and_record(
    statistics: Statistics, tau_plus: float | Tensor, on_floor: OnFloor
) -> tuple[Tensor, LastCall]:
    """The loss of each anchor, and what `diagnostics_of` will need."""
    tensors = {name: value.detach() for name, value in vars(statistics).items() if isinstance(value, Tensor)}
    detached = replace(statistics, **tensors)
    return debiased(statistics, tau_plus, on_floor), LastCall(detached, tau_plus, on_floor)


@torch.no_grad()
def diagnostics_of(call: LastCall | None) -> Diagnostics:
    """Look at the statistics that a call left behind."""
    if call is None:
        raise RuntimeError("diagnostics describe the last call, there was none yet: call the loss first")
    tau_cap = largest_tau_plus(call.statistics)
    return Diagnostics(
        floored=float(floored_share(call.statistics, call.tau_plus)),
        tau_cap_median=_quantile(tau_cap, 0.5),
        tau_cap_low=_quantile(tau_cap, 0.05),
        mean_log_g=float(log_negative_mean(call.statistics, call.tau_plus, call.on_floor).mean()),
        num_unlabeled=_mean(call.statistics.num_unlabeled),
        num_positives=_mean(call.statistics.num_positives),
    )


def _mean(values: float | Tensor) -> float:
    return float(values.mean()) if isinstance(values, Tensor) else float(values)


def _quantile(values: Tensor, share: float) -> float:
    # torch.quantile takes at most 16 million values, and sorts them all.
    return float(values.kthvalue(1 + math.floor(share * (len(values) - 1))).values)
