"""The log-sum-exps of logits that never exist together: tiles forward, recomputed tiles backward."""

import math
from collections.abc import Iterator
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor

from debiased_contrastive.kernels.absent import Absent, tiles

Scales: TypeAlias = tuple[float, ...]
Case: TypeAlias = Literal["rows", "both", "self"]

SAFE_EXPONENT = {torch.float32: 40.0, torch.float64: 300.0}
"""Logits within this bound need no shift: e^{2 * 40}, the largest product formed, fits float32."""


def log_sum_exp(
    rows: Tensor, columns: Tensor, absent: Absent, scales: Scales, *, bound: float, tile: int
) -> Tensor:
    """log sum_j exp(scale_k rows_i . columns_j) over the present columns, shape (k, a).

    rows (a, d); columns (n, d), shared by all rows, or (a, n, d), each row's own.
    bound: no |rows_i . columns_j| exceeds it; inf where nothing is known, which costs a little time.
    """
    return _apply(rows, columns, absent, scales, bound, tile, "rows")


def log_sum_exp_both(
    rows: Tensor, columns: Tensor, absent: Absent, scales: Scales, *, bound: float, tile: int
) -> tuple[Tensor, Tensor]:
    """Over columns for each row (k, a), and over rows for each column (k, n), from one walk."""
    out = _apply(rows, columns, absent, scales, bound, tile, "both")
    return out[:, : rows.shape[0]], out[:, rows.shape[0] :]


def log_sum_exp_self(rows: Tensor, absent: Absent, scales: Scales, *, bound: float, tile: int) -> Tensor:
    """`log_sum_exp(rows, rows, ...)` at half the work: a tile above the diagonal serves both its sides."""
    return _apply(rows, None, absent, scales, bound, tile, "self")


def _apply(
    rows: Tensor, columns: Tensor | None, absent: Absent, scales: Scales, bound: float, tile: int, case: Case
) -> Tensor:
    tile = absent.whole_blocks(tile)
    safe = max(scales) * bound <= SAFE_EXPONENT[rows.dtype]
    out: Tensor = _TiledLogSumExp.apply(rows, columns, absent, scales, safe, tile, case)  # type: ignore[no-untyped-call]
    return out


class _TiledLogSumExp(torch.autograd.Function):
    """One walk over the tiles for three cases.

    "rows": a tile adds to the sums of its rows. "both": and to the sums of its columns, which stand
    behind those of the rows. "self": the columns are the rows, tiles below the diagonal are not
    visited, and what a tile adds to its columns goes to the same sums. `safe` logits are summed as
    exponentials, others as logarithms.
    """

    @staticmethod
    def forward(
        ctx: Any,
        rows: Tensor,
        columns: Tensor | None,
        absent: Absent,
        scales: Scales,
        safe: bool,
        tile: int,
        case: Case,
    ) -> Tensor:
        others = rows if columns is None else columns
        length = rows.shape[0] + (others.shape[0] if case == "both" else 0)
        out = rows.new_full((len(scales), length), 0.0 if safe else -math.inf)
        of_rows, of_columns = _sides(out, rows.shape[0], case)
        with torch.autocast(rows.device.type, enabled=False):
            for i, j, mirrored in _walk(rows, others, tile, case):
                logits = _logits(rows, others, absent, i, j)
                for k, scale in enumerate(scales):
                    terms = logits if len(scales) == 1 and scale == 1 else scale * logits
                    if safe:
                        terms.exp_()
                    _accumulate(of_rows[k, i], terms, 1, safe)
                    if mirrored and of_columns is not None:
                        _accumulate(of_columns[k, j], terms, 0, safe)
        if safe:
            out.log_()
        ctx.save_for_backward(rows, columns, out)
        ctx.settings = absent, scales, safe, tile, case
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        rows, columns, out = ctx.saved_tensors
        with torch.no_grad(), torch.autocast(rows.device.type, enabled=False):
            d_rows, d_columns = _gradients(rows, columns, out, grad, ctx.needs_input_grad[1], *ctx.settings)
        if torch.is_grad_enabled():
            d_rows = _Once.apply(d_rows, grad, rows)  # type: ignore[no-untyped-call]
            if d_columns is not None:
                d_columns = _Once.apply(d_columns, grad, columns)  # type: ignore[no-untyped-call]
        return d_rows, d_columns, None, None, None, None, None


