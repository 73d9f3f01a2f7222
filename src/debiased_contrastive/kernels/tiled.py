"""Log-sum-exps of logits that never exist together: computed in tiles, and again in tiles by the backward."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor

from debiased_contrastive.kernels.absent import Absent, tiles
from debiased_contrastive.kernels.weights import MateWeights, PairWeights
from debiased_contrastive.numerics import ReverseMode, first_derivative, without_autocast

Scales: TypeAlias = tuple[float, ...]
Case: TypeAlias = Literal["rows", "both", "self"]

SAFE_EXPONENT = {torch.float32: 40.0, torch.float64: 300.0}
"""Logits within this bound need no shift: e^{2 * 40}, the largest product formed, fits float32."""

LOG2_E = math.log2(math.e)
"""e^x = 2^(x log2 e): in a product of matrices the factor is free, and powers of 2 take a third of the time."""

LARGEST_KEPT_TILE = 2**18
"""Number of logits up to which a tile that is the whole problem is kept for the backward: 1 MiB."""

NO_SECOND_DERIVATIVE = (
    "kernel='tiled' has first derivatives only, a derivative of its gradient was asked for: "
    "use kernel='dense' for gradients of gradients"
)


def log_sum_exp(
    rows: Tensor,
    columns: Tensor | None,
    absent: Absent,
    scales: Scales,
    *,
    bound: float,
    tile: int,
    both: bool = False,
) -> Tensor:
    """log sum_j exp(scale_k rows_i . columns_j) over the present columns, shape (k, a).

    rows (a, d); columns (n, d), shared by all rows, or (a, n, d), each row's own. None: the rows themselves, at
    half the work, since a tile above the diagonal serves both its sides.
    bound: no |rows_i . columns_j| exceeds it; inf where nothing is known, which costs a little time.
    both: the sums over rows for each column stand behind those for each row, so the shape is (k, a + n).
    """
    return _walk_tiles(rows, columns, absent, None, scales, bound=bound, tile=tile, both=both)[0]


def weighted_log_sum_exp(
    rows: Tensor,
    columns: Tensor | None,
    absent: Absent,
    weights: PairWeights | MateWeights,
    scales: Scales,
    *,
    bound: float,
    tile: int,
    both: bool = False,
) -> tuple[Tensor, Tensor]:
    """log sum_j w_ij exp(scale_k rows_i . columns_j), as `log_sum_exp`, and sum_j w_ij, (a,) or (a + n,).

    Without columns, and with `both`, the weights must be symmetric.
    """
    return _walk_tiles(rows, columns, absent, weights, scales, bound=bound, tile=tile, both=both)


def _walk_tiles(
    rows: Tensor,
    columns: Tensor | None,
    absent: Absent,
    weights: PairWeights | MateWeights | None,
    scales: Scales,
    *,
    bound: float,
    tile: int,
    both: bool,
) -> tuple[Tensor, Tensor]:
    case: Case = "self" if columns is None else "both" if both else "rows"
    plan = Plan.of(rows.dtype, absent, weights, scales, case, bound=bound, tile=tile)
    out: tuple[Tensor, Tensor] = _TiledLogSumExp.apply(rows, columns, plan)  # type: ignore[no-untyped-call]
    return out


@dataclass(frozen=True)
class Plan:
    """One walk over the tiles for three cases.

    "rows": a tile adds to the sums of its rows. "both": and to the sums of its columns, which stand
    behind those of the rows. "self": the columns are the rows, tiles below the diagonal are not
    visited, and what a tile adds to its columns goes to the same sums.
    """

    absent: Absent
    weights: PairWeights | MateWeights | None
    scales: Scales
    safe: bool
    """Whether exponentials may be summed as they are; else sums are carried as logarithms."""
    tile: int
    case: Case

    @classmethod
    def of(
        cls,
        dtype: torch.dtype,
        absent: Absent,
        weights: PairWeights | MateWeights | None,
        scales: Scales,
        case: Case,
        *,
        bound: float,
        tile: int,
    ) -> "Plan":
        """For logits within the bound; a tile cuts no block of absent pairs."""
        safe = max(scales) * bound <= SAFE_EXPONENT[dtype]
        return cls(absent, weights, scales, safe, absent.whole_blocks(tile), case)

    def walk(self, rows: Tensor, others: Tensor) -> Iterator[tuple[slice, slice]]:
        """Rows and columns of each tile."""
        for i in tiles(rows.shape[0], self.tile):
            for j in tiles(others.shape[-2], self.tile):
                if self.case != "self" or j.start >= i.start:
                    yield i, j

    def is_symmetric(self, i: slice, j: slice) -> bool:
        """Whether a tile's columns are its rows, so that what it adds to these is all."""
        return self.case == "self" and i == j

    def sides(self, values: Tensor, num_rows: int) -> tuple[Tensor, Tensor | None]:
        """The part of `values` that belongs to the rows, and the part that belongs to the columns."""
        if self.case == "both":
            return values[..., :num_rows], values[..., num_rows:]
        return values, values if self.case == "self" else None

    def scratch(self, rows: Tensor, others: Tensor) -> Tensor:
        """Room for one tile: fresh memory for each would cost as much as its exponentials."""
        return rows.new_empty(min(self.tile, rows.shape[0]) * min(self.tile, others.shape[-2]))

    def keeps(self, rows: Tensor, others: Tensor) -> bool:
        """Whether one small tile is all: computing it again in the backward would save no memory."""
        height, width = rows.shape[0], others.shape[-2]
        return max(height, width) <= self.tile and height * width <= LARGEST_KEPT_TILE

    def terms(
        self, rows: Tensor, others: Tensor, i: slice, j: slice, scratch: Tensor
    ) -> tuple[list[Tensor], Tensor | None]:
        """For each scale the exponentials of a tile, or its logits where those are not safe; and its weights."""
        height, width = i.stop - i.start, j.stop - j.start
        logits = scratch[: height * width].view(height, width)
        unit = LOG2_E if self.safe else 1.0
        if others.dim() == 2:
            torch.addmm(logits, rows[i], others[j].T, beta=0.0, alpha=unit, out=logits)
        else:
            column = logits.unsqueeze(2)
            torch.baddbmm(column, others[i, j], rows[i].unsqueeze(2), beta=0.0, alpha=unit, out=column)
        weights = None
        if self.weights is None:
            self.absent.remove_(logits, i, j)
        else:
            weights = self.absent.remove_(self.weights.tile(i, j), i, j, 0.0)
        scaled = [logits] if self.scales == (1.0,) else [scale * logits for scale in self.scales]
        if self.safe:
            scaled = [exponents.exp2_() for exponents in scaled]
        if weights is not None:
            # Weights of 0 take a term out in both forms.
            scaled = [term.mul_(weights) if self.safe else term.add_(weights.log()) for term in scaled]
        return scaled, weights


