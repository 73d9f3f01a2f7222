"""Logits of anchors against rows of a bank, other rows for each anchor, without a copy of those rows."""

from collections.abc import Callable
from typing import Any, TypeAlias

import torch
from torch import Tensor

from debiased_contrastive.kernels.absent import tiles
from debiased_contrastive.numerics import ReverseMode, are_transforms_active, first_derivative, without_autocast

NUMBERS_AT_ONCE = 2**22
"""Largest number of values held at a time: 16 MiB of float32."""
COST_OF_A_ROW = 60
"""Fetching one row takes as long as the products with so many rows: on a CPU, see docs/cmc.md."""

_NO_SECOND_DERIVATIVE = (
    "logits against a bank have first derivatives only, a derivative of their gradient was asked for: use "
    "from_logits on rows that were looked up"
)

_Pass: TypeAlias = Callable[[Tensor, Tensor, Tensor], Tensor]


def bank_logits(anchors: Tensor, bank: Tensor, places: Tensor) -> Tensor:
    """(a, k) anchors_i . bank[places_ij], of anchors (a, d), bank (n, d) and places (a, k).

    The gradient is that of the anchors alone. It reads the bank again, which must not change before.
    Extra memory: two tensors of the size of the result, and `NUMBERS_AT_ONCE` numbers; a compiled graph, and
    torch.func, have it all at once.
    """
    if torch.compiler.is_compiling() or are_transforms_active():
        return (_all_products if _is_whole(bank, places) else _own_products)(anchors.to(bank.dtype), bank, places)
    logits: Tensor = _BankLogits.apply(anchors, bank, places)  # type: ignore[no-untyped-call]
    return logits


class _BankLogits(ReverseMode):
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
    """(a, width), computed for some rows at a time by the cheaper of the two ways: whole bank, or own rows."""
    is_whole = _is_whole(bank, places)
    numbers_of_a_row = len(bank) if is_whole else places.shape[1] * bank.shape[1]
    out = bank.new_empty(len(rows), width)
    with without_autocast(bank.device):
        for part in tiles(len(rows), max(1, NUMBERS_AT_ONCE // numbers_of_a_row)):
            out[part] = (whole if is_whole else own)(rows[part].to(bank.dtype), bank, places[part])
    return out


def _is_whole(bank: Tensor, places: Tensor) -> bool:
    """Whether products with the whole bank are cheaper than fetching the rows at these places."""
    return len(bank) <= COST_OF_A_ROW * places.shape[1]


def _all_products(anchors: Tensor, bank: Tensor, places: Tensor) -> Tensor:
    return (anchors @ bank.T).gather(1, places)


def _own_products(anchors: Tensor, bank: Tensor, places: Tensor) -> Tensor:
    return (bank[places] @ anchors.unsqueeze(2)).squeeze(2)


def _sum_over_all(grad: Tensor, bank: Tensor, places: Tensor) -> Tensor:
    # A place that was drawn twice has both its gradients.
    return grad.new_zeros(len(grad), len(bank)).scatter_add_(1, places, grad) @ bank


def _sum_over_own(grad: Tensor, bank: Tensor, places: Tensor) -> Tensor:
    return (grad.unsqueeze(1) @ bank[places]).squeeze(1)
