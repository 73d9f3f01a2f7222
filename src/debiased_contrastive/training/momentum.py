"""The slow copy of an encoder that makes the keys of a queue, as in momentum contrast."""

import copy
from typing import TypeVar

import torch
from torch import Tensor, nn

from debiased_contrastive.training.state import state_difference

Module = TypeVar("Module", bound=nn.Module)


def momentum_copy(module: Module) -> Module:
    """A deep copy whose parameters ask for no gradient, in the same training mode."""
    return copy.deepcopy(module).requires_grad_(False)


@torch.no_grad()
def momentum_update_(target: nn.Module, source: nn.Module, momentum: float) -> None:
    """Move `target` towards `source` in place: parameters to momentum * target + (1 - momentum) * source.

    Buffers are copied: a batch norm's statistics are averages already, and its counter is an integer.
    """
    if not 0 <= momentum <= 1:
        raise ValueError(f"momentum must lie in [0, 1]; got {momentum}: 0.99 to 0.999 is usual, 0 copies")
    mine, theirs = _tensors(target), _tensors(source)
    difference = state_difference(mine, theirs)
    if difference:
        raise ValueError(
            f"source must have the target's names and shapes; {difference}: pass the module that "
            "momentum_copy was given, without wrappers such as DistributedDataParallel"
        )
    for name, value in mine.items():
        if isinstance(value, nn.Parameter):
            value.lerp_(theirs[name].to(value), 1 - momentum)
        else:
            value.copy_(theirs[name])


def _tensors(module: nn.Module) -> dict[str, Tensor]:
    """Parameters and buffers by name, also the buffers that a state dict leaves out."""
    return {**dict(module.named_parameters()), **dict(module.named_buffers())}
