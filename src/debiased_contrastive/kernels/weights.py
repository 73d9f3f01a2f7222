"""Weights of pairs: how surely a column is a true negative of a row, from what is known about their classes."""

from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor

from debiased_contrastive.numerics import are_transforms_active


@dataclass(frozen=True)
class Membership:
    """q_ij = P_i . P_j: the probability that two samples share a class, from those of the classes of each."""

    of_rows: Tensor
    """(a, k)."""
    of_columns: Tensor
    """(n, k), or (a, n, k) where each row has columns of its own."""

    def same_class(self, rows: slice, columns: slice) -> Tensor:
        """q of a tile."""
        if self.of_columns.dim() == 2:
            return self.of_rows[rows] @ self.of_columns[columns].T
        return (self.of_columns[rows, columns] @ self.of_rows[rows].unsqueeze(2)).squeeze(2)

    def first(self, count: int) -> "Membership":
        """That of the first rows alone."""
        columns = self.of_columns if self.of_columns.dim() == 2 else self.of_columns[:count].clone()
        return Membership(self.of_rows[:count].clone(), columns)


@dataclass(frozen=True)
class Partitions:
    """q_ij = share of the codes that are equal: clusterings, groups, ids."""

    of_rows: Tensor
    """(B, a) whole numbers, -1 for unknown."""
    of_columns: Tensor
    """(B, n), or (B, a, n) where each row has columns of its own; -2 for unknown, which is equal to nothing."""
    dtype: torch.dtype
    """Of the result."""

    @classmethod
    def of(cls, rows: Tensor, columns: Tensor, dtype: torch.dtype) -> "Partitions":
        """From codes (a, B) and (n, B) or (a, n, B), in which every negative number is unknown."""
        rows, columns = rows.movedim(-1, 0), columns.movedim(-1, 0).contiguous()
        own = (rows if columns.dim() == 2 else rows.unsqueeze(-1)).contiguous()
        # A code becomes its place among the sorted codes of the columns: that fits into fewer bytes, and comparing
        # is bound by memory. Distinct codes are not counted, since that would wait for the device.
        found = columns.sort(-1).values
        places = torch.searchsorted(found, own).clamp(max=found.shape[-1] - 1)
        is_found = found.gather(-1, places) == own
        small = torch.int16 if found.shape[-1] <= 2**15 else torch.int32
        of_rows = places.masked_fill(~is_found | (own < 0), -1).view_as(rows).to(small)
        of_columns = torch.searchsorted(found, columns).masked_fill(columns < 0, -2).to(small)
        return cls(of_rows, of_columns, dtype)

    def same_class(self, rows: slice, columns: slice) -> Tensor:
        """q of a tile."""
        of_rows = self.of_rows[:, rows].unsqueeze(2)
        of_columns = self.of_columns[..., columns]
        of_columns = of_columns if of_columns.dim() == 2 else of_columns[:, rows]
        if are_transforms_active():  # Several batches at once cannot write into given memory.
            return (of_rows == of_columns.view(len(of_rows), -1, of_columns.shape[-1])).to(self.dtype).mean(0)
        # Comparing into the type of the codes is ten times as fast as into booleans.
        equal = of_rows.new_empty(of_rows.shape[1], of_columns.shape[-1])
        count = torch.zeros_like(equal)
        for own, of_column in zip(of_rows, of_columns, strict=True):
            count += torch.eq(own, of_column, out=equal)
        return count.to(self.dtype).div_(len(of_rows))

    def first(self, count: int) -> "Partitions":
        """Those of the first rows alone."""
        columns = self.of_columns if self.of_columns.dim() == 2 else self.of_columns[:, :count].clone()
        return Partitions(self.of_rows[:, :count].clone(), columns, self.dtype)


@dataclass(frozen=True)
class GivenWeights:
    """q_ij = 1 - w_ij, with weights that somebody else made."""

    weights: Tensor
    """(a / repeats, n / repeats)."""
    repeats: int = 1
    """Number of consecutive rows, and of columns, that share a weight, as views of one input do."""

    def same_class(self, rows: slice, columns: slice) -> Tensor:
        """q of a tile, which begins and ends with all the rows and columns of an input."""
        r = self.repeats
        q = 1 - self.weights[rows.start // r : rows.stop // r, columns.start // r : columns.stop // r]
        return q if r == 1 else q.repeat_interleave(r, 0).repeat_interleave(r, 1)

    def first(self, count: int) -> "GivenWeights":
        """Those of the first rows alone, as many as a multiple of the repeats."""
        return GivenWeights(self.weights[: count // self.repeats].clone(), self.repeats)


Form: TypeAlias = Membership | Partitions | GivenWeights


def negative_weights_(q: Tensor, strength: float | Tensor) -> Tensor:
    """max(0, 1 - strength_i q_ij) of q (a, n), in its memory; strength is one number, or one for each row (a,)."""
    factor = strength.unsqueeze(1) if isinstance(strength, Tensor) else strength
    return q.mul_(-factor).add_(1.0).clamp_min_(0.0)


@dataclass(frozen=True)
class PairWeights:
    """w_ij = max(0, 1 - strength_i q_ij), constants for gradients.

    Relations: q_ij = [same class] with strength 1 leaves out the samples of the row's class, as labels do; strength
    0, or a q that is the same for all columns, is the plain mean.
    """

    form: Form
    strength: float | Tensor = 1.0
    """One number, or one for each row (a,)."""

    @property
    def symmetric(self) -> bool:
        """Whether w_ij = w_ji, so that a tile serves its columns as rows too."""
        return not isinstance(self.form, GivenWeights) and not isinstance(self.strength, Tensor)

    def tile(self, rows: slice, columns: slice) -> Tensor:
        """The weights of a tile, in memory of their own."""
        strength = self.strength[rows] if isinstance(self.strength, Tensor) else self.strength
        return negative_weights_(self.form.same_class(rows, columns), strength)


@dataclass(frozen=True)
class MateWeights:
    """What the mates of a row lack in the denominator of its loss: max(0, attraction a_ij - w_ij).

    a_ij is q_ij where it is larger than `above`, else 0: the weight of a mate in the numerator. Its weight in the
    denominator is w_ij as a negative, and must not be less, or else the own positive would be pushed away.
    """

    negatives: PairWeights
    attraction: float
    above: float

    @property
    def symmetric(self) -> bool:
        """Whether it is the same for i, j and j, i."""
        return self.negatives.symmetric

    def tile(self, rows: slice, columns: slice) -> Tensor:
        """The weights of a tile, in memory of their own."""
        mates = torch.threshold_(self.negatives.form.same_class(rows, columns), self.above, 0.0)
        return mates.mul_(self.attraction).sub_(self.negatives.tile(rows, columns)).clamp_min_(0.0)
