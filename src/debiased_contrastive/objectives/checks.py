"""The settings that every objective takes, checked once, at the public edge."""

import math
from numbers import Real
from typing import Literal, TypeAlias, get_args

from torch import Tensor

OnFloor: TypeAlias = Literal["clamp", "biased", "smooth", "cap_tau"]
Reduction: TypeAlias = Literal["mean", "sum", "none"]


def check_tensor(name: str, value: object) -> None:
    """Raise unless `value` is a tensor."""
    if not isinstance(value, Tensor):
        raise ValueError(
            f"{name} must be a torch.Tensor; got {type(value).__name__}: convert it with torch.as_tensor, or "
            "pass its .embeddings if it is a queue or a bank"
        )


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
    elif not isinstance(tau_plus, Real) or not 0 <= tau_plus < 1:
        raise ValueError(
            f"tau_plus must lie in [0, 1); got {tau_plus!r}: it is the probability that a random sample "
            "has the anchor's class, 0.1 for ten balanced classes"
        )


def check_beta(beta: float) -> None:
    """Raise unless the hard-negative tilt is a finite number >= 0."""
    if not 0 <= beta < math.inf:
        raise ValueError(f"beta must be a finite number >= 0; got {beta!r}: 0 is off, 1 is a usual tilt")


def per_anchor_tau_plus(tau_plus: float | Tensor, like: Tensor, letter: str = "a") -> float | Tensor:
    """tau_plus, checked, in the dtype of `like` (a,); a tensor must hold one value or one for each."""
    if isinstance(tau_plus, Tensor):
        if tau_plus.dim() > 0 and tau_plus.shape != like.shape:
            raise ValueError(
                f"tau_plus must be one number or have shape ({letter},) = {tuple(like.shape)}; got shape "
                f"{tuple(tau_plus.shape)}: give each its own class's probability"
            )
        if tau_plus.is_floating_point():
            # Checked after the cast, which may round up to 1.
            tau_plus = tau_plus.detach().to(like)
    check_tau_plus(tau_plus)
    return tau_plus if isinstance(tau_plus, Tensor) else float(tau_plus)
