"""What a contrastive loss at a temperature and a batch size would see of a sample of embeddings."""

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from debiased_contrastive.auditing.sample import Sample
from debiased_contrastive.objectives.effective import (
    effective_tau_plus,
    following_tau_plus,
    log_mean_without,
    share_of_cap,
)
from debiased_contrastive.objectives.estimator import floored_share, largest_tau_plus
from debiased_contrastive.objectives.losses import debiased
from debiased_contrastive.objectives.statistics import Statistics, log_mean_exp

ANCHORS = 4000
"""Anchors that are looked at."""
_LOGITS = 2**21
"""Logits in memory at a time."""


@dataclass(frozen=True)
class Anchors:
    """Anchors in batches, each beside the other rows of its batch."""

    statistics: Statistics
    log_mean_negatives: Tensor
    """(a,) over true negatives: those of other classes where labels are known, else guessed by the prior."""
    labels: Tensor | None
    """(a,)"""
    batch: int
    """Rows of the batches that were looked at."""

    @property
    def tau_eff(self) -> float:
        """Median of the tau_plus with which the correction gives the true negatives' mean."""
        return float(effective_tau_plus(self.statistics, self.log_mean_negatives).median())

    @property
    def tau_cap(self) -> Tensor:
        """(a,) rising: the largest tau_plus of each anchor that does not put it on the floor."""
        return largest_tau_plus(self.statistics).sort().values

    def floored(self, tau_plus: float) -> float:
        """Share of the anchors that this tau_plus puts on the floor."""
        return float(floored_share(self.statistics, tau_plus))

    def loss(self, tau_plus: float) -> float:
        """The debiased loss; 0 is the biased one."""
        return float(debiased(self.statistics, tau_plus).mean())

    def auto_loss(self, prior: float) -> float:
        """The loss with an automatic tau_plus."""
        share = share_of_cap(self.statistics, self.log_mean_negatives)
        return float(debiased(self.statistics, following_tau_plus(self.statistics, share, prior)).mean())

    @property
    def bias(self) -> Tensor:
        """(a,) by how much the biased loss of each anchor is above the unbiased one."""
        return debiased(self.statistics, 0.0) - debiased(self._unbiased, 0.0)

    @property
    def unbiased_loss(self) -> float:
        """The loss with true negatives alone."""
        return float(debiased(self._unbiased, 0.0).mean())

    @property
    def _unbiased(self) -> Statistics:
        return replace(self.statistics, log_mean_unlabeled=self.log_mean_negatives)


@torch.no_grad()
def anchors_of(sample: Sample, *, temperature: float, batch_size: int, prior: float) -> Anchors:
    """Batches of a random part of the sample; as large as the sample where that is smaller than a batch."""
    positive = _positive_similarity(sample)
    usable = positive.isfinite()
    batch = min(batch_size, len(sample))
    parts: list[tuple[Tensor, Tensor, Tensor]] = []
    done = 0
    for start in range(0, len(sample) - batch + 1, batch):
        for rows in torch.arange(start, start + batch)[usable[start : start + batch]].split(
            max(1, _LOGITS // batch)
        ):
            if done < ANCHORS:
                parts.append(_log_means(sample, rows, slice(start, start + batch), temperature, prior))
                done += len(rows)
    chosen, log_u, log_negatives = (torch.cat([part[k] for part in parts] or [positive[:0]]) for k in range(3))
    if not len(chosen):
        raise ValueError(
            "no row has a positive, an unlabeled sample and a true negative in a batch: classes must have several "
            f"rows, and a batch several classes; got batches of {batch} from {len(sample)} rows"
        )
    chosen = chosen.long()
    s_plus = positive[chosen] / temperature
    statistics = Statistics(
        positive=s_plus,
        log_mean_unlabeled=log_u,
        num_unlabeled=float(batch_size - 1),
        log_mean_positives=s_plus,
        num_positives=1.0,
        lower=torch.tensor(-1 / temperature, dtype=s_plus.dtype),
    )
    return Anchors(statistics, log_negatives, None if sample.labels is None else sample.labels[chosen], batch)


def _log_means(
    sample: Sample, rows: Tensor, columns: slice, temperature: float, prior: float
) -> tuple[Tensor, Tensor, Tensor]:
    """The anchors that have true negatives, log means over their unlabeled samples and over true negatives."""
    logits = sample.z[rows].double() @ sample.z[columns].double().T / temperature
    index = sample.index[columns]
    own = (sample.index[rows].unsqueeze(1) == index) | (sample.positive_index[rows].unsqueeze(1) == index)
    logits = logits.masked_fill(own, -math.inf)
    log_u, count = log_mean_exp(logits)
    if sample.labels is None:
        # What is guessed for a part of the samples may not be more than all of them have.
        log_negatives = torch.minimum(log_mean_without(logits, prior), log_u)
    else:
        same = sample.labels[rows].unsqueeze(1) == sample.labels[columns]
        log_negatives, count = log_mean_exp(logits.masked_fill(same, -math.inf))
    return rows[count > 0], log_u[count > 0], log_negatives[count > 0]


def _positive_similarity(sample: Sample) -> Tensor:
    """(s,) to the positive; to a row of the same class where there are labels alone, else that of equal rows.

    NaN for a row that is alone in its class.
    """
    if sample.positive is not None:
        return (sample.z.double() * sample.positive.double()).sum(1)
    if sample.labels is None:
        return torch.ones(len(sample), dtype=torch.float64)
    partner = next_of_class(sample.labels)
    found = (sample.z.double() * sample.z[partner].double()).sum(1)
    return torch.where(partner == torch.arange(len(sample)), math.nan, found)


def next_of_class(labels: Tensor) -> Tensor:
    """(s,) for each row another of its class, at random if rows are in random order; itself if there is none.

    >>> next_of_class(torch.tensor([5, 7, 5, 5, 8]))
    tensor([2, 1, 3, 0, 4])
    """
    order = labels.sort(stable=True).indices
    ordered = labels[order]
    is_last = torch.cat([ordered[1:] != ordered[:-1], torch.tensor([True])])
    first = torch.searchsorted(ordered, ordered)
    following = torch.where(is_last, first, torch.arange(len(labels)) + 1)
    return torch.empty_like(order).scatter(0, order, order[following])
