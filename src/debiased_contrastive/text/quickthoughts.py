"""Quick-Thoughts with any of the objectives (Section 5.2): a sentence's neighbours are its positives."""

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F

from debiased_contrastive.kernels.gather import Share, gathered
from debiased_contrastive.losses.floors import log_floor, rule_of
from debiased_contrastive.objectives.estimator import floored_share, largest_tau_plus
from debiased_contrastive.objectives.losses import debiased
from debiased_contrastive.objectives.statistics import Statistics, detached, log_mean_exp
from debiased_contrastive.text.towers import Tower

Denominator: TypeAlias = Literal["others", "original"]
Floor: TypeAlias = Literal["zero", "bound", "small", "relative", "biased", "cap_tau"]


class QuickThoughts(nn.Module):
    """Contiguous sentences to the loss between each and its neighbours, by two towers.

    Scores are products of what one tower makes of a sentence with what the other makes of its candidates: without a
    temperature they are raw, with one they are of unit vectors. Each pair of a sentence and a neighbour has a loss
    (Eq. 8) with M = 1 or 2, the neighbours being the positives of the correction; the mean is over the neighbours
    of a sentence, then over sentences that have any.

    denominator: "others" leaves the sentence itself and its neighbours out of the unlabeled samples; "original" is
    that of the released biased code, which keeps them all, the sentence itself with a logit of 0.
    floor: "zero"; "bound", the smallest that unit vectors can have, e^(-1/t); "small", e^-10; "relative", a
    twentieth of the unlabeled mean; where the estimate is negative, or below the bound of unit vectors, "biased"
    takes the biased loss and "cap_tau" a smaller tau_plus.
    """

    def __init__(
        self,
        left: Tower,
        right: Tower,
        *,
        tau_plus: float,
        temperature: float | None = None,
        denominator: Denominator = "others",
        floor: Floor = "zero",
        gather: bool = False,
    ) -> None:
        super().__init__()
        self.left = left
        self.right = right
        self.tau_plus = tau_plus
        self.temperature = temperature
        self.denominator = denominator
        self.floor = floor
        self.gather = gather
        self.seen: tuple[Statistics, Tensor] | None = None
        """Of the last call that had neighbours, with the weight of each pair."""

    def forward(self, tokens: Tensor, lengths: Tensor, linked: Tensor) -> Tensor:
        """The loss of contiguous sentences: tokens (b, l), lengths (b,), linked (b - 1,) which are neighbours.

        Without any neighbours it is 0. With `gather`, tokens are this process's part and `linked` is of the whole
        batch, whose loss is the result on every process.
        """
        u, v = (self._everybodys(tower(tokens, lengths)) for tower in (self.left, self.right))
        with torch.autocast(u.device.type, enabled=False):
            logits = self._logits(u.float(), v.float())
            if not bool(linked.any()):
                # The verse, lists or letters of a text; gradients are there, as other processes expect.
                return 0 * (u.sum() + v.sum())
            pairs = neighbours(linked.to(logits.device))
            statistics = self._statistics(logits, pairs)
            self.seen = detached(statistics), pairs.weight
            losses = debiased(statistics, self.tau_plus, "clamp" if self.floor == "bound" else rule_of(self.floor))
            return (losses * pairs.weight).sum()

    def vectors(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """(b, d) what sentences are to others: unit vectors of both towers, side by side."""
        return torch.cat([F.normalize(tower(tokens, lengths)) for tower in (self.left, self.right)], 1)

    @property
    def floored(self) -> float:
        """Share of the pairs of the last call that tau_plus put on the floor."""
        return 0.0 if self.seen is None else float(floored_share(self.seen[0], self.tau_plus))

    @property
    def tau_cap(self) -> float:
        """Median over the pairs of the last call of the largest tau_plus that would not."""
        return 1.0 if self.seen is None else float(largest_tau_plus(self.seen[0]).median())

    @property
    def biased_loss(self) -> float:
        """What the last call would have been without correction."""
        if self.seen is None:
            return 0.0
        statistics, weight = self.seen
        return float((debiased(statistics, 0.0, "clamp") * weight).sum())

    def _everybodys(self, local: Tensor) -> Tensor:
        """The rows of all processes, each of which has as many, in the order of their ranks."""
        if not self.gather:
            return local
        return gathered(local, Share((len(local),) * dist.get_world_size(), dist.get_rank()))

    def _logits(self, u: Tensor, v: Tensor) -> Tensor:
        if self.temperature is None:
            return u @ v.T
        return F.normalize(u) @ F.normalize(v).T / self.temperature

    def _statistics(self, logits: Tensor, pairs: "Pairs") -> Statistics:
        rows = logits[pairs.sentence]
        candidates = torch.arange(len(logits), device=logits.device)
        distance = (candidates - pairs.sentence.unsqueeze(1)).abs()
        if self.denominator == "original":
            unlabeled = rows.masked_fill(distance == 0, 0.0)
            unlabeled = unlabeled.masked_fill(candidates == pairs.neighbour.unsqueeze(1), -math.inf)
        else:
            near = (distance == 0) | (pairs.linked_to(candidates) & (distance == 1))
            unlabeled = rows.masked_fill(near, -math.inf)
        log_mean_unlabeled, count = log_mean_exp(unlabeled)
        positives = rows.masked_fill(~(pairs.linked_to(candidates) & (distance == 1)), -math.inf)
        log_mean_positives, num_positives = log_mean_exp(positives)
        return Statistics(
            positive=rows.gather(1, pairs.neighbour.unsqueeze(1)).squeeze(1),
            log_mean_unlabeled=log_mean_unlabeled,
            num_unlabeled=count,
            log_mean_positives=log_mean_positives,
            num_positives=num_positives,
            lower=self._lower(log_mean_unlabeled),
        )

    def _lower(self, log_mean_unlabeled: Tensor) -> Tensor:
        if self.temperature is not None and self.floor in ("bound", "biased", "cap_tau"):
            return log_mean_unlabeled.new_tensor(-1 / self.temperature)
        return log_floor("zero" if self.floor == "bound" else self.floor, log_mean_unlabeled)


@dataclass(frozen=True)
class Pairs:
    """Every sentence with each of its neighbours."""

    sentence: Tensor
    """(p,)"""
    neighbour: Tensor
    """(p,)"""
    weight: Tensor
    """(p,) with which the sum over pairs is the mean over sentences of the mean over their neighbours."""
    before: Tensor
    """(p,) whether the sentence has a neighbour before it."""
    after: Tensor
    """(p,) whether it has one after it."""

    def linked_to(self, candidates: Tensor) -> Tensor:
        """(p, b) whether the candidate is on a side on which the sentence has a neighbour."""
        earlier = candidates < self.sentence.unsqueeze(1)
        return torch.where(earlier, self.before.unsqueeze(1), self.after.unsqueeze(1))


def neighbours(linked: Tensor) -> Pairs:
    """The pairs of contiguous sentences, linked (b - 1,) telling which are neighbours.

    >>> pairs = neighbours(torch.tensor([True, False]))
    >>> pairs.sentence.tolist(), pairs.neighbour.tolist(), pairs.weight.tolist()
    ([1, 0], [0, 1], [0.5, 0.5])
    """
    none = linked.new_zeros(1)
    before, after = torch.cat([none, linked]), torch.cat([linked, none])
    first, second = before.nonzero().squeeze(1), after.nonzero().squeeze(1)
    sentence = torch.cat([first, second])
    count = before.long() + after.long()
    return Pairs(
        sentence,
        torch.cat([first - 1, second + 1]),
        1 / (count[sentence] * (count > 0).sum()).float(),
        before[sentence],
        after[sentence],
    )
