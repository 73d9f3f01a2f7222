"""What the loss modules share: their settings, the last step from statistics to a value, diagnostics."""

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor, nn

from debiased_contrastive.kernels.gather import Share
from debiased_contrastive.kernels.unlabeled import Kernel
from debiased_contrastive.losses.auto import AutoTauPlus
from debiased_contrastive.losses.inputs import check_logits, check_temperature, recorded_unit, unit
from debiased_contrastive.objectives.checks import (
    OnFloor,
    Reduction,
    check_beta,
    check_choice,
    check_tau_plus,
    per_anchor_tau_plus,
)
from debiased_contrastive.objectives.effective import with_constant_correction
from debiased_contrastive.objectives.estimator import floored_share, largest_tau_plus, log_negative_mean
from debiased_contrastive.objectives.losses import debiased, reduced
from debiased_contrastive.objectives.statistics import Statistics

HARMLESS = 1e30
"""Logits of finite embeddings that are bounded by this are finite, and need no look."""


@dataclass(frozen=True)
class Options:
    """The settings of one call, checked."""

    temperature: float | Tensor
    tau_plus: float | Tensor | AutoTauPlus
    on_floor: OnFloor
    beta: float
    normalize: bool
    relative_floor: float
    gather_distributed: bool
    kernel: Kernel
    reduction: Reduction

    def __post_init__(self) -> None:
        check_temperature(self.temperature)
        if not isinstance(self.tau_plus, AutoTauPlus):
            check_tau_plus(self.tau_plus)
        check_choice("on_floor", self.on_floor, OnFloor)
        check_choice("kernel", self.kernel, Kernel)
        check_choice("reduction", self.reduction, Reduction)
        check_beta(self.beta)
        if not 0 <= self.relative_floor < 1:
            raise ValueError(
                f"relative_floor must lie in [0, 1); got {self.relative_floor!r}: 0 is off, 0.05 is a usual share"
            )
        if self.relative_floor and self.normalize:
            raise ValueError(
                "relative_floor is for normalize=False; unit vectors have the floor exp(-1/temperature): "
                "leave relative_floor at 0 or pass normalize=False"
            )

    @property
    def bound(self) -> float:
        """No logit is larger than this, in absolute value."""
        return 1 / check_temperature(self.temperature) if self.normalize else math.inf

    def unit(self, z: Tensor, length: float = 1.0) -> Tensor:
        """Rows of that length; by operations that can be differentiated again where the kernel can."""
        return recorded_unit(z, length) if self.kernel == "dense" else unit(z, length)

    def scale(self, like: Tensor) -> float | Tensor:
        """1/t; a learnt temperature in the dtype and on the device of `like`."""
        if isinstance(self.temperature, Tensor):
            return 1 / self.temperature.reshape(()).to(like)
        return 1 / self.temperature

    def tau_plus_by_input(self, like: Tensor) -> float | Tensor | None:
        """One number, or one for each input in the dtype of `like` (b,); None where it follows training."""
        if isinstance(self.tau_plus, AutoTauPlus):
            return None
        return per_anchor_tau_plus(self.tau_plus, like, "b")

    def tau_plus_followed(
        self, statistics: Statistics, logits_of: Callable[[int], Tensor], share: Share
    ) -> float | Tensor:
        """tau_plus of each anchor where it follows training; logits_of: unlabeled ones of the first anchors."""
        assert isinstance(self.tau_plus, AutoTauPlus)
        tau_plus: float | Tensor = self.tau_plus(statistics, logits_of, share, self.beta)
        return tau_plus

    def lower(self, log_mean_unlabeled: Tensor) -> Tensor:
        """log of the floor: -1/t for unit vectors, else a share of the unlabeled mean, else -inf."""
        like = log_mean_unlabeled
        if self.relative_floor:
            return like + math.log(self.relative_floor)
        lower = -self.scale(like) if self.normalize else -math.inf
        return torch.as_tensor(lower, dtype=like.dtype, device=like.device)

    def value(self, losses: Tensor, share: Share) -> Tensor:
        """The reduced loss; its mean over processes, and DDP's mean gradient, are those of the full batch."""
        loss = reduced(losses, self.reduction)
        if share.is_alone or self.reduction == "none":
            return loss
        return loss * (share.weight if self.reduction == "mean" else len(share.sizes))

    def __str__(self) -> str:
        """Name and value of each setting, in one line."""
        return ", ".join(f"{field.name}={_shown(getattr(self, field.name))}" for field in fields(self))


