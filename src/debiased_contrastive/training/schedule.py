"""Learning rates as functions of the step, so that a resumed run has nothing to restore."""

import math
from collections.abc import Callable
from typing import Literal, TypeAlias

Schedule: TypeAlias = Literal["constant", "cosine", "steps"]


def learning_rate(schedule: Schedule, base: float, *, steps: int, warm_up: int = 0) -> Callable[[int], float]:
    """The rate of each step of a training of that many: linear up to `base`, then constant, cosine to 0, or steps.

    steps: a tenth from the middle on, and of that from 2/3 and from 5/6 of all steps on.

    >>> rate = learning_rate("cosine", 1.0, steps=5, warm_up=1)
    >>> [round(rate(step), 2) for step in range(5)]
    [1.0, 1.0, 0.85, 0.5, 0.15]
    """

    def rate(step: int) -> float:
        if step < warm_up:
            return base * (step + 1) / warm_up
        if schedule == "constant":
            return base
        if schedule == "steps":
            return base * 0.1 ** sum(step >= share * steps for share in (1 / 2, 2 / 3, 5 / 6))
        return base * (1 + math.cos(math.pi * (step - warm_up) / max(1, steps - warm_up))) / 2

    return rate
