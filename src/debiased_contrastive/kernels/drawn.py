"""Logits against some rows of a bank, each anchor's own, without a copy of those rows for each anchor."""

from collections.abc import Callable
from typing import Any, TypeAlias

import torch
from torch import Tensor

from debiased_contrastive.kernels.mask import tiles
from debiased_contrastive.kernels.product import first_derivative

AT_ONCE = 2**22
"""Numbers that are held at a time: 16 MiB of float32."""
WORTH = 60
"""Products with the whole bank cost about as much as fetching one row in so many: on a CPU, see docs/cmc.md."""

_NO_SECOND_DERIVATIVE = (
    "logits against a bank have first derivatives only, a derivative of their gradient was asked for: use "
    "from_logits on rows that were looked up"
)

_Pass: TypeAlias = Callable[[Tensor, Tensor, Tensor], Tensor]


def drawn_logits(anchors: Tensor, bank: Tensor, places: Tensor) -> Tensor:
    """(a, k) anchors_i . bank[places_ij], of anchors (a, d), bank (n, d) and places (a, k).

    The gradient is that of the anchors alone. It reads the bank again, which must not change before.
    Extra memory: two tensors of the size of the result, and `AT_ONCE` numbers.
    """
    logits: Tensor = _DrawnLogits.apply(anchors, bank, places)  # type: ignore[no-untyped-call]
    return logits


class _DrawnLogits(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, anchors: Tensor, bank: Tensor, places: Tensor) -> Tensor:
        ctx.save_for_backward(anchors, bank, places)
        return _in_parts(_all_products, _own_products, anchors, bank, places, places.shape[1])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        anchors, bank, places = ctx.saved_tensors
        with torch.no_grad():
            d_anchors = _in_parts(_sum_over_all, _sum_over_own, grad, bank, places, bank.shape[1])
        return first_derivative(d_anchors, anchors, _NO_SECOND_DERIVATIVE), None, None


def _in_parts(whole: _Pass, own: _Pass, rows: Tensor, bank: Tensor, places: Tensor, width: int) -> Tensor:
    """(a, width), some rows at a time, by whichever of the two ways is cheaper."""
    n, k = len(bank), places.shape[1]
    is_whole = n <= WORTH * k
    of_a_row = n if is_whole else k * bank.shape[1]
    out = bank.new_empty(len(rows), width)
    with torch.autocast(bank.device.type, enabled=False):
        for part in tiles(len(rows), max(1, AT_ONCE // of_a_row)):
            out[part] = (whole if is_whole else own)(rows[part].to(bank.dtype), bank, places[part])
    return out


def _all_products(anchors: Tensor, bank: Tensor, places: Tensor) -> Tensor:
    return (anchors @ bank.T).gather(1, places)


def _own_products(anchors: Tensor, bank: Tensor, places: Tensor) -> Tensor:
    return (bank[places] @ anchors.unsqueeze(2)).squeeze(2)


def _sum_over_all(grad: Tensor, bank: Tensor, places: Tensor) -> Tensor:
    # A place that was drawn twice has both its gradients.
    return grad.new_zeros(len(grad), len(bank)).scatter_add_(1, places, grad) @ bank


def _sum_over_own(grad: Tensor, bank: Tensor, places: Tensor) -> Tensor:
    return (grad.unsqueeze(1) @ bank[places]).squeeze(1)
