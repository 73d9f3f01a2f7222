"""The settings that every objective takes, checked once, at the public edge."""

import math
from typing import Literal, TypeAlias, get_args

import torch
from torch import Tensor

OnFloor: TypeAlias = Literal["clamp", "biased", "smooth", "cap_tau"]
Reduction: TypeAlias = Literal["mean", "sum", "none"]


def check_choice(name: str, value: object, choices: object) -> None:
    """Raise unless `value` is one of the words that the Literal `choices` lists."""
    words = get_args(choices)
    if value not in words:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, words))}; got {value!r}")


def check_tau_plus(tau_plus: float | Tensor) -> None:
    """Raise unless every class probability lies in [0, 1)."""
    if isinstance(tau_plus, Tensor):
        if not tau_plus.is_floating_point():
            raise ValueError(
                f"tau_plus must be a float or a floating-point tensor; got dtype {tau_plus.dtype}: "
                "convert it with .float()"
            )
        inside = (tau_plus >= 0) & (tau_plus < 1)
        if not bool(inside.all()):
            raise ValueError(
                f"tau_plus must lie in [0, 1) for every anchor; got {int((~inside).sum())} of "
                f"{tau_plus.numel()} outside: each value is the probability of that anchor's own class"
            )
    elif not 0 <= tau_plus < 1:
        raise ValueError(
            f"tau_plus must lie in [0, 1); got {tau_plus!r}: it is the probability that a random sample "
            "has the anchor's class, 0.1 for ten balanced classes"
        )


def check_beta(beta: float) -> None:
    """Raise unless the hard-negative tilt is a finite number >= 0."""
    if not 0 <= beta < math.inf:
        raise ValueError(f"beta must be a finite number >= 0 (0 is off); got {beta!r}")


def per_anchor_tau_plus(tau_plus: float | Tensor, like: Tensor) -> float | Tensor:
    """tau_plus in the working dtype; a tensor must hold one value for each anchor of `like` (a,)."""
    if not isinstance(tau_plus, Tensor):
        return float(tau_plus)
    if tau_plus.dim() > 0 and tau_plus.shape != like.shape:
        raise ValueError(
            f"tau_plus must be one number or have one value per anchor, shape {tuple(like.shape)}; "
            f"got shape {tuple(tau_plus.shape)}"
        )
    return tau_plus.detach().to(like)


def working_dtype(*tensors: Tensor) -> torch.dtype:
    """The dtype of all arithmetic: at least float32, float64 where any input has it."""
    widest = torch.float32
    for tensor in tensors:
        widest = torch.promote_types(widest, tensor.dtype)
    return widest
