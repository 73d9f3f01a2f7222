"""CURL's contrastive term with any of the objectives (Section 5.3): two crops of one observation are a pair."""

import torch
from torch import Tensor, nn

from debiased_contrastive.losses.floors import RawFloor, log_floor, rule_of
from debiased_contrastive.objectives.estimator import floored_share, largest_tau_plus
from debiased_contrastive.objectives.losses import debiased
from debiased_contrastive.objectives.statistics import Statistics, detached, log_mean_exp


class Contrast(nn.Module):
    """Queries and keys to a loss, by scores q W k.

    A query's positive is the key of its own observation; the keys of the others are unlabeled. Further keys of its
    own, of other crops, only estimate the positives' mean (M > 1).
    """

    def __init__(self, dim: int, *, tau_plus: float, floor: RawFloor = "zero") -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(dim, dim))
        self.tau_plus = tau_plus
        self.floor: RawFloor = floor
        self.seen: Statistics | None = None

    def forward(self, queries: Tensor, keys: Tensor) -> Tensor:
        """The loss of queries (b, d) and keys (m, b, d), the first of which are those of the pairs."""
        if len(queries) < 2:
            raise ValueError(f"a batch needs at least 2 observations, the others are unlabeled; got {len(queries)}")
        projected = queries @ self.weight
        logits = projected @ keys[0].T
        positive = logits.diagonal()
        own = torch.eye(len(logits), dtype=torch.bool, device=logits.device)
        log_mean_unlabeled, count = log_mean_exp(logits.masked_fill(own, -torch.inf))
        log_mean_positives, num_positives = log_mean_exp((projected * keys).sum(-1).T)
        statistics = Statistics(
            positive=positive,
            log_mean_unlabeled=log_mean_unlabeled,
            num_unlabeled=count,
            log_mean_positives=log_mean_positives,
            num_positives=num_positives,
            lower=log_floor(self.floor, log_mean_unlabeled),
        )
        self.seen = detached(statistics)
        return debiased(statistics, self.tau_plus, rule_of(self.floor)).mean()

    @property
    def floored(self) -> float:
        """Share of the observations of the last call that tau_plus put on the floor."""
        return 0.0 if self.seen is None else float(floored_share(self.seen, self.tau_plus))

    @property
    def tau_cap(self) -> float:
        """Median over the observations of the last call of the largest tau_plus that would not."""
        return 1.0 if self.seen is None else float(largest_tau_plus(self.seen).median())
