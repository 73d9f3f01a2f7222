"""CURL's contrastive term with any of the objectives (Section 5.3): two crops of one observation are a pair."""

import torch
from torch import Tensor, nn

from debiased_contrastive.losses.debiased import DebiasedLoss
from debiased_contrastive.objectives.checks import RawFloorName
from debiased_contrastive.objectives.estimator import Floor
from debiased_contrastive.objectives.statistics import Statistics, log_mean_exp


class Contrast(DebiasedLoss):
    """Queries and keys to a loss, by scores q W k.

    A query's positive is the key of its own observation; the keys of the others are unlabeled. Further keys of its
    own, of other crops, only estimate the positives' mean (M > 1).
    """

    tau_plus: float

    def __init__(self, dim: int, *, tau_plus: float, floor: RawFloorName = "zero") -> None:
        super().__init__(tau_plus)
        self.weight = nn.Parameter(torch.rand(dim, dim))
        self.floor = Floor.named(floor, unit_vectors=False)

    def forward(self, queries: Tensor, keys: Tensor) -> Tensor:
        """The loss of queries (b, d) and keys (m, b, d), the first of which are those of the pairs."""
        if len(queries) < 2:
            raise ValueError(f"a batch needs at least 2 observations, the others are unlabeled; got {len(queries)}")
        projected = queries @ self.weight
        logits = projected @ keys[0].T
        own = torch.eye(len(logits), dtype=torch.bool, device=logits.device)
        log_mean_unlabeled, num_unlabeled = log_mean_exp(logits.masked_fill(own, -torch.inf))
        log_mean_positives, num_positives = log_mean_exp((projected * keys).sum(-1).T)
        statistics = Statistics(
            positive=logits.diagonal(),
            log_mean_unlabeled=log_mean_unlabeled,
            num_unlabeled=num_unlabeled,
            log_mean_positives=log_mean_positives,
            num_positives=num_positives,
            lower=self.floor.log_level(log_mean_unlabeled),
        )
        return self._losses(statistics, self.tau_plus, self.floor.rule).mean()
