"""Embeddings in, the log-mean-exp of the unlabeled logits out: one door to both kernels."""

import math
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from debiased_contrastive.kernels import dense, tiled
from debiased_contrastive.kernels.mask import Absent

Kernel: TypeAlias = Literal["auto", "dense", "tiled"]

_TILE = {"cpu": 512}
_GPU_TILE = 4096
"""Side of a tile: 1 MiB of float32 stays in a CPU's cache; a GPU needs more to be busy."""


def log_mean(
    rows: Tensor, columns: Tensor, absent: Absent, *, beta: float, bound: float, kernel: Kernel
) -> tuple[Tensor, float | Tensor]:
    """log of the (tilted) mean of exp(rows_i . columns_j) over the present columns, and their number.

    rows (a, d); columns (n, d) or (a, n, d); both results (a,). bound: largest |logit| possible.
    """
    tile, scales = _tile(rows), _scales(beta)
    if _is_dense(kernel, rows, columns):
        sums = dense.log_sum_exp(rows, columns, absent, scales)
    else:
        sums = tiled.log_sum_exp(rows, columns, absent, scales, bound=bound, tile=tile)
    return _mean(sums, absent.present(rows.shape[0], columns.shape[-2], rows.device))


def log_mean_self(
    rows: Tensor, absent: Absent, *, beta: float, bound: float, kernel: Kernel
) -> tuple[Tensor, float | Tensor]:
    """`log_mean(rows, rows, ...)`, with half the work where tiles are used."""
    tile, scales = _tile(rows), _scales(beta)
    if _is_dense(kernel, rows, rows):
        sums = dense.log_sum_exp(rows, rows, absent, scales)
    else:
        sums = tiled.log_sum_exp_self(rows, absent, scales, bound=bound, tile=tile)
    return _mean(sums, absent.present(rows.shape[0], rows.shape[0], rows.device))


def log_mean_both(
    rows: Tensor, columns: Tensor, absent: Absent, *, beta: float, bound: float, kernel: Kernel
) -> tuple[Tensor, float | Tensor]:
    """For each row over the columns, then for each column over the rows: (2a,), n = a.

    `absent` must be symmetric: row i has no column j where row j has no column i.
    """
    tile, scales = _tile(rows), _scales(beta)
    if _is_dense(kernel, rows, columns):
        sums = dense.log_sum_exp_both(rows, columns, absent, scales)
    else:
        sums = tiled.log_sum_exp_both(rows, columns, absent, scales, bound=bound, tile=tile)
    count = absent.present(rows.shape[0], columns.shape[0], rows.device)
    return _mean(torch.cat(sums, 1), count.repeat(2) if isinstance(count, Tensor) else count)


def _scales(beta: float) -> tuple[float, ...]:
    return (1 + beta, beta) if beta else (1.0,)


def _mean(sums: Tensor, count: int | Tensor) -> tuple[Tensor, float | Tensor]:
    """From log-sum-exps at the scales (k, a): the tilt divides by the sum of its weights, else by count."""
    n = count.to(sums.dtype) if isinstance(count, Tensor) else float(count)
    if len(sums) == 2:
        return sums[0] - sums[1], n
    return sums[0] - (n.log() if isinstance(n, Tensor) else math.log(n)), n


def _tile(rows: Tensor) -> int:
    return _TILE.get(rows.device.type, _GPU_TILE)


def _is_dense(kernel: Kernel, rows: Tensor, columns: Tensor) -> bool:
    """Tiles win as soon as there is more than one of them to a side; below that the two are equal."""
    if kernel != "auto":
        return kernel == "dense"
    return rows.shape[0] * columns.shape[-2] <= _tile(rows) ** 2 // 4