class _TiledLogSumExp(ReverseMode):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, columns: Tensor | None, plan: Plan) -> tuple[Tensor, Tensor]:
        out, totals, ctx.kept = sum_tiles(rows, columns, plan)
        # The mask is too large to be copied; to be saved is to be watched for changes.
        ctx.save_for_backward(rows, columns, out, plan.absent.pairs)
        ctx.plan = plan
        ctx.mark_non_differentiable(totals)
        return out, totals

    @staticmethod
    def backward(ctx: Any, grad: Tensor, _of_totals: Tensor) -> tuple[Tensor | None, ...]:
        rows, columns, out, _mask = ctx.saved_tensors
        d_rows, d_columns = gradients_of_tiles(
            rows, columns, out, grad, ctx.plan, ctx.kept, columns_need_grad=ctx.needs_input_grad[1]
        )
        d_rows = first_derivative(d_rows, rows, NO_SECOND_DERIVATIVE)
        if d_columns is not None:
            d_columns = first_derivative(d_columns, columns, NO_SECOND_DERIVATIVE)
        return d_rows, d_columns, None


@torch.no_grad()
def sum_tiles(rows: Tensor, columns: Tensor | None, plan: Plan) -> tuple[Tensor, Tensor, list[Tensor]]:
    """The logarithms of the sums, those of the weights, and what the backward need not compute again."""
    others = rows if columns is None else columns
    length = rows.shape[0] + (others.shape[0] if plan.case == "both" else 0)
    out = rows.new_full((len(plan.scales), length), 0.0 if plan.safe else -math.inf)
    totals = rows.new_zeros(0 if plan.weights is None else length)
    of_rows, of_columns = plan.sides(out, rows.shape[0])
    totals_of_rows, totals_of_columns = plan.sides(totals, rows.shape[0])
    scratch = plan.scratch(rows, others)
    terms: list[Tensor] = []
    with without_autocast(rows.device):
        for i, j in plan.walk(rows, others):
            terms, weights = plan.terms(rows, others, i, j, scratch)
            _accumulate(of_rows[:, i], terms, 1, plan.safe)
            if weights is not None:
                totals_of_rows[i] += weights.sum(1)
            if of_columns is not None and not plan.is_symmetric(i, j):
                _accumulate(of_columns[:, j], terms, 0, plan.safe)
                if weights is not None and totals_of_columns is not None:
                    totals_of_columns[j] += weights.sum(0)
    if plan.safe:
        out.log_()
    return out, totals, terms if plan.keeps(rows, others) else []


