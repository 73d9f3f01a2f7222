"""Quick-Thoughts with any of the objectives (Section 5.2): a sentence's neighbours are its positives."""

import math
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn import functional as F

from debiased_contrastive.kernels.gather import Share, gather_rows
from debiased_contrastive.kernels.weights import negative_weights_
from debiased_contrastive.losses.debiased import DebiasedLoss
from debiased_contrastive.losses.diagnostics import Diagnostics
from debiased_contrastive.losses.pairs import ANCHORS_SEEN, PairsSeen
from debiased_contrastive.membership.training import TrainingKnowledge
from debiased_contrastive.objectives.checks import FloorName
from debiased_contrastive.objectives.estimator import Floor
from debiased_contrastive.objectives.statistics import Statistics, log_mean_exp
from debiased_contrastive.text.settings import Denominator, TextSettings
from debiased_contrastive.text.towers import Tower, build_tower

NO_NEIGHBOURS = Diagnostics(
    tau_plus=0.0, floored=0.0, tau_cap_median=1.0, tau_cap_low=1.0, mean_log_g=math.nan,
    num_unlabeled=0.0, num_positives=0.0,
)  # fmt: skip
"""What is said of a batch that has no neighbours."""


class QuickThoughts(DebiasedLoss):
    """The loss between each of contiguous sentences and its neighbours, by two towers.

    A score is the product of a sentence's vector by one tower with a candidate's vector by the other. Without a
    temperature the vectors are raw, with one they are unit vectors. Each pair of a sentence and a neighbour has a
    loss (Eq. 8) with M = 1 or 2, the neighbours being the positives of the correction; the mean is over the
    neighbours of a sentence, then over sentences that have any.

    Args:
        left: The tower of the sentences.
        right: The tower of their candidates.
        tau_plus: Probability that another sentence is as fit a neighbour.
        temperature: Temperature of the products of unit vectors; None takes raw products.
        denominator: "others" leaves the sentence itself and its neighbours out of the unlabeled samples; "original"
            is that of the released biased code, which keeps them all, the sentence itself with a logit of 0.
        floor: "zero"; "bound", the smallest that unit vectors can have, e^(-1/t); "small", e^-10; "relative", a
            twentieth of the unlabeled mean; where the estimate is negative, or below the bound of unit vectors,
            "biased" takes the biased loss and "cap_tau" a smaller tau_plus.
        gather: Whether the batches of all processes are joined to one.
        strength: Factor of the probability that two sentences share a class, where `known` tells it; a strength of
            its own comes first.
    """

    tau_plus: float
    known: TrainingKnowledge | None
    """What is known about sentences, as long as they are trained on; it is no part of the towers."""

    def __init__(
        self,
        left: Tower,
        right: Tower,
        *,
        tau_plus: float,
        temperature: float | None = None,
        denominator: Denominator = "others",
        floor: FloorName = "zero",
        gather: bool = False,
        strength: float = 1.0,
    ) -> None:
        super().__init__(tau_plus)
        self.left = left
        self.right = right
        self.temperature = temperature
        self.denominator = denominator
        self.floor = Floor.named(floor, unit_vectors=temperature is not None)
        self.gather = gather
        self.strength = strength
        self.known = None

    def forward(self, tokens: Tensor, lengths: Tensor, linked: Tensor, ids: Tensor | None = None) -> Tensor:
        """The loss of contiguous sentences: tokens (b, l), lengths (b,), linked (b - 1,) which are neighbours.

        Without any neighbours it is 0. With `gather`, tokens are this process's part, but `linked` and the ids (b,)
        of the sentences are of the whole batch, whose loss is the result on every process.
        """
        u, v = (self._gather(tower(tokens, lengths)) for tower in (self.left, self.right))
        with torch.autocast(u.device.type, enabled=False):
            logits = self._logits(u.float(), v.float())
            if not bool(linked.any()):
                # A text may be verse, lists or letters here. Other processes expect gradients all the same.
                return 0 * (u.sum() + v.sum())
            pairs = neighbours(linked.to(logits.device))
            q = None if self.known is None or ids is None else self.known.same_class(ids)
            # A sentence with itself is no pair, but the original denominator has its logit of 0.
            q = None if q is None else q.fill_diagonal_(0.0)
            statistics = self._statistics(logits, pairs, q)
            seen = None if q is None else self._seen(logits, pairs, q)
            losses = self._losses(statistics, self.tau_plus, self.floor.rule, weights=pairs.weight, pairs=seen)
            return (losses * pairs.weight).sum()

    def vectors(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """(b, d) vectors of sentences: the unit vectors of both towers, side by side."""
        return torch.cat([F.normalize(tower(tokens, lengths)) for tower in (self.left, self.right)], 1)

    @property
    def diagnostics(self) -> Diagnostics:
        """The diagnostics of the last batch that had neighbours."""
        return NO_NEIGHBOURS if self._record is None else super().diagnostics

    @property
    def biased_loss(self) -> float:
        """The biased loss of the same batch."""
        return 0.0 if self._record is None else super().biased_loss

    def _gather(self, local: Tensor) -> Tensor:
        """Gather the rows of all processes, each of which has as many, in the order of their ranks."""
        if not self.gather:
            return local
        return gather_rows(local, Share((len(local),) * dist.get_world_size(), dist.get_rank()))

    def _logits(self, u: Tensor, v: Tensor) -> Tensor:
        if self.temperature is None:
            return u @ v.T
        return F.normalize(u) @ F.normalize(v).T / self.temperature

    def _seen(self, logits: Tensor, pairs: "Pairs", q: Tensor) -> PairsSeen:
        logits = logits.detach()
        return PairsSeen(
            lambda: (self._unlabeled(logits, pairs)[:ANCHORS_SEEN], q[pairs.sentence[:ANCHORS_SEEN]]), self._trust
        )

    @property
    def _trust(self) -> float:
        known = None if self.known is None else self.known.knowledge
        return self.strength if known is None else known.trust.get("strength", self.strength)

    def _unlabeled(self, logits: Tensor, pairs: "Pairs") -> Tensor:
        """(p, b) the logits of unlabeled samples, -inf for the others."""
        rows = logits[pairs.sentence]
        candidates = torch.arange(len(logits), device=logits.device)
        distance = (candidates - pairs.sentence.unsqueeze(1)).abs()
        if self.denominator == "original":
            unlabeled = rows.masked_fill(distance == 0, 0.0)
            return unlabeled.masked_fill(candidates == pairs.neighbour.unsqueeze(1), -math.inf)
        near = (distance == 0) | (pairs.linked_to(candidates) & (distance == 1))
        return rows.masked_fill(near, -math.inf)

    def _statistics(self, logits: Tensor, pairs: "Pairs", q: Tensor | None = None) -> Statistics:
        rows = logits[pairs.sentence]
        candidates = torch.arange(len(logits), device=logits.device)
        distance = (candidates - pairs.sentence.unsqueeze(1)).abs()
        weights = None if q is None else negative_weights_(q[pairs.sentence].to(rows.dtype), self._trust)
        log_mean_unlabeled, count = log_mean_exp(self._unlabeled(logits, pairs), weights=weights)
        positives = rows.masked_fill(~(pairs.linked_to(candidates) & (distance == 1)), -math.inf)
        log_mean_positives, num_positives = log_mean_exp(positives)
        return Statistics(
            positive=rows.gather(1, pairs.neighbour.unsqueeze(1)).squeeze(1),
            log_mean_unlabeled=log_mean_unlabeled,
            num_unlabeled=count,
            log_mean_positives=log_mean_positives,
            num_positives=num_positives,
            lower=self.floor.log_level(log_mean_unlabeled, self.temperature),
        )


def make_method(settings: TextSettings, num_tokens: int, *, gather: bool = False) -> QuickThoughts:
    """Make an untrained method for a vocabulary of that size, padding included; `gather` joins all processes."""
    towers, objective = settings.towers, settings.objective
    left, right = (
        build_tower(towers.name, num_tokens, towers.word_dim, towers.hidden_dim, settings.text.longest)
        for _ in range(2)
    )
    return QuickThoughts(
        left,
        right,
        tau_plus=objective.correction if settings.membership.source == "none" else 0.0,
        temperature=objective.temperature,
        denominator=objective.denominator,
        floor=objective.floor,
        gather=gather,
        strength=settings.membership.given_strength,
    )


@dataclass(frozen=True)
class Pairs:
    """Every sentence with each of its neighbours: (p,) tensors."""

    sentence: Tensor
    neighbour: Tensor
    weight: Tensor
    """With these weights the sum over pairs is the mean over sentences of the mean over their neighbours."""
    before: Tensor
    """Whether the sentence has a neighbour before it."""
    after: Tensor
    """Whether it has one after it."""

    def linked_to(self, candidates: Tensor) -> Tensor:
        """(p, b) whether the candidate is on a side on which the sentence has a neighbour."""
        earlier = candidates < self.sentence.unsqueeze(1)
        return torch.where(earlier, self.before.unsqueeze(1), self.after.unsqueeze(1))


def neighbours(linked: Tensor) -> Pairs:
    """The pairs of contiguous sentences; linked (b - 1,) says which are neighbours.

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
