"""The parts that all losses share: settings, the step from statistics to a value, and diagnostics."""

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor, nn

from debiased_contrastive.kernels.gather import Gather, Share, is_group
from debiased_contrastive.kernels.log_mean import Kernel
from debiased_contrastive.losses.auto import AutoTauPlus, resolve_tau_plus
from debiased_contrastive.losses.checks import Calls, Checks
from debiased_contrastive.losses.diagnostics import Diagnostics
from debiased_contrastive.losses.inputs import check_logits, check_temperature, warn_alone, warn_caller
from debiased_contrastive.losses.knowledge import Strength
from debiased_contrastive.losses.options import Options
from debiased_contrastive.losses.pairs import PairsSeen
from debiased_contrastive.numerics import are_transforms_active
from debiased_contrastive.objectives import estimator
from debiased_contrastive.objectives.checks import OnFloor, Reduction, check_beta, check_choice
from debiased_contrastive.objectives.losses import check_probabilities, debiased, decoupled, reduce_losses
from debiased_contrastive.objectives.statistics import Statistics

Objective: TypeAlias = Callable[..., Tensor]
"""From statistics, tau_plus and a rule for the floor to the loss of each anchor: `debiased` or `decoupled`."""

LARGEST_SAFE_BOUND = 1e30
"""Logits of finite embeddings that are bounded by this are finite, so they need no check."""


@dataclass(frozen=True)
class Record:
    """What a loss keeps of its last call; diagnostics are computed from it only when they are asked for."""

    statistics: Statistics
    tau_plus: float | Tensor
    rule: OnFloor
    weights: Tensor | None = None
    """Weights of the anchors in the loss (a,); None is their mean."""
    pairs: PairsSeen | None = None
    """Some of the pairs, where something was known about them."""
    objective: Objective = debiased
    """What made losses of the statistics."""


class DebiasedLoss(nn.Module):
    """The last step of every loss, from statistics to the loss of each anchor; it remembers what it saw."""

    def __init__(self, tau_plus: float | Tensor | Literal["auto"] | AutoTauPlus) -> None:
        super().__init__()
        self.tau_plus = resolve_tau_plus(tau_plus)
        self._record: Record | None = None

    @property
    @torch.no_grad()
    def diagnostics(self) -> Diagnostics:
        """What the last call saw; computed when asked for."""
        record = self._last_record()
        tau_cap = estimator.largest_tau_plus(record.statistics)
        log_g = estimator.log_negative_mean(record.statistics, record.tau_plus, record.rule)
        return Diagnostics(
            tau_plus=_mean(record.tau_plus),
            floored=float(estimator.floored_share(record.statistics, record.tau_plus)),
            tau_cap_median=_quantile(tau_cap, 0.5),
            tau_cap_low=_quantile(tau_cap, 0.05),
            mean_log_g=float(log_g[log_g > -math.inf].mean()),
            num_unlabeled=_mean(record.statistics.num_unlabeled),
            num_positives=_mean(record.statistics.num_positives),
            **({} if record.pairs is None else record.pairs.figures()),
        )

    @property
    @torch.no_grad()
    def biased_loss(self) -> float:
        """What the last call would have been with tau_plus = 0, decoupled if it was so, as a mean over anchors."""
        record = self._last_record()
        losses = record.objective(record.statistics, 0.0)
        return float(losses.mean() if record.weights is None else (losses * record.weights).sum())

    def _losses(
        self,
        statistics: Statistics,
        tau_plus: float | Tensor,
        rule: OnFloor,
        *,
        weights: Tensor | None = None,
        constant: bool = False,
        pairs: PairsSeen | None = None,
        objective: Objective = debiased,
    ) -> Tensor:
        """The loss of each anchor (a,); constant: gradients do not see the correction, as "auto" needs it."""
        # What torch.func passes through means nothing once it is done.
        kept = not are_transforms_active()
        self._keep(Record(statistics.detach(), tau_plus, rule, weights, pairs, objective) if kept else None)
        if constant:
            return objective(estimator.with_constant_correction(statistics, tau_plus), 0.0)
        return objective(statistics, tau_plus, rule)

    def _keep(self, record: Record | None) -> None:
        # What a module does with attributes takes as long as two operations of torch.
        self.__dict__["_record"] = record

    def _last_record(self) -> Record:
        if self._record is None:
            raise RuntimeError(
                "diagnostics describe the last call, there was none yet, or torch.func made it: call the loss first"
            )
        return self._record


