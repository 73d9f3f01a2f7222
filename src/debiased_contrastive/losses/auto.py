"""A tau_plus that follows training, since the right one depends on the temperature and on the embeddings."""

from collections.abc import Callable
from numbers import Real
from threading import Lock
from typing import Any, Literal

import torch
from torch import Tensor, nn

from debiased_contrastive.kernels.gather import Share, mean_over_processes
from debiased_contrastive.objectives.estimator import auto_tau_plus, guess_log_mean_negatives, share_of_cap
from debiased_contrastive.objectives.statistics import Statistics

ANCHORS_PER_LOOK = 128
"""Number of anchors of a call from which the share of tau_cap is estimated."""
CALLS_PER_LOOK = 10
"""Calls from one estimate to the next."""
AVERAGE_DECAY = 0.9
"""Weight of all earlier estimates in the moving average."""
_LOCK = Lock()
"""Keeps threads from losing calls; one lock for all modules, since a module that holds one cannot be copied."""


def resolve_tau_plus(tau_plus: "float | Tensor | Literal['auto'] | AutoTauPlus") -> "float | Tensor | AutoTauPlus":
    """tau_plus as a loss keeps it: the word "auto" becomes an `AutoTauPlus`."""
    if isinstance(tau_plus, str):
        if tau_plus != "auto":
            raise ValueError(f"tau_plus must be a number in [0, 1), a tensor of them, or 'auto'; got {tau_plus!r}")
        return AutoTauPlus()
    return tau_plus


class AutoTauPlus(nn.Module):
    """Each anchor's tau_plus as a share of the largest that would not put it on the floor (tau_cap).

    tau_plus(x) = min(prior, of_cap tau_cap(x)),  of_cap = moving average of median_x tau_eff(x) / tau_cap(x)

    tau_eff, the tau_plus with which the correction gives the true negatives' mean, is guessed from the unlabeled
    logits, see `guess_log_mean_negatives`; it needs to know the prior. No anchor reaches the floor. The correction
    is a constant for gradients, see `with_constant_correction`. In the first `warm_up` calls tau_plus is 0, since
    untrained embeddings do not tell classes apart. Calls in evaluation mode, and calls without gradients, change
    nothing: not every trainer tells its loss that it evaluates. `of_cap` and the number of calls are in the
    state_dict.

    Each tenth call waits for the device. A loss with it is no part of a compiled graph, and not for vmap.

    It is for positives that stand in for the class, as augmented views do. Where they are samples of it,
    tau_plus = prior is right.

    Args:
        prior: Probability that two random inputs share a class, 1/K for K classes of one size.
        warm_up: Calls in training before the correction begins.
    """

    prior: float
    warm_up: int
    calls: int
    of_cap: float | None

    def __init__(self, prior: float = 0.1, warm_up: int = 100) -> None:
        super().__init__()
        if not isinstance(prior, Real) or not 0 < prior < 1:
            raise ValueError(f"prior must lie in (0, 1); got {prior!r}: it is 0.1 for ten classes of one size")
        if isinstance(warm_up, bool) or not isinstance(warm_up, int) or warm_up < 0:
            raise ValueError(f"warm_up must be a whole number of calls, at least 0; got {warm_up!r}")
        self.prior = float(prior)
        self.warm_up = warm_up
        self.calls = 0
        self.of_cap = None

    def extra_repr(self) -> str:
        """Name and value of each setting, in one line."""
        return f"prior={self.prior}, warm_up={self.warm_up}"

    def get_extra_state(self) -> Tensor:
        """The number of calls and the moving average, -1 if there is none; all checkpoint formats hold a tensor."""
        return torch.tensor([self.calls, -1.0 if self.of_cap is None else self.of_cap], dtype=torch.float64)

    def set_extra_state(self, state: Tensor | dict[str, Any]) -> None:
        """Continue from a checkpoint, also from a dict, which earlier versions wrote."""
        if isinstance(state, dict):
            self.calls, self.of_cap = state["calls"], state["of_cap"]
            return
        calls, of_cap = state.tolist()
        self.calls, self.of_cap = int(calls), None if of_cap < 0 else of_cap

    def forward(
        self, statistics: Statistics, first_logits: Callable[[int], Tensor], share: Share, beta: float = 0.0
    ) -> float | Tensor:
        """tau_plus of each anchor (a,), or 0 in the warm-up.

        Args:
            statistics: The statistics of this call.
            first_logits: Gives the unlabeled logits of at most so many of the first anchors.
            share: This process's part of the batch.
            beta: Tilt of the unlabeled mean.
        """
        if torch._C._functorch.is_batchedtensor(statistics.positive):
            raise ValueError("tau_plus='auto' follows one training, not several at once: under vmap pass a number")
        is_training = self.training and torch.is_grad_enabled()
        with _LOCK:
            is_due = is_training and self._count_call()
        with torch.no_grad():
            if is_due:
                self._update_share(statistics, first_logits(ANCHORS_PER_LOOK), share, beta)
            if self.of_cap is None or self.calls <= self.warm_up:
                return 0.0
            return auto_tau_plus(statistics, self.of_cap, self.prior)

    def _count_call(self) -> bool:
        """Count a call in training; True where it is one that estimates."""
        self.calls += 1
        return self.calls > self.warm_up and (self.calls - self.warm_up) % CALLS_PER_LOOK == 1

    def _update_share(self, statistics: Statistics, logits: Tensor, share: Share, beta: float) -> None:
        log_mean_negatives = guess_log_mean_negatives(logits, self.prior, beta)
        own = share_of_cap(statistics.first_anchors(len(logits)), log_mean_negatives)
        now = mean_over_processes(own, share, logits.device)
        with _LOCK:
            self.of_cap = now if self.of_cap is None else AVERAGE_DECAY * self.of_cap + (1 - AVERAGE_DECAY) * now