def _accumulate(sums: Tensor, terms: list[Tensor], dim: int, safe: bool) -> None:
    """Add a tile's rows (dim 1) or columns (dim 0) to the sums of each scale."""
    for total, of_scale in zip(sums, terms, strict=True):
        if safe:
            total += of_scale.sum(dim)
        else:
            torch.logaddexp(total, torch.logsumexp(of_scale, dim), out=total)


@torch.no_grad()
def gradients_of_tiles(
    rows: Tensor,
    columns: Tensor | None,
    out: Tensor,
    grad: Tensor,
    plan: Plan,
    kept: list[Tensor],
    *,
    columns_need_grad: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Derivatives by rows and columns of what `sum_tiles` returned, from the derivative by the logarithms."""
    others = rows if columns is None else columns
    # A sum over nothing is log 0 and has no gradient; +inf makes each of its terms vanish.
    out = out.nan_to_num(nan=math.nan, posinf=math.inf, neginf=math.inf)
    weights = grad
    if plan.scales != (1.0,):
        weights = torch.stack([scale * of_scale for scale, of_scale in zip(plan.scales, grad, strict=True)])
    if plan.safe:
        weights = weights * torch.exp(-out)
    d_rows = torch.zeros_like(rows)
    d_columns = torch.zeros_like(columns) if columns is not None and columns_need_grad else None
    d_others = d_rows if plan.case == "self" else d_columns
    scratch = rows if kept else plan.scratch(rows, others)
    room = plan.scratch(rows, others)
    with without_autocast(rows.device):
        for i, j in plan.walk(rows, others):
            terms = kept or plan.terms(rows, others, i, j, scratch)[0]
            d_logits = _d_logits(plan, terms, weights, out, rows.shape[0], i, j, room)
            _propagate(d_logits, rows, others, d_rows, None if plan.is_symmetric(i, j) else d_others, i, j)
    return d_rows, d_columns


def _d_logits(
    plan: Plan, terms: list[Tensor], weights: Tensor, out: Tensor, num_rows: int, i: slice, j: slice, room: Tensor
) -> Tensor:
    """Derivative by one tile of logits, in `room`: each term times the weights of its row and its column."""
    total: Tensor | None = None
    for k, of_scale in enumerate(terms):
        of_row, of_column = plan.sides(weights[k], num_rows)
        weight = of_row[i].unsqueeze(1)
        part = room[: of_scale.numel()].view_as(of_scale) if k == 0 else torch.empty_like(of_scale)
        if plan.safe:
            # Not in place in `of_scale`, which may be kept for another backward.
            if of_column is None:
                torch.mul(of_scale, weight, out=part)
            else:
                torch.add(weight, of_column[j], out=part).mul_(of_scale)
        else:
            out_row, out_column = plan.sides(out[k], num_rows)
            torch.sub(of_scale, out_row[i].unsqueeze(1), out=part).exp_().mul_(weight)
            if of_column is not None and out_column is not None:
                part.add_(torch.exp(of_scale - out_column[j]).mul_(of_column[j]))
        total = part if total is None else total.add_(part)
    assert total is not None
    return total


def _propagate(
    d_logits: Tensor,
    rows: Tensor,
    others: Tensor,
    d_rows: Tensor,
    d_others: Tensor | None,
    i: slice,
    j: slice,
) -> None:
    """Add the derivative by a tile of logits to that of the rows and columns whose products they are."""
    if others.dim() == 2:
        d_rows[i].addmm_(d_logits, others[j])
        if d_others is not None:
            d_others[j].addmm_(d_logits.T, rows[i])
    else:
        d_rows[i] += torch.bmm(d_logits.unsqueeze(1), others[i, j]).squeeze(1)
        if d_others is not None:
            torch.mul(d_logits.unsqueeze(2), rows[i].unsqueeze(1), out=d_others[i, j])
