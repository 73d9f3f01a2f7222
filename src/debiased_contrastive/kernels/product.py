"""Matrix products at full precision, and gradients that have no gradient."""

from typing import Any

import torch
from torch import Tensor


def product(x: Tensor, y: Tensor) -> Tensor:
    """x y^T over the last two dimensions; autocast has no say in it, forward or backward.

    Autocast can be switched off around a forward, but a backward runs under whatever its caller has on.
    """
    result: Tensor = _Product.apply(x, y)  # type: ignore[no-untyped-call]
    return result


def first_derivative(gradient: Tensor, inputs: Tensor, message: str) -> Tensor:
    """The gradient itself; whoever differentiates it by what it depends on gets the message."""
    if not torch.is_grad_enabled():
        return gradient
    result: Tensor = _Once.apply(gradient, inputs, message)  # type: ignore[no-untyped-call]
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


class _Once(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, gradient: Tensor, _inputs: Tensor, message: str) -> Tensor:
        ctx.message = message
        return gradient.clone()

    @staticmethod
    def backward(ctx: Any, _grad: Tensor) -> None:
        raise RuntimeError(ctx.message)
