"""Pairs of which something is known: their attraction, and what diagnostics say of them."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from debiased_contrastive.kernels.absent import Absent
from debiased_contrastive.kernels.attraction import Attraction, attracted
from debiased_contrastive.kernels.log_mean import Kernel, masked_logits, weighted_log_sum
from debiased_contrastive.kernels.weights import Form, MateWeights, Membership, PairWeights, negative_weights_
from debiased_contrastive.losses.knowledge import Strength

ANCHORS_SEEN = 128
"""Number of anchors of a call whose pairs the diagnostics look at."""


@dataclass(frozen=True)
class Pairs:
    """Anchors, the samples that they are compared with, and the knowledge about both."""

    rows: Tensor
    """(a, d), scaled so that products with the columns are logits."""
    columns: Tensor
    """(n, d), or (a, n, d) where each anchor has its own."""
    absent: Absent
    form: Form
    strength: Strength

    @property
    def weights(self) -> PairWeights | None:
        """How surely each pair is negative; None where the strength leaves all weights at 1."""
        return self.strength.pair_weights(self.form)

    def attract(self, positive: Tensor, *, bound: float, kernel: Kernel) -> tuple[Tensor, float | Tensor]:
        """`positive` and `attraction` of the statistics, from the logits of the anchors' own positives (a,)."""
        attraction, above = self.strength.attraction, self.strength.above
        if not attraction:
            return positive, 0.0
        mates = MateWeights(PairWeights(self.form, self.strength.weights), attraction, above)
        log_mates = weighted_log_sum(self.rows, self.columns, self.absent, mates, bound=bound, kernel=kernel)
        sums, totals = attracted(self.rows, self.columns, Attraction(self.form, self.absent, above), kernel)
        return join_positives(positive, log_mates, sums, totals, attraction)

    def seen(self) -> "PairsSeen":
        """The first anchors, kept for diagnostics."""
        rows, columns = self.rows.detach()[:ANCHORS_SEEN].clone(), self.columns.detach()
        columns = columns if columns.dim() == 2 else columns[:ANCHORS_SEEN].clone()
        # Of the whole batch nothing is kept alive that the first anchors do not need.
        form = self.form.first(len(rows))
        membership = form.of_rows if isinstance(form, Membership) else None
        pairs = partial(_compute_pairs, rows, columns, self.absent, form)
        return PairsSeen(pairs, self.strength.weights, membership)


def _compute_pairs(rows: Tensor, columns: Tensor, absent: Absent, form: Form) -> tuple[Tensor, Tensor]:
    logits = masked_logits(rows, columns, absent)
    i, j = (slice(0, length) for length in logits.shape)
    return logits, form.same_class(i, j)


@dataclass(frozen=True)
class PairsSeen:
    """Some anchors of a call with all their samples; figures are computed from them when they are asked for."""

    compute: Callable[[], tuple[Tensor, Tensor]]
    """Gives the logits (a, n), -inf where a sample is absent, and q (a, n)."""
    strength: float | Tensor
    """One number, or one for each anchor of the call."""
    membership: Tensor | None = None
    """(a, k) that of these anchors, where it is membership that is known."""

    @torch.no_grad()
    def figures(self) -> dict[str, float | None]:
        """The fields of `Diagnostics` that knowledge brings."""
        logits, q = self.compute()
        present = logits > -torch.inf
        count = present.sum(1).clamp(min=1)
        strength = self.strength[: len(q)] if isinstance(self.strength, Tensor) else self.strength
        weights = torch.where(present, negative_weights_(q.clone(), strength), 0.0)
        total, squares = weights.sum(1), weights.square().sum(1)
        effective = torch.where(squares > 0, total.square() / torch.where(squares > 0, squares, 1.0), 0.0)
        mean_q = torch.where(present, q, 0.0).sum(1) / count
        # The mean exponential of each anchor is 1, so that nothing depends on the temperature's scale.
        e = logits.softmax(1).nan_to_num() * count.unsqueeze(1)
        covariance = (e * q).sum(1) / count - mean_q
        return {
            "mean_q": float(mean_q.mean()),
            "effective_number": float(effective.mean()),
            "covariance": float(covariance.mean()),
            "entropy": None if self.membership is None else _entropy(self.membership),
        }


def _entropy(membership: Tensor) -> float:
    """Mean over samples; what is missing to a sum of 1 is the probability of no class that is listed."""
    rest = (1 - membership.sum(-1, keepdim=True)).clamp(min=0.0)
    return max(0.0, float(-torch.special.xlogy(*[torch.cat([membership, rest], -1)] * 2).sum(-1).mean()))


def join_positives(
    positive: Tensor, log_mates: Tensor, sums: Tensor, totals: Tensor, attraction: float
) -> tuple[Tensor, Tensor]:
    """`positive` and `attraction` of statistics whose numerator holds mates beside the own positive.

    loss = log(e^{s+} + sum_j m_ij e^{s_ij} + N g) - (s+ + attraction sum_j a_ij s_ij) / (1 + attraction sum_j a_ij)

    It is a cross entropy whose targets are 1 for the own positive and attraction a_ij for mate j, divided by their
    sum. m_ij = max(0, attraction a_ij - w_ij) brings each mate's weight in the denominator up to its target, so the
    loss is never below the log of that sum, and is there where all positives are equally near.

    Args:
        positive: s+ (a,).
        log_mates: log sum_j m_ij e^{s_ij} (a,).
        sums: sum_j a_ij s_ij (a,).
        totals: sum_j a_ij (a,).
        attraction: Factor of a_ij.

    Relations: a_ij = [same class], attraction 1 and no elimination (w = 1, so m = 0) is SupCon (Khosla et al.,
    2020, "out").
    """
    joined = torch.logaddexp(positive, log_mates)
    return joined, joined - (positive + attraction * sums) / (1 + attraction * totals)
