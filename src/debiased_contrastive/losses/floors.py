"""Floors of the estimate where scores are raw products, which nothing bounds from below."""

import math
from typing import Literal, TypeAlias

from torch import Tensor

from debiased_contrastive.objectives.checks import OnFloor

RawFloor: TypeAlias = Literal["zero", "small", "relative", "biased", "cap_tau"]
"""0, as published; e^-10; a share of the unlabeled mean; below 0 the biased loss, or a smaller tau_plus."""
SMALL, RELATIVE = -10.0, 0.05
"""log of the small floor; the relative one as a share of the unlabeled mean."""


def log_floor(floor: RawFloor, log_mean_unlabeled: Tensor) -> Tensor:
    """The logarithm of the smallest value that the estimate may have."""
    if floor == "relative":
        return log_mean_unlabeled + math.log(RELATIVE)
    return log_mean_unlabeled.new_tensor(SMALL if floor == "small" else -math.inf)


def rule_of(floor: RawFloor) -> OnFloor:
    """What the objective does with an estimate below its floor."""
    if floor == "biased":
        return "biased"
    return "cap_tau" if floor == "cap_tau" else "clamp"
