"""The log-mean-exp of the logits of embeddings: of all at once where they are few, else in tiles."""

import math
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor

from debiased_contrastive.kernels import tiled
from debiased_contrastive.kernels.tiled import Absent

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
) -> tuple[Tensor, float | Tensor]:
    """log of the (tilted) mean of exp(rows_i . columns_j) over the present columns, and their number; both (a,).

    `rows`, `columns`, `bound` and `both` are those of `tiled.log_sum_exp`. With `both` there are as many columns as
    rows, and `absent` must be symmetric: row i is without column j where row j is without column i.
    """
    scales = (1 + beta, beta) if beta else (1.0,)
    tile = _TILE.get(rows.device.type, _GPU_TILE)
    others = rows if columns is None else columns
    # Tiles win as soon as there is more than one of them to a side; below that the two are equal.
    is_small = rows.shape[0] * others.shape[-2] <= tile**2 // 4
    if kernel == "dense" or (kernel == "auto" and is_small):
        sums = dense_log_sum_exp(rows, others, absent, scales, both=both)
    else:
        sums = tiled.log_sum_exp(rows, columns, absent, scales, bound=bound, tile=tile, both=both)
    count = absent.present(rows.shape[0], others.shape[-2], rows.device)
    if not isinstance(count, Tensor):
        return sums[0] - (sums[1] if beta else math.log(count)), float(count)
    n = (count.repeat(2) if both else count).to(sums.dtype)
    # The tilt divides by the sum of its weights, else by the number.
    return sums[0] - (sums[1] if beta else n.log()), n


def dense_log_sum_exp(
    rows: Tensor, columns: Tensor, absent: Absent, scales: tuple[float, ...], *, both: bool = False
) -> Tensor:
    """`tiled.log_sum_exp` of all logits at once: its oracle, and faster on small shapes."""
    logits = masked_logits(rows, columns, absent)
    sums = torch.stack([torch.logsumexp(scale * logits, 1) for scale in scales])
    if not both:
        return sums
    return torch.cat([sums, torch.stack([torch.logsumexp(scale * logits, 0) for scale in scales])], 1)


def masked_logits(rows: Tensor, columns: Tensor, absent: Absent) -> Tensor:
    """(a, n) logits, -inf where a column is absent."""
    shared = columns.dim() == 2
    logits = product(rows, columns) if shared else product(rows.unsqueeze(1), columns).squeeze(1)
    return absent.remove_(logits, slice(0, logits.shape[0]), slice(0, logits.shape[1]))


def product(x: Tensor, y: Tensor) -> Tensor:
    """x y^T over the last two dimensions; autocast has no say in it, forward or backward.

    Autocast can be switched off around a forward, but a backward runs under whatever its caller has on.
    """
    result: Tensor = _Product.apply(x, y)  # type: ignore[no-untyped-call]
    return result


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(x: Tensor, y: Tensor) -> Tensor:
        with torch.autocast(x.device.type, enabled=False):
            return x @ y.mT

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], _output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        x, y = ctx.saved_tensors
        return product(grad, y.mT), product(grad.mT, x.mT)
