"""Pairs of which something is known: their attraction, and what diagnostics say of them."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from debiased_contrastive.kernels.attraction import Attraction, attracted
from debiased_contrastive.kernels.log_mean import Kernel, masked_logits
from debiased_contrastive.kernels.tiled import Absent
from debiased_contrastive.kernels.weights import Form, Membership, PairWeights
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

    def attraction(self, positive: Tensor, kernel: Kernel) -> float | Tensor:
        """What the statistics have by that name, of anchors with these logits of their positive (a,)."""
        if not self.strength.attraction:
            return 0.0
        above = Attraction(self.form, self.absent, self.strength.above)
        sums, totals = attracted(self.rows, self.columns, above, kernel)
        return attraction_term(positive, sums, totals, self.strength.attraction)

    def seen(self) -> "PairsSeen":
        """The first anchors, kept for diagnostics."""
        rows, columns = self.rows.detach()[:ANCHORS_SEEN], self.columns.detach()
        columns = columns if columns.dim() == 2 else columns[:ANCHORS_SEEN]
        pairs = partial(_compute_pairs, rows, columns, self.absent, self.form)
        return PairsSeen(pairs, self.strength.weights, self.form)


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
    form: Form | None = None

    @torch.no_grad()
    def figures(self) -> dict[str, float | None]:
        """The fields of `Diagnostics` that knowledge brings."""
        logits, q = self.compute()
        present = logits > -torch.inf
        count = present.sum(1).clamp(min=1)
        strength = self.strength[: len(q)].unsqueeze(1) if isinstance(self.strength, Tensor) else self.strength
        weights = torch.where(present, (1 - strength * q).clamp(min=0.0), 0.0)
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
            "entropy": _entropy(self.form.of_rows) if isinstance(self.form, Membership) else None,
        }


def _entropy(membership: Tensor) -> float:
    """Mean over samples; what is missing to a sum of 1 is the probability of no class that is listed."""
    rest = (1 - membership.sum(-1, keepdim=True)).clamp(min=0.0)
    return float(-torch.special.xlogy(*[torch.cat([membership, rest], -1)] * 2).sum(-1).mean())


def attraction_term(positive: Tensor, sums: Tensor, totals: Tensor, attraction: float) -> Tensor:
    """s+ minus the mean logit of the numerator, in which each attracting sample j has weight attraction a_ij.

    s+ - (s+ + attraction sum_j a_ij s_ij) / (1 + attraction sum_j a_ij)

    Relations: a_ij = [same class] and attraction 1 is the numerator of SupCon (Khosla et al., 2020, "out").
    """
    return attraction * (totals * positive - sums) / (1 + attraction * totals)
