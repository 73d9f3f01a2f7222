"""The statistics of a contrastive loss on a sample of embeddings, at a temperature and a batch size."""

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from debiased_contrastive.auditing.sample import Sample
from debiased_contrastive.objectives.estimator import (
    auto_tau_plus,
    effective_tau_plus,
    floored_share,
    guess_log_mean_negatives,
    largest_tau_plus,
    share_of_cap,
)
from debiased_contrastive.objectives.losses import debiased
from debiased_contrastive.objectives.statistics import Statistics, log_mean_exp

ENOUGH_ANCHORS = 4000
"""Number of anchors from which on no further batch is measured."""
LOGITS_AT_ONCE = 2**21


@dataclass(frozen=True)
class Anchors:
    """Anchors in batches, each beside the other rows of its batch."""

    statistics: Statistics
    log_mean_negatives: Tensor
    """(a,) means over true negatives: samples of other classes if labels are known, else guessed by the prior."""
    labels: Tensor | None
    batch: int

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
        """The debiased loss; the biased one for tau_plus = 0."""
        return float(debiased(self.statistics, tau_plus).mean())

    def auto_loss(self, prior: float) -> float:
        """The loss with an automatic tau_plus."""
        share = share_of_cap(self.statistics, self.log_mean_negatives)
        return float(debiased(self.statistics, auto_tau_plus(self.statistics, share, prior)).mean())

    def spread(self, tau_plus: float) -> float:
        """Standard deviation of the sizes of the anchors' forces beside their mean."""
        with torch.enable_grad():
            log_mean = self.statistics.log_mean_unlabeled.detach().requires_grad_()
            losses = debiased(replace(self.statistics, log_mean_unlabeled=log_mean), tau_plus)
            (sizes,) = torch.autograd.grad(losses.sum(), log_mean)
        mean = float(sizes.mean())
        return float(sizes.std(correction=0)) / mean if mean > 0 else 0.0

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
def measure_anchors(sample: Sample, *, temperature: float, batch_size: int, prior: float) -> Anchors:
    """Measure anchors in batches of the sample, or in the whole sample if it is smaller than a batch."""
    positive = _positive_similarity(sample)
    usable = positive.isfinite()
    batch = min(batch_size, len(sample))
    parts: list[tuple[Tensor, Tensor, Tensor]] = []
    done = 0
    for start in range(0, len(sample) - batch + 1, batch):
        anchors = torch.arange(start, start + batch)[usable[start : start + batch]]
        for rows in anchors.split(max(1, LOGITS_AT_ONCE // batch)):
            if done < ENOUGH_ANCHORS:
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
        # The guessed mean over true negatives may not be above the mean over all samples.
        log_negatives = torch.minimum(guess_log_mean_negatives(logits, prior), log_u)
    else:
        same = sample.labels[rows].unsqueeze(1) == sample.labels[columns]
        log_negatives, count = log_mean_exp(logits.masked_fill(same, -math.inf))
    return rows[count > 0], log_u[count > 0], log_negatives[count > 0]


def _positive_similarity(sample: Sample) -> Tensor:
    """(s,) similarity to the positive, or to a row of the same class if there are only labels, or 1.

    It is NaN for a row that is alone in its class.
    """
    if sample.positive is not None:
        return (sample.z.double() * sample.positive.double()).sum(1)
    if sample.labels is None:
        return torch.ones(len(sample), dtype=torch.float64)
    partner = next_in_class(sample.labels)
    similarity = (sample.z.double() * sample.z[partner].double()).sum(1)
    return torch.where(partner == torch.arange(len(sample)), math.nan, similarity)


def next_in_class(labels: Tensor) -> Tensor:
    """(s,) for each row another of its class, at random if rows are in random order; itself if there is none.

    >>> next_in_class(torch.tensor([5, 7, 5, 5, 8]))
    tensor([2, 1, 3, 0, 4])
    """
    order = labels.sort(stable=True).indices
    ordered = labels[order]
    is_last = torch.cat([ordered[1:] != ordered[:-1], torch.tensor([True])])
    first = torch.searchsorted(ordered, ordered)
    following = torch.where(is_last, first, torch.arange(len(labels)) + 1)
    return torch.empty_like(order).scatter(0, order, order[following])
