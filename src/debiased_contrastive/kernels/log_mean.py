"""The log-mean-exp of the logits of embeddings: of all at once where they are few, else in tiles."""

import math
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor

from debiased_contrastive.kernels import tiled
from debiased_contrastive.kernels.absent import Absent
from debiased_contrastive.kernels.weights import MateWeights, PairWeights
from debiased_contrastive.numerics import number_like, without_autocast

Kernel: TypeAlias = Literal["auto", "dense", "tiled"]

_TILE = {"cpu": 512}
_GPU_TILE = 4096
"""Side of a tile: 1 MiB of float32 stays in a CPU's cache; a GPU needs more to be busy."""


def log_mean(
    rows: Tensor,
    columns: Tensor | None,
    absent: Absent,
    *,
    beta: float,
    bound: float,
    kernel: Kernel,
    both: bool = False,
    weights: PairWeights | None = None,
) -> tuple[Tensor, float | Tensor]:
    """log of the (tilted) mean of exp(rows_i . columns_j) over the present columns, and their number; both (a,).

    `rows`, `columns`, `bound` and `both` are those of `tiled.log_sum_exp`. With `both` there are as many columns as
    rows, and `absent` must be symmetric: row i is without column j where row j is without column i.
    `weights` make it a weighted mean. A row without any column, or whose every weight is 0, has the number 0 and a
    finite mean.
    """
    if weights is not None:
        return _weighted_log_mean(rows, columns, absent, weights, beta=beta, bound=bound, kernel=kernel, both=both)
    scales = _scales(beta)
    others = rows if columns is None else columns
    if is_dense(kernel, rows, others):
        sums = dense_log_sum_exp(rows, others, absent, scales, both=both)
    else:
        tile = side_of_tile(rows)
        sums = tiled.log_sum_exp(rows, columns, absent, scales, bound=bound, tile=tile, both=both)
    count = absent.present(rows.shape[0], others.shape[-2], rows.device)
    if torch.compiler.is_compiling() or (isinstance(count, int) and not count):
        # A logarithm of Python's would bind the graph to this very batch size, and there is none of 0.
        count = number_like(count, rows).expand(rows.shape[0])
    return _divide(sums, count.repeat(2) if both and isinstance(count, Tensor) else count, beta)


def _divide(sums: Tensor, count: int | Tensor, beta: float) -> tuple[Tensor, float | Tensor]:
    """The log-mean from the logarithms of sums, and the number of their terms: one for all, or (a,)."""
    if not isinstance(count, Tensor):
        return sums[0] - (sums[1] if beta else math.log(count)), float(count)
    n = count.to(sums.dtype)
    is_empty = n == 0
    mean = sums[0] - (sums[1] if beta else torch.where(is_empty, 1.0, n).log())
    # Its weight N = 0 removes whatever stands in an empty row.
    return torch.where(is_empty, 0.0, mean), n


def _weighted_log_mean(
    rows: Tensor,
    columns: Tensor | None,
    absent: Absent,
    weights: PairWeights,
    *,
    beta: float,
    bound: float,
    kernel: Kernel,
    both: bool,
) -> tuple[Tensor, Tensor]:
    if both and not weights.symmetric:
        assert columns is not None
        sides = [
            _weighted_log_mean(*two, absent, weights, beta=beta, bound=bound, kernel=kernel, both=False)
            for two in ((rows, columns), (columns, rows))
        ]
        return torch.cat([mean for mean, _ in sides]), torch.cat([count for _, count in sides])
    scales = _scales(beta)
    others = rows if columns is None else columns
    if is_dense(kernel, rows, others):
        sums, totals = dense_weighted_log_sum_exp(rows, others, absent, weights, scales, both=both)
    else:
        compared = others if not weights.symmetric else columns
        tile = side_of_tile(rows)
        sums, totals = tiled.weighted_log_sum_exp(
            rows, compared, absent, weights, scales, bound=bound, tile=tile, both=both
        )
    is_empty = totals == 0
    mean = sums[0] - (sums[1] if beta else torch.where(is_empty, 1.0, totals).log())
    count = absent.present(rows.shape[0], others.shape[-2], rows.device)
    n = number_like(count, rows).expand(rows.shape[0])
    # Its weight N = 0 removes whatever stands in an empty row.
    return torch.where(is_empty, 0.0, mean), torch.where(is_empty, 0.0, n.repeat(2) if both else n)


def _scales(beta: float) -> tuple[float, ...]:
    """Factors of the logits in the sums that a mean needs: the tilt divides by the sum of its weights."""
    return (1 + beta, beta) if beta else (1.0,)


