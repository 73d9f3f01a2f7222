"""From two views of a small batch to their losses: one node of the graph, not twenty, and one tile.

With a few hundred pairs, steps between the products cost as much as these: here is what is left of them.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

import torch
from torch import Tensor

from debiased_contrastive.kernels.tiled import LOG2_E, NO_SECOND_DERIVATIVE, SAFE_EXPONENT
from debiased_contrastive.numerics import (
    ReverseMode,
    first_derivative,
    gradient_of_normalise,
    normalise,
    without_autocast,
)

Sloped: TypeAlias = Callable[[Tensor, Tensor], tuple[Tensor, Tensor, Tensor]]
"""From e^{s+} and the sums of e^u (2b,) to the losses, and their derivatives by s+ and by the sums."""

LARGEST_TILE = 2**20
"""Number of logits up to which one tile, kept for the backward, is the fastest: 4 MiB."""


def fits_one_tile(pairs: int, dtype: torch.dtype, bound: float) -> bool:
    """Whether `losses_of_views` is for so many pairs, of that dtype, whose logits are within the bound."""
    return (2 * pairs) ** 2 <= LARGEST_TILE and bound <= SAFE_EXPONENT[dtype]


def losses_of_views(
    z0: Tensor, z1: Tensor, sloped: Sloped, *, length: float, mean: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """The losses (2b,) or their mean, and what `sloped` made them of, without a graph.

    Anchors are the rows of view 0, then those of view 1, scaled to that length. The positive of an anchor is the
    other view of its input; the sum of exponentials is over the views of all others.
    """
    losses, positive, sums = _LossesOfViews.apply(z0, z1, sloped, length, mean)  # type: ignore[no-untyped-call]
    return losses, positive, sums


class _LossesOfViews(ReverseMode):
    @staticmethod
    def forward(
        ctx: Any, z0: Tensor, z1: Tensor, sloped: Sloped, length: float, mean: bool
    ) -> tuple[Tensor, Tensor, Tensor]:
        unit, norm = normalise(torch.stack([z0, z1]), length)
        rows, b = unit.flatten(0, 1), len(z0)
        # As in `Plan.terms`: powers of 2, whose factor is free in a product of matrices.
        tile = torch.addmm(rows.new_empty(()), rows, rows.T, beta=0.0, alpha=LOG2_E).exp2_()
        own = tile.view(2, b, 2, b).diagonal(dim1=1, dim2=3)
        positive = torch.cat([own[0, 1], own[1, 0]])
        own.zero_()
        sums = tile.sum(1)
        losses, by_positive, by_sum = sloped(positive, sums)
        # Only a second derivative asks for the views themselves; one that needs none may be of inference mode.
        views = (z if needed else None for z, needed in zip((z0, z1), ctx.needs_input_grad, strict=False))
        ctx.save_for_backward(*views, unit, norm, tile, by_positive, by_sum)
        ctx.length, ctx.share = length, 1 / len(losses) if mean else 1.0
        ctx.mark_non_differentiable(positive, sums)
        return losses.mean() if mean else losses, positive, sums

    @staticmethod
    def backward(ctx: Any, grad: Tensor, *_of_parts: Tensor) -> tuple[Tensor | None, ...]:
        z0, z1, unit, norm, tile, by_positive, by_sum = ctx.saved_tensors
        grad = grad * ctx.share
        # A logit is in the sums of its row and of its column.
        weights = grad * by_sum
        d_logits = torch.add(weights.unsqueeze(1), weights).mul_(tile)
        # Both anchors of an input have the same positive, which is in no sum.
        d_positive = (grad * by_positive).view(2, -1).sum(0)
        b = unit.shape[1]
        for other in (-b, b):
            d_logits.diagonal(other).copy_(d_positive)
        with without_autocast(unit.device):
            d_unit = torch.mm(d_logits, unit.flatten(0, 1)).view_as(unit)
        d_z = gradient_of_normalise(d_unit, unit, norm, ctx.length)
        views = (
            None if z is None else first_derivative(d_view, z, NO_SECOND_DERIVATIVE)
            for d_view, z in zip(d_z, (z0, z1), strict=True)
        )
        return *views, None, None, None
