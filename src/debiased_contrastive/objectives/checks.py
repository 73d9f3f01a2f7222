"""Checks of the choices and numbers that objectives take. Settings use them too, so torch is not loaded."""

import math
from numbers import Real
from typing import Literal, TypeAlias, get_args

OnFloor: TypeAlias = Literal["clamp", "biased", "smooth", "cap_tau"]
"""What an anchor does whose estimate is below the floor; see `log_negative_mean`."""
FloorName: TypeAlias = Literal["zero", "bound", "small", "relative", "biased", "cap_tau"]
"""Floor and rule in one word, for scores of any kind; see `Floor.named`."""
RawFloorName: TypeAlias = Literal["zero", "small", "relative", "biased", "cap_tau"]
"""The same for raw products, which nothing bounds from below."""
Reduction: TypeAlias = Literal["mean", "sum", "none"]


def check_choice(name: str, value: object, choices: object) -> None:
    """Raise unless `value` is one of the words that the Literal `choices` lists."""
    words = get_args(choices)
    if value not in words:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, words))}; got {value!r}")


def check_tau_plus(tau_plus: float) -> None:
    """Raise unless the class probability, a plain number, lies in [0, 1)."""
    if not isinstance(tau_plus, Real) or not 0 <= tau_plus < 1:
        raise ValueError(
            f"tau_plus must lie in [0, 1); got {tau_plus!r}: it is the probability that a random sample "
            "has the anchor's class, 0.1 for ten balanced classes"
        )


def check_beta(beta: float) -> None:
    """Raise unless the hard-negative tilt is a finite number >= 0."""
    if not 0 <= beta < math.inf:
        raise ValueError(f"beta must be a finite number >= 0; got {beta!r}: 0 is off, 1 is a usual tilt")
