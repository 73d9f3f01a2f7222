"""The logits of the samples that are probably of a row's class, summed with their probabilities, in tiles."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product as product_of_sets
from typing import Any

import torch
from torch import Tensor

from debiased_contrastive.kernels.absent import Absent, tiles
from debiased_contrastive.kernels.log_mean import Kernel, is_dense, product, side_of_tile
from debiased_contrastive.kernels.weights import Form
from debiased_contrastive.numerics import ReverseMode, first_derivative, without_autocast

_NO_SECOND_DERIVATIVE = (
    "attraction in tiles has first derivatives only, a derivative of its gradient was asked for: "
    "use kernel='dense' for gradients of gradients"
)


@dataclass(frozen=True)
class Attraction:
    """a_ij = q_ij where it is larger than `above`, else 0, for the present columns j of row i."""

    form: Form
    absent: Absent
    above: float

    def tile(self, rows: slice, columns: slice) -> Tensor:
        """a of a tile, in memory of its own."""
        q = self.absent.remove_(self.form.same_class(rows, columns), rows, columns, 0.0)
        return torch.threshold_(q, self.above, 0.0)


def attracted(rows: Tensor, columns: Tensor, attraction: Attraction, kernel: Kernel) -> tuple[Tensor, Tensor]:
    """sum_j a_ij rows_i . columns_j and sum_j a_ij, both (a,), of rows (a, d) and columns (n, d) or (a, n, d).

    No logits are needed: the sum is the product of a row with the weighted sum of its columns.
    """
    if is_dense(kernel, rows, columns):
        of_pairs = attraction.tile(slice(0, rows.shape[0]), slice(0, columns.shape[-2]))
        totals = of_pairs.sum(1)
        shared = columns.dim() == 2
        pulling = of_pairs if shared else of_pairs.unsqueeze(1)
        sums = product(pulling, columns.mT).view_as(rows)
    else:
        tile = attraction.absent.whole_blocks(side_of_tile(rows))
        sums, totals = _WeightedSums.apply(columns, attraction, tile, rows.shape[0])  # type: ignore[no-untyped-call]
    return (rows * sums).sum(1), totals


class _WeightedSums(ReverseMode):
    """sum_j a_ij columns_j (a, d) and sum_j a_ij (a,); the backward makes the tiles of a again."""

    @staticmethod
    def forward(
        ctx: Any, columns: Tensor, attraction: Attraction, tile: int, num_rows: int
    ) -> tuple[Tensor, Tensor]:
        sums, totals = columns.new_zeros(num_rows, columns.shape[-1]), columns.new_zeros(num_rows)
        with without_autocast(columns.device):
            for i, j in _places(num_rows, columns, tile):
                of_tile = attraction.tile(i, j)
                totals[i] += of_tile.sum(1)
                if columns.dim() == 2:
                    sums[i].addmm_(of_tile, columns[j])
                else:
                    sums[i] += torch.bmm(of_tile.unsqueeze(1), columns[i, j]).squeeze(1)
        ctx.save_for_backward(columns)
        ctx.attraction, ctx.tile = attraction, tile
        ctx.mark_non_differentiable(totals)
        return sums, totals

    @staticmethod
    def backward(ctx: Any, grad: Tensor, _of_totals: Tensor) -> tuple[Tensor, None, None, None]:
        (columns,) = ctx.saved_tensors
        with torch.no_grad(), without_autocast(columns.device):
            d_columns = torch.zeros_like(columns)
            for i, j in _places(len(grad), columns, ctx.tile):
                of_tile = ctx.attraction.tile(i, j)
                if columns.dim() == 2:
                    d_columns[j].addmm_(of_tile.T, grad[i])
                else:
                    torch.mul(of_tile.unsqueeze(2), grad[i].unsqueeze(1), out=d_columns[i, j])
        return first_derivative(d_columns, grad, _NO_SECOND_DERIVATIVE), None, None, None


def _places(num_rows: int, columns: Tensor, tile: int) -> Iterator[tuple[slice, slice]]:
    return product_of_sets(tiles(num_rows, tile), list(tiles(columns.shape[-2], tile)))
