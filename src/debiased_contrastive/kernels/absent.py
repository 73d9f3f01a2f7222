"""Pairs of rows and columns that do not exist, in tiles: the anchor itself, its class, what a caller excludes."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from debiased_contrastive.numerics import are_transforms_active

Codes = tuple[Tensor, Tensor]
"""One integer per row (a,), and one per column (n,) or per row and column (a, n)."""

_COUNT_TILE = 512


def tiles(length: int, size: int) -> Iterator[slice]:
    """Consecutive slices of at most `size` that cover range(length)."""
    for start in range(0, length, size):
        yield slice(start, min(start + size, length))


@dataclass(frozen=True)
class Absent:
    """Pairs (row, column) to leave out; any of the conditions suffices."""

    block: int = 0
    """Row i and column j are absent where (i + offset) // block == j // block; 0 is off."""
    offset: int = 0
    """Where the rows begin among the columns."""
    same: tuple[Codes, ...] = ()
    """Absent where the two codes are equal (the same label, the same sample id)."""
    differ: tuple[Codes, ...] = ()
    """Absent where the two codes differ."""
    pairs: Tensor | None = None
    """(a, n) bool, absent where True."""

    @property
    def is_symmetric(self) -> bool:
        """Whether row i is without column j where row j is without column i, for rows and columns in one order."""
        return self.pairs is None

    def remove_(self, tile: Tensor, rows: slice, columns: slice, value: float = -math.inf) -> Tensor:
        """Write `value` over what is absent in a tile of these rows and columns: -inf in logits, 0 in weights.

        Rows and columns begin at a multiple of `block`; see `whole_blocks`. Under torch.func the result is a copy.
        """
        if self.block:
            self._remove_blocks(tile, rows, columns, value)
        # One tile cannot hold what is absent in each of several batches.
        fill = torch.Tensor.masked_fill if are_transforms_active() else torch.Tensor.masked_fill_
        for codes in self.same:
            tile = fill(tile, _equal(codes, rows, columns), value)
        for codes in self.differ:
            tile = fill(tile, ~_equal(codes, rows, columns), value)
        if self.pairs is not None:
            tile = fill(tile, self.pairs[rows, columns], value)
        return tile

    def whole_blocks(self, tile: int) -> int:
        """The largest side of a tile, at most `tile`, that cuts no block."""
        return max(tile - tile % self.block, self.block) if self.block else tile

    def present(self, num_rows: int, num_columns: int, device: torch.device) -> int | Tensor:
        """How many columns exist for each row: one number where it is the same for all, else (a,)."""
        if not self.same and not self.differ and self.pairs is None:
            return num_columns - self.block
        is_one_code = len(self.same) == 1 and not self.differ and not self.block and self.pairs is None
        if is_one_code and self.same[0][1].dim() == 1:
            return num_columns - _equal_count(self.same[0])
        if torch.compiler.is_compiling() or are_transforms_active():
            # All pairs exist at once there, and a number of tiles would bind a graph to this very batch size.
            return self._count(slice(0, num_rows), slice(0, num_columns), device)
        count = torch.zeros(num_rows, dtype=torch.int64, device=device)
        tile = self.whole_blocks(_COUNT_TILE)
        for i in tiles(num_rows, tile):
            for j in tiles(num_columns, tile):
                count[i] += self._count(i, j, device)
        return count

    def _count(self, rows: slice, columns: slice, device: torch.device) -> Tensor:
        """How many columns of a tile exist for each of its rows."""
        ones = torch.ones(rows.stop - rows.start, columns.stop - columns.start, device=device)
        return (self.remove_(ones, rows, columns) > 0).sum(1)

    def _remove_blocks(self, tile: Tensor, rows: slice, columns: slice, value: float) -> None:
        # Rows and columns are in the same order, so only where both ranges meet is anything absent:
        # a square whose diagonal consists of blocks.
        start = max(rows.start + self.offset, columns.start)
        stop = min(rows.stop + self.offset, columns.stop)
        if start >= stop:
            return
        first = start - self.offset - rows.start
        square = tile[first : first + stop - start, start - columns.start : stop - columns.start]
        count = (stop - start) // self.block
        blocks = square.view(count, self.block, count, self.block)
        blocks.diagonal(dim1=0, dim2=2).fill_(value)


def _equal(codes: Codes, rows: slice, columns: slice) -> Tensor:
    of_row, of_column = codes
    of_column = of_column[columns] if of_column.dim() == 1 else of_column[rows, columns]
    return of_row[rows].unsqueeze(1) == of_column


def _equal_count(codes: Codes) -> Tensor:
    """(a,) how many columns have the row's code, without looking at pairs."""
    of_row, of_column = codes
    of_column = of_column.sort().values
    of_row = of_row.contiguous()
    return torch.searchsorted(of_column, of_row, right=True) - torch.searchsorted(of_column, of_row)