def weighted_log_sum(
    rows: Tensor, columns: Tensor, absent: Absent, weights: MateWeights, *, bound: float, kernel: Kernel
) -> Tensor:
    """log sum_j w_ij exp(rows_i . columns_j) over the present columns (a,), -inf where every weight is 0."""
    if is_dense(kernel, rows, columns):
        sums, totals = dense_weighted_log_sum_exp(rows, columns, absent, weights, (1.0,))
    else:
        tile = side_of_tile(rows)
        sums, totals = tiled.weighted_log_sum_exp(rows, columns, absent, weights, (1.0,), bound=bound, tile=tile)
    return torch.where(totals == 0, -math.inf, sums[0])


def is_dense(kernel: Kernel, rows: Tensor, columns: Tensor) -> bool:
    """Whether all logits are computed at once: where it is asked for, or they are few."""
    return computes_at_once(kernel, rows.shape[0] * columns.shape[-2], rows)


def computes_at_once(kernel: Kernel, num_logits: int, like: Tensor) -> bool:
    """As `is_dense`, of so many logits on the device of `like`."""
    # Tiles win as soon as there is more than one of them to a side; below that the two are equal.
    is_small = num_logits <= side_of_tile(like) ** 2 // 4
    return kernel == "dense" or (kernel == "auto" and is_small)


def side_of_tile(rows: Tensor) -> int:
    """Number of rows and columns of a tile on the device of these rows."""
    return _TILE.get(rows.device.type, _GPU_TILE)


def dense_weighted_log_sum_exp(
    rows: Tensor,
    columns: Tensor,
    absent: Absent,
    weights: PairWeights | MateWeights,
    scales: tuple[float, ...],
    *,
    both: bool = False,
) -> tuple[Tensor, Tensor]:
    """`tiled.weighted_log_sum_exp` of all logits at once."""
    logits = _products(rows, columns)
    i, j = (slice(0, length) for length in logits.shape)
    of_pairs = absent.remove_(weights.tile(i, j), i, j, 0.0)
    totals = [of_pairs.sum(dim) for dim in ((1, 0) if both else (1,))]
    sums = []
    for dim, total in zip((1, 0), totals, strict=False):
        # A sum over nothing has no derivative; whoever divides by its weight of 0 does not look at it.
        log_weights = of_pairs.log().masked_fill((total == 0).unsqueeze(dim), 0.0)
        sums.append(torch.stack([torch.logsumexp(scale * logits + log_weights, dim) for scale in scales]))
    return torch.cat(sums, 1), torch.cat(totals)


def dense_log_sum_exp(
    rows: Tensor, columns: Tensor, absent: Absent, scales: tuple[float, ...], *, both: bool = False
) -> Tensor:
    """`tiled.log_sum_exp` of all logits at once: its oracle, and faster on small shapes."""
    # Whatever is absent has no gradient, so a sum over nothing has none, too.
    logits = masked_logits(rows, columns, absent)
    dims = (1, 0) if both else (1,)
    return torch.cat([torch.stack([torch.logsumexp(scale * logits, dim) for scale in scales]) for dim in dims], 1)


def masked_logits(rows: Tensor, columns: Tensor, absent: Absent) -> Tensor:
    """(a, n) logits, -inf where a column is absent."""
    logits = _products(rows, columns)
    return absent.remove_(logits, slice(0, logits.shape[0]), slice(0, logits.shape[1]))


def _products(rows: Tensor, columns: Tensor) -> Tensor:
    shared = columns.dim() == 2
    return product(rows, columns) if shared else product(rows.unsqueeze(1), columns).squeeze(1)


def product(x: Tensor, y: Tensor) -> Tensor:
    """x y^T over the last two dimensions; autocast has no say in it, forward or backward.

    Autocast can be switched off around a forward, but a backward runs under whatever its caller has on.
    """
    if torch.compiler.is_compiling():
        # The compiler takes no function with a forward mode, nor one tensor in two places.
        traced: Tensor = _Product.apply(x, y.view_as(y))  # type: ignore[no-untyped-call]
        return traced
    result: Tensor = _ProductWithForwardMode.apply(x, y)  # type: ignore[no-untyped-call]
    return result


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(x: Tensor, y: Tensor) -> Tensor:
        with without_autocast(x.device):
            return x @ y.mT

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], _output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        x, y = ctx.saved_tensors
        return product(grad, y.mT), product(grad.mT, x.mT)


class _ProductWithForwardMode(_Product):
    generate_vmap_rule = True

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], _output: Tensor) -> None:
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def jvp(ctx: Any, d_x: Tensor | None, d_y: Tensor | None) -> Tensor:
        x, y = ctx.saved_tensors
        terms = [product(*two) for two in ((d_x, y), (x, d_y)) if two[0] is not None and two[1] is not None]
        return terms[0] if len(terms) == 1 else terms[0] + terms[1]