def options_of(
    module: nn.Module, temperature: float | Tensor | None = None, tau_plus: float | Tensor | None = None
) -> Options:
    """The module's settings as they stand now, checked; those of the call take precedence."""
    settings = {field.name: getattr(module, field.name) for field in fields(Options)}
    settings |= {} if temperature is None else {"temperature": temperature}
    settings |= {} if tau_plus is None else {"tau_plus": tau_plus}
    return Options(**settings)


@dataclass(frozen=True)
class Diagnostics:
    """What the last call saw, as plain numbers; of this process's anchors."""

    tau_plus: float
    """What the call used, mean over anchors; 0 with labels and in the warm-up of "auto"."""
    floored: float
    """Share of anchors that tau_plus puts on the floor, where `on_floor` takes over."""
    tau_cap_median: float
    """Median over anchors of the largest tau_plus that would not clamp."""
    tau_cap_low: float
    """5 % quantile of the same: the largest tau_plus that leaves 95 % of the anchors off the floor."""
    mean_log_g: float
    """Mean of log g, the estimated mean exponential over true negatives; of the anchors whose g is not 0."""
    num_unlabeled: float
    """N, mean over anchors."""
    num_positives: float
    """M, mean over anchors."""


@dataclass(frozen=True)
class Record:
    """Kept by a module after each call; nothing is computed until somebody asks."""

    statistics: Statistics
    tau_plus: float | Tensor
    on_floor: OnFloor
    number: int
    """How many calls there were, this one included."""


def losses_and_record(
    statistics: Statistics, tau_plus: float | Tensor, options: Options, last: Record | None
) -> tuple[Tensor, Record]:
    """The loss of each anchor, and what `diagnostics_of` will need."""
    if not options.bound < HARMLESS:
        check_logits(statistics)
    tensors = {name: value.detach() for name, value in vars(statistics).items() if isinstance(value, Tensor)}
    number = 1 if last is None else last.number + 1
    record = Record(replace(statistics, **tensors), tau_plus, options.on_floor, number)
    _warn_if_dead(record)
    if isinstance(options.tau_plus, AutoTauPlus):
        return debiased(with_constant_correction(statistics, tau_plus), 0.0), record
    return debiased(statistics, tau_plus, options.on_floor), record


@torch.no_grad()
def diagnostics_of(record: Record | None) -> Diagnostics:
    """Look at the statistics that a call left behind."""
    if record is None:
        raise RuntimeError("diagnostics describe the last call, there was none yet: call the loss first")
    tau_cap = largest_tau_plus(record.statistics)
    log_g = log_negative_mean(record.statistics, record.tau_plus, record.on_floor)
    return Diagnostics(
        tau_plus=_mean(record.tau_plus),
        floored=float(floored_share(record.statistics, record.tau_plus)),
        tau_cap_median=_quantile(tau_cap, 0.5),
        tau_cap_low=_quantile(tau_cap, 0.05),
        mean_log_g=float(log_g[log_g > -math.inf].mean()),
        num_unlabeled=_mean(record.statistics.num_unlabeled),
        num_positives=_mean(record.statistics.num_positives),
    )


def _warn_if_dead(record: Record) -> None:
    """Say so where every anchor is clamped; asked at calls 1, 10, 100, ... since asking waits for the device."""
    if record.on_floor != "clamp" or 10 ** (len(str(record.number)) - 1) != record.number:
        return
    if floored_share(record.statistics, record.tau_plus) == 1:
        low = _quantile(largest_tau_plus(record.statistics), 0.05)
        warnings.warn(
            f"every anchor is on the floor (call {record.number}), so no gradient reaches the unlabeled samples: "
            f"lower tau_plus below {low:.2g}, raise the temperature, or use on_floor='cap_tau'",
            stacklevel=4,
        )


def _mean(values: float | Tensor) -> float:
    return float(values.mean()) if isinstance(values, Tensor) else float(values)


def _quantile(values: Tensor, share: float) -> float:
    # torch.quantile takes at most 16 million values, and sorts them all.
    return float(values.kthvalue(1 + math.floor(share * (len(values) - 1))).values)


def _shown(value: object) -> object:
    if not isinstance(value, Tensor):
        return value
    return f"{value.item():.4g}" if value.numel() == 1 else f"tensor of {tuple(value.shape)}"