# torch.compiler.disable does the same, but loads the compiler for everyone who imports this.
_call_outside_graphs = torch._disable_dynamo(nn.Module.__call__)  # type: ignore[attr-defined]


class EmbeddingLoss(DebiasedLoss):
    """A loss of embeddings: its settings, which are attributes that may be changed between calls."""

    def __init__(
        self,
        temperature: float | Tensor = 0.5,
        tau_plus: float | Tensor | Literal["auto"] | AutoTauPlus = 0.1,
        *,
        on_floor: OnFloor = "clamp",
        beta: float = 0.0,
        decoupled: bool = False,
        normalize: bool = True,
        relative_floor: float = 0.0,
        strength: float | Tensor = 1.0,
        attraction: float = 0.0,
        attraction_above: float = 0.5,
        gather_distributed: Gather = False,
        kernel: Kernel = "auto",
        checks: Checks = "first",
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__(tau_plus)
        self.temperature = temperature
        self.on_floor = on_floor
        self.beta = beta
        self.decoupled = decoupled
        self.normalize = normalize
        self.relative_floor = relative_floor
        self.strength = strength
        self.attraction = attraction
        self.attraction_above = attraction_above
        self.gather_distributed = gather_distributed
        self.kernel = kernel
        self.checks = checks
        self.reduction = reduction
        self._calls = Calls()
        self._options(look=True)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """As of any module, but not everything can be part of a compiled graph."""
        if torch.compiler.is_compiling() and self._stays_outside_graphs():
            return _call_outside_graphs(self, *args, **kwargs)
        return super().__call__(*args, **kwargs)

    def _stays_outside_graphs(self) -> bool:
        """Tiles, since in a graph all of them would exist together; and what follows training, since it counts."""
        return self.kernel != "dense" or isinstance(self.tau_plus, AutoTauPlus)

    def extra_repr(self) -> str:
        """Name and value of each setting, in one line."""
        names = (
            "temperature",
            "tau_plus",
            "on_floor",
            "beta",
            "decoupled",
            "normalize",
            "relative_floor",
            "strength",
            "attraction",
        )
        return ", ".join(
            f"{name}={format_setting(getattr(self, name))}"
            for name in (*names, "attraction_above", "gather_distributed", "kernel", "checks", "reduction")
        )

    def __deepcopy__(self, memo: dict[int, Any]) -> "EmbeddingLoss":
        """A copy, as averages of weights keep it; of a process group there is one, which both share."""
        memo[id(self.gather_distributed)] = self.gather_distributed
        memo[id(self)] = twin = type(self).__new__(type(self))
        twin.__dict__.update(copy.deepcopy(vars(self), memo))
        return twin

    def __getstate__(self) -> dict[str, Any]:
        """What a pickle holds."""
        if is_group(self.gather_distributed):
            raise TypeError(
                "a loss that gathers from a process group cannot be pickled, which is of this process alone: "
                "save its state_dict(), or set gather_distributed to True or False first"
            )
        return vars(self)

    def _options(
        self,
        temperature: float | Tensor | None = None,
        tau_plus: float | Tensor | None = None,
        strength: float | Tensor | None = None,
        attraction: float | None = None,
        attraction_above: float | None = None,
        *,
        look: bool,
    ) -> Options:
        """The settings as they stand now, checked; those of the call take precedence."""
        trust = Strength(
            self.strength if strength is None else strength,
            self.attraction if attraction is None else attraction,
            self.attraction_above if attraction_above is None else attraction_above,
        )
        temperature = self.temperature if temperature is None else temperature
        used = self.tau_plus if tau_plus is None else tau_plus
        check_temperature(temperature, look=look)
        temperature = temperature if isinstance(temperature, Tensor) else float(temperature)
        if not isinstance(used, AutoTauPlus):
            check_probabilities(used, look=look)
        if torch.compiler.is_compiling() and isinstance(used, float) and used:
            # As a number it would bind the graph to this very value.
            used = torch.zeros((), dtype=torch.float64) + used
        check_choice("on_floor", self.on_floor, OnFloor)
        check_choice("kernel", self.kernel, Kernel)
        check_choice("checks", self.checks, Checks)
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
        level: estimator.Level = "bound" if self.normalize else "relative" if self.relative_floor else "zero"
        floor = estimator.Floor(level, self.on_floor, self.relative_floor)
        if self.decoupled and level == "zero" and self.on_floor in ("clamp", "smooth") and _may_correct(used):
            raise ValueError(
                f"decoupled=True with normalize=False and on_floor={self.on_floor!r} has loss minus infinity on "
                "the floor 0: pass a relative_floor, on_floor='biased' or 'cap_tau', or tau_plus=0"
            )
        # The value of a tensor is on its device, and to know it is to wait.
        is_bounded = self.normalize and not isinstance(temperature, Tensor)
        bound = 1 / float(temperature) if is_bounded else math.inf
        kernel, reduction = _usable_kernel(self.kernel), self.reduction
        return Options(temperature, used, floor, self.beta, self.normalize, bound, trust, kernel, reduction, look)

    def _lone_pair(self, first: Tensor, second: Tensor, anchors: int, options: Options) -> Tensor:
        """The loss of a batch of one, which has no unlabeled samples: 0, with a graph, and a warning.

        The last batch of an epoch may be one; a training should not end for it, nor for a look at its diagnostics.
        """
        warn_alone()
        logit = (first * second).sum(-1).detach().repeat(anchors)
        # Both means are the same, so that no tau_plus is too large.
        nothing = torch.zeros_like(logit)
        statistics = Statistics(logit, nothing, nothing, nothing, 1.0, options.lower(nothing))
        record = Record(statistics, 0.0, options.floor.rule, objective=debiased)
        self._keep(None if are_transforms_active() else record)
        zeros = 0.0 * (first + second).sum(-1).repeat(anchors)
        return reduce_losses(zeros, self.reduction)

    def _value(
        self,
        statistics: Statistics,
        tau_plus: float | Tensor,
        options: Options,
        share: Share,
        pairs: PairsSeen | None = None,
    ) -> Tensor:
        """The reduced loss; its mean over processes, and DDP's mean gradient, are those of the full batch."""
        if options.look and not options.bound < LARGEST_SAFE_BOUND:
            check_logits(statistics)
        is_auto = isinstance(options.tau_plus, AutoTauPlus)
        objective = decoupled if self.decoupled else debiased
        losses = self._losses(
            statistics, tau_plus, options.floor.rule, constant=is_auto, pairs=pairs, objective=objective
        )
        loss = reduce_losses(losses, options.reduction)
        self._count(loss, options)
        if share.is_alone or options.reduction == "none":
            return loss
        return loss * (share.weight if options.reduction == "mean" else len(share.sizes))

    def _count(self, loss: Tensor, options: Options) -> None:
        """Count the call that came to this loss, of which there is a record."""
        if options.look and self._calls.is_round:
            _warn_if_dead(self._last_record(), self._calls.number)
        self._calls.end(self.checks, loss)


def _usable_kernel(kernel: Kernel) -> Kernel:
    """The same; under torch.func the one that works there, if the choice is free."""
    if not are_transforms_active():
        return kernel
    if kernel == "tiled":
        raise ValueError(
            "kernel='tiled' has first derivatives by backward alone; under torch.func pass kernel='dense'"
        )
    return "dense"


def _warn_if_dead(record: Record, number: int) -> None:
    """Warn where every anchor is clamped in the call of that number."""
    if record.rule == "clamp" and estimator.floored_share(record.statistics, record.tau_plus) == 1:
        low = _quantile(estimator.largest_tau_plus(record.statistics), 0.05)
        warn_caller(
            f"every anchor is on the floor (call {number}), so no gradient reaches the unlabeled samples: "
            f"lower tau_plus below {low:.2g}, raise the temperature, or use on_floor='cap_tau'"
        )


def _may_correct(tau_plus: float | Tensor | AutoTauPlus) -> bool:
    """Whether tau_plus can put an anchor on the floor; an automatic one stays above it."""
    return not isinstance(tau_plus, AutoTauPlus) and (isinstance(tau_plus, Tensor) or tau_plus > 0)


def _mean(values: float | Tensor) -> float:
    return float(values.mean()) if isinstance(values, Tensor) else float(values)


def _quantile(values: Tensor, share: float) -> float:
    # torch.quantile takes at most 16 million values, and sorts them all.
    return float(values.kthvalue(1 + math.floor(share * (len(values) - 1))).values)


def format_setting(value: object) -> object:
    """The value of a setting, as it is printed."""
    if is_group(value):
        return f"ProcessGroup of {value.size()}"
    if not isinstance(value, Tensor):
        return value
    is_known = value.numel() == 1 and not value.is_meta
    return f"{value.item():.4g}" if is_known else f"tensor of {tuple(value.shape)}"
