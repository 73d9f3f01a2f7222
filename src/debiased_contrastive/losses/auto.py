"""A tau_plus that follows training, since what it must be depends on the temperature and on the embeddings."""

from collections.abc import Callable
from numbers import Real
from threading import Lock
from typing import Any, Literal

import torch
from torch import Tensor, nn

from debiased_contrastive.kernels.gather import Share, mean_over_processes
from debiased_contrastive.objectives.effective import following_tau_plus, log_mean_without, share_of_cap
from debiased_contrastive.objectives.statistics import Statistics, few

ANCHORS = 128
"""Anchors of a call that are looked at."""
EVERY = 10
"""Calls from one look to the next."""
KEPT = 0.9
"""Weight of all looks before in the moving average."""
_COUNTING = Lock()
"""So that threads lose no call and no look; one for all, since a module with its own could not be copied."""


def following(tau_plus: "float | Tensor | Literal['auto'] | AutoTauPlus") -> "float | Tensor | AutoTauPlus":
    """tau_plus as a module keeps it: the word becomes what it stands for."""
    if isinstance(tau_plus, str):
        if tau_plus != "auto":
            raise ValueError(f"tau_plus must be a number in [0, 1), a tensor of them, or 'auto'; got {tau_plus!r}")
        return AutoTauPlus()
    return tau_plus


class AutoTauPlus(nn.Module):
    """Each anchor's tau_plus as a share of the largest that would not put it on the floor (tau_cap).

    tau_plus(x) = min(prior, of_cap tau_cap(x)),  of_cap = moving average of median_x tau_eff(x) / tau_cap(x)

    tau_eff, the tau_plus with which the correction gives the true negatives' mean, is guessed from the unlabeled
    logits, see `log_mean_without`; it needs to know the prior. No anchor reaches the floor. The correction is a
    constant for gradients, see `with_constant_correction`. In the first `warm_up` calls tau_plus is 0, since
    untrained embeddings know no classes. Calls in evaluation mode change nothing. `of_cap` and the number of calls
    are in the state_dict.

    For positives that stand in for the class, as augmented views. Where they are samples of it, tau_plus = prior is
    right.

    prior: probability that two random inputs share a class, 1/K for K classes of one size.
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
        """Show the settings when printed."""
        return f"prior={self.prior}, warm_up={self.warm_up}"

    def get_extra_state(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        return {"calls": self.calls, "of_cap": self.of_cap}

    def set_extra_state(self, state: dict[str, Any]) -> None:
        """Go on from a checkpoint."""
        self.calls, self.of_cap = state["calls"], state["of_cap"]

    @torch.no_grad()
    def forward(
        self, statistics: Statistics, logits_of: Callable[[int], Tensor], share: Share, beta: float = 0.0
    ) -> float | Tensor:
        """tau_plus of each anchor (a,), or 0; logits_of: unlabeled logits of the first anchors, at most so many."""
        with _COUNTING:
            looks = self._counted()
        if looks:
            self._look(statistics, logits_of(ANCHORS), share, beta)
        if self.of_cap is None or self.calls <= self.warm_up:
            return 0.0
        return following_tau_plus(statistics, self.of_cap, self.prior)

    def _counted(self) -> bool:
        """Count a call of the training; whether it is one that looks."""
        if self.training:
            self.calls += 1
        return self.training and self.calls > self.warm_up and (self.calls - self.warm_up) % EVERY == 1

    def _look(self, statistics: Statistics, logits: Tensor, share: Share, beta: float) -> None:
        log_mean_negatives = log_mean_without(logits, self.prior, beta)
        here = share_of_cap(few(statistics, len(logits)), log_mean_negatives)
        seen = mean_over_processes(here, share, logits.device)
        with _COUNTING:
            self.of_cap = seen if self.of_cap is None else KEPT * self.of_cap + (1 - KEPT) * seen