class _Once(torch.autograd.Function):
    """The identity, with an error in place of a derivative."""

    @staticmethod
    def forward(_ctx: Any, gradient: Tensor, *_inputs: Tensor) -> Tensor:
        return gradient.clone()

    @staticmethod
    def backward(_ctx: Any, _grad: Tensor) -> None:
        raise RuntimeError(
            "kernel='tiled' has first derivatives only, a derivative of its gradient was asked for: "
            "use kernel='dense' for gradients of gradients"
        )


def _gradients(
    rows: Tensor,
    columns: Tensor | None,
    out: Tensor,
    grad: Tensor,
    columns_need_grad: bool,
    absent: Absent,
    scales: Scales,
    safe: bool,
    tile: int,
    case: Case,
) -> tuple[Tensor, Tensor | None]:
    others = rows if columns is None else columns
    # A sum over nothing is log 0 and has no gradient; +inf makes each of its terms vanish.
    out = torch.where(out == -math.inf, math.inf, out)
    grad = grad * grad.new_tensor(scales).unsqueeze(1)
    weights = grad * torch.exp(-out) if safe else grad
    d_rows = torch.zeros_like(rows)
    d_columns = torch.zeros_like(columns) if columns is not None and columns_need_grad else None
    d_others = d_rows if case == "self" else d_columns
    for i, j, mirrored in _walk(rows, others, tile, case):
        logits = _logits(rows, others, absent, i, j)
        total: Tensor | None = None
        for k, scale in enumerate(scales):
            terms = logits if len(scales) == 1 and scale == 1 else scale * logits
            d_logits = _d_logits(terms, _sides(weights[k], rows.shape[0], case), out[k], i, j, safe, case)
            total = d_logits if total is None else total.add_(d_logits)
        assert total is not None
        _propagate(total, rows, others, d_rows, d_others if mirrored else None, i, j)
    return d_rows, d_columns


def _d_logits(
    terms: Tensor,
    weights: tuple[Tensor, Tensor | None],
    out: Tensor,
    i: slice,
    j: slice,
    safe: bool,
    case: Case,
) -> Tensor:
    """Derivative with respect to one tile of logits: row weights and column weights times softmax terms."""
    of_rows = weights[0][i].unsqueeze(1)
    of_columns = None if weights[1] is None else weights[1][j]
    if safe:
        return terms.exp_().mul_(of_rows if of_columns is None else of_rows + of_columns)
    out_rows, out_columns = _sides(out, weights[0].shape[0], case)
    d_logits = torch.exp(terms - out_rows[i].unsqueeze(1)).mul_(of_rows)
    if of_columns is not None and out_columns is not None:
        d_logits.add_(torch.exp(terms - out_columns[j]).mul_(of_columns))
    return d_logits


def _propagate(
    d_logits: Tensor,
    rows: Tensor,
    others: Tensor,
    d_rows: Tensor,
    d_others: Tensor | None,
    i: slice,
    j: slice,
) -> None:
    if others.dim() == 2:
        d_rows[i].addmm_(d_logits, others[j])
        if d_others is not None:
            d_others[j].addmm_(d_logits.T, rows[i])
    else:
        d_rows[i] += torch.bmm(d_logits.unsqueeze(1), others[i, j]).squeeze(1)
        if d_others is not None:
            torch.mul(d_logits.unsqueeze(2), rows[i].unsqueeze(1), out=d_others[i, j])


def _sides(values: Tensor, num_rows: int, case: Case) -> tuple[Tensor, Tensor | None]:
    """The part of `values` that belongs to the rows, and the part that belongs to the columns."""
    if case == "both":
        return values[..., :num_rows], values[..., num_rows:]
    return values, values if case == "self" else None


def _walk(rows: Tensor, others: Tensor, tile: int, case: Case) -> Iterator[tuple[slice, slice, bool]]:
    """Tiles to visit, and whether a tile adds to its columns too: one on the diagonal did so as rows."""
    for i in tiles(rows.shape[0], tile):
        for j in tiles(others.shape[-2], tile):
            if case == "self" and j.start < i.start:
                continue
            yield i, j, not (case == "self" and i == j)


def _logits(rows: Tensor, others: Tensor, absent: Absent, i: slice, j: slice) -> Tensor:
    if others.dim() == 2:
        logits = torch.mm(rows[i], others[j].T)
    else:
        logits = torch.bmm(others[i, j], rows[i].unsqueeze(2)).squeeze(2)
    return absent.remove_(logits, i, j)


def _accumulate(sums: Tensor, terms: Tensor, dim: int, safe: bool) -> None:
    if safe:
        sums += terms.sum(dim)
    else:
        torch.logaddexp(sums, torch.logsumexp(terms, dim), out=sums)
