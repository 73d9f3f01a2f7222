"""From two views of a batch to the sums over the views of other inputs: one node of the graph, not eight.

The arithmetic is that of `normalise`, `tiled` and a product of rows. With a few hundred pairs, what autograd does
between these steps shows in the time.
"""

from typing import Any

import torch
from torch import Tensor

from debiased_contrastive.kernels.tiled import NO_SECOND_DERIVATIVE, Plan, gradients_of_tiles, sum_tiles
from debiased_contrastive.numerics import first_derivative, gradient_of_normalise, normalise


def log_sums_of_views(z0: Tensor, z1: Tensor, plan: Plan, *, length: float) -> tuple[Tensor, Tensor]:
    """The logit of each anchor's other view (2b,), and the logarithms of the sums of tiles (k, 2b).

    Anchors are views 0 and 1 of the first input, then of the second, ..., as rows of that length.
    """
    positive, out = _TwoViews.apply(z0, z1, plan, length)  # type: ignore[no-untyped-call]
    return positive, out


class _TwoViews(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z0: Tensor, z1: Tensor, plan: Plan, length: float) -> tuple[Tensor, Tensor]:
        unit, norm = normalise(torch.stack([z0, z1], 1), length)
        out, _, ctx.kept = sum_tiles(unit.flatten(0, 1), None, plan)
        ctx.save_for_backward(z0, z1, unit, norm, out)
        ctx.plan, ctx.length = plan, length
        return (unit[:, 0] * unit[:, 1]).sum(-1).repeat_interleave(2), out

    @staticmethod
    def backward(ctx: Any, d_positive: Tensor, d_out: Tensor) -> tuple[Tensor | None, ...]:
        z0, z1, unit, norm, out = ctx.saved_tensors
        d_rows, _ = gradients_of_tiles(unit.flatten(0, 1), None, out, d_out, ctx.plan, ctx.kept)
        # Both anchors of an input have the same positive logit.
        d_product = d_positive.view(-1, 2, 1).sum(1, keepdim=True)
        d_unit = d_rows.view_as(unit).addcmul_(d_product, unit.flip(1))
        d_z = gradient_of_normalise(d_unit, unit, norm, ctx.length).unbind(1)
        views = zip(d_z, (z0, z1), strict=True)
        return *(first_derivative(d_view, z, NO_SECOND_DERIVATIVE) for d_view, z in views), None, None
