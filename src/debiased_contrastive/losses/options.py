"""The settings of one call of a loss, and what they make of embeddings and logits."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from torch import Tensor

from debiased_contrastive.kernels.absent import Absent
from debiased_contrastive.kernels.gather import Share
from debiased_contrastive.kernels.log_mean import Kernel, log_mean
from debiased_contrastive.kernels.weights import PairWeights
from debiased_contrastive.losses.auto import AutoTauPlus
from debiased_contrastive.losses.knowledge import Strength
from debiased_contrastive.numerics import unit_rows
from debiased_contrastive.objectives import estimator
from debiased_contrastive.objectives.checks import Reduction
from debiased_contrastive.objectives.losses import per_anchor_tau_plus
from debiased_contrastive.objectives.statistics import Statistics


@dataclass(frozen=True)
class Options:
    """The settings of one call, checked."""

    temperature: float | Tensor
    tau_plus: float | Tensor | AutoTauPlus
    floor: estimator.Floor
    beta: float
    normalize: bool
    bound: float
    """No logit is larger than this, in absolute value; inf where nobody knows, as with a learnt temperature."""
    strength: Strength
    kernel: Kernel
    reduction: Reduction
    look: bool
    """Whether this call checks values."""

    def unit(self, z: Tensor, length: float = 1.0) -> Tensor:
        """Rows of that length; by operations that can be differentiated again where the kernel can."""
        return unit_rows(z, length, recorded=self.kernel == "dense")

    def scale(self, like: Tensor) -> float | Tensor:
        """1/t; a learnt temperature in the dtype and on the device of `like`."""
        t = self.temperature
        return 1 / (t.reshape(()).to(like) if isinstance(t, Tensor) else t)

    def log_mean(
        self,
        rows: Tensor,
        columns: Tensor | None,
        absent: Absent,
        *,
        beta: float | None = None,
        both: bool = False,
        weights: PairWeights | None = None,
    ) -> tuple[Tensor, float | Tensor]:
        """`kernels.log_mean.log_mean` with these settings; `beta` replaces theirs."""
        beta = self.beta if beta is None else beta
        return log_mean(
            rows, columns, absent, beta=beta, bound=self.bound, kernel=self.kernel, both=both, weights=weights
        )

    def for_log_q(self, log_q: Tensor | None) -> "Options":
        """The same, for logits from which log q is subtracted, whose values nobody looks at."""
        if log_q is None:
            return self
        return replace(self, bound=math.inf)

    def lower(self, log_mean_unlabeled: Tensor) -> Tensor:
        """log of the floor, as statistics have it."""
        return self.floor.log_level(log_mean_unlabeled, self.temperature)

    def check_tau_plus(self, like: Tensor) -> None:
        """Raise where tau_plus is a tensor, but neither one number nor one for each input in `like` (b,)."""
        if isinstance(self.tau_plus, Tensor):
            per_anchor_tau_plus(self.tau_plus, like, "b", look=self.look)

    def anchor_tau_plus(
        self,
        like: Tensor,
        repeat: Callable[[Tensor], Tensor],
        statistics: Statistics,
        first_logits: Callable[[int], Tensor],
        share: Share,
    ) -> float | Tensor:
        """tau_plus as one number, or one for each anchor.

        like: one number for each input (b,). repeat: maps values of inputs to values of anchors. first_logits:
        gives the unlabeled logits of the first anchors.
        """
        if isinstance(self.tau_plus, AutoTauPlus):
            automatic: float | Tensor = self.tau_plus(statistics, first_logits, share, self.beta)
            return automatic
        tau_plus = per_anchor_tau_plus(self.tau_plus, like, "b", look=False)
        return repeat(tau_plus) if isinstance(tau_plus, Tensor) and tau_plus.dim() > 0 else tau_plus
