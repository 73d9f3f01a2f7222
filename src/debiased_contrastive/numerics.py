"""Numerics that all packages share: the dtype of arithmetic, unit rows, and random numbers by seed and place."""

import hashlib
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor


def working_dtype(*tensors: Tensor) -> torch.dtype:
    """The dtype of all arithmetic: at least float32, float64 where any input has it."""
    widest = torch.float32
    for tensor in tensors:
        widest = torch.promote_types(widest, tensor.dtype)
    return widest


def make_generator(seed: int, *place: int | str) -> torch.Generator:
    """A generator for one place of a run: the same for the same seed and place, unrelated otherwise."""
    return torch.Generator().manual_seed(derive_seed(seed, *place))


def derive_seed(seed: int, *place: int | str) -> int:
    """A seed for one place of a run, as `make_generator`."""
    words = ":".join(map(str, (seed, *place)))
    return int.from_bytes(hashlib.sha256(words.encode()).digest()[:8], "big") >> 1


def without_autocast(device: torch.device) -> AbstractContextManager[None]:
    """No autocast on that device; where it is off, or unknown there, nothing is to be done."""
    # A backward is compiled together with its forward, but runs under whatever its caller has on.
    if torch.amp.is_autocast_available(device.type) and (
        torch.compiler.is_compiling() or torch.is_autocast_enabled(device.type)
    ):
        off: AbstractContextManager[None] = torch.autocast(device.type, enabled=False)
        return off
    return nullcontext()


def are_transforms_active() -> bool:
    """Whether torch.func is at work: grad, vmap, jvp, ..."""
    return bool(torch._C._are_functorch_transforms_active())


def number_like(value: float | Tensor, like: Tensor) -> Tensor:
    """A number, or a tensor, in the dtype and on the device of `like`."""
    if isinstance(value, Tensor):
        return value.to(like)
    # Not as_tensor, which copies from the host, and so waits for the device; nor full, which refuses to overflow.
    return torch.zeros((), dtype=like.dtype, device=like.device).add_(value)


def unit_rows(z: Tensor, length: float = 1.0, *, recorded: bool = False) -> Tensor:
    """Rows of that length, at any scale of the input; a zero row, which has no direction, stays zero.

    recorded: use operations that autograd records, which is slower but allows second derivatives and torch.func. So
    does a graph that is compiled, which has no use for the values on which the faster way depends.
    """
    if recorded or torch.compiler.is_compiling():
        return _normalise(z, length)[0]
    result: Tensor = _UnitRows.apply(z, length)  # type: ignore[no-untyped-call]
    return result


def _normalise(z: Tensor, length: float) -> tuple[Tensor, Tensor]:
    """The rows with that length, and the factor by which they were longer."""
    # The result does not depend on the scale, so the one that keeps squares in range is a constant.
    largest = z.detach().abs().amax(-1, keepdim=True)
    largest = torch.where(largest >= torch.finfo(z.dtype).tiny, largest, 1.0)
    z = z / largest
    squares = z.square().sum(-1, keepdim=True)
    # Selected before the root, whose derivative at 0 is infinite.
    norm = torch.where(squares > 0, squares, 1.0).sqrt() / length
    return z / norm, norm * largest


def normalise(z: Tensor, length: float) -> tuple[Tensor, Tensor]:
    """As `_normalise`, by the plain formula where it loses no digits; autograd must not record it."""
    norm: Tensor = torch.linalg.vector_norm(z, dim=-1, keepdim=True)
    if not _squares_in_range(norm):
        return _normalise(z, length)
    norm /= length
    return z / norm, norm


def gradient_of_normalise(grad: Tensor, result: Tensor, norm: Tensor, length: float) -> Tensor:
    """Derivative by the rows, from the derivative by the rows of that length and what `normalise` returned."""
    radial = (grad * result).sum(-1, keepdim=True)
    return torch.addcmul(grad, result, radial, value=-1 / length**2) / norm


def _squares_in_range(norm: Tensor) -> bool:
    """Whether no norm is so small or so large that its squares lost digits."""
    if norm.device.type != "cpu":
        return False  # To know it is to wait for the device.
    if norm.numel() == 0:
        return True
    margin: float = torch.finfo(norm.dtype).tiny ** 0.4
    shortest, longest = (float(norm) for norm in norm.aminmax())
    return margin < shortest and longest < 1 / margin


class ReverseMode(torch.autograd.Function):
    """A function that has a backward alone, and says so where forward mode is asked for."""

    @staticmethod
    def jvp(_ctx: Any, *_tangents: Tensor | None) -> Any:
        """Raise in one line."""
        raise RuntimeError(
            "kernel='tiled' has derivatives by backward alone, forward mode was asked for: pass kernel='dense', or "
            "use torch.func.jvp, as DebiasedBankLoss needs it"
        )


class _UnitRows(ReverseMode):
    """The plain formula with its derivative in one line: a third of the recorded one's time."""

    @staticmethod
    def forward(ctx: Any, z: Tensor, length: float) -> Tensor:
        result, norm = normalise(z, length)
        ctx.save_for_backward(z, result, norm)
        ctx.length = length
        return result

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        z, result, norm = ctx.saved_tensors
        if torch.is_grad_enabled():  # a second derivative is wanted, so it must be recorded
            result, norm = _normalise(z, ctx.length)
        return gradient_of_normalise(grad, result, norm, ctx.length), None


def first_derivative(gradient: Tensor, inputs: Tensor, message: str) -> Tensor:
    """The gradient unchanged; differentiating it again by `inputs` raises the message."""
    if not torch.is_grad_enabled():
        return gradient
    result: Tensor = _FirstDerivative.apply(gradient, inputs, message)  # type: ignore[no-untyped-call]
    return result


class _FirstDerivative(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, gradient: Tensor, _inputs: Tensor, message: str) -> Tensor:
        ctx.message = message
        return gradient.clone()

    @staticmethod
    def backward(ctx: Any, _grad: Tensor) -> None:
        raise RuntimeError(ctx.message)
