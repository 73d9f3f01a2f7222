"""When a loss looks at values: a look waits for the device, so most calls make none."""

import math
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor

from debiased_contrastive.numerics import are_transforms_active

Checks: TypeAlias = Literal["always", "first", "never"]

_PENDING = 2
"""What stands in a flag whose value is still on its way from the device."""


class Calls:
    """Counts the calls of a loss that came to a result, and says which calls look at values.

    With "first" these are the calls 1, 10, 100, ..., and the one after a result that was not finite. That result is
    returned as it is: a GradScaler skips its step, and goes on if the next one is sound.
    """

    def __init__(self) -> None:
        self.number = 1
        """Of the present call, or the next one."""
        self._last_was_finite: Tensor | bool | None = None

    def __getstate__(self) -> dict[str, Any]:
        """A copy waits for no device."""
        return {"number": self.number, "_last_was_finite": None}

    @property
    def is_round(self) -> bool:
        """Whether this is call 1, 10, 100, ..."""
        return str(self.number).rstrip("0") == "1"

    def begin(self, checks: Checks) -> bool:
        """Whether this call looks at values."""
        if checks != "first" or not _have_values():
            return checks == "always"
        return self.is_round or self._arrived() == 0

    def end(self, checks: Checks, result: Tensor) -> None:
        """Count the call, and have a look at its result whenever it is there, without waiting for it."""
        if not _have_values():
            return
        self.number += 1
        if checks != "first" or self._arrived() == _PENDING:
            return
        total = result.detach() if result.dim() == 0 else result.detach().sum()
        if result.device.type == "cpu":
            self._last_was_finite = math.isfinite(total)
        elif result.is_cuda and not torch.cuda.is_current_stream_capturing():
            # A copy to pinned memory returns at once; what stands there until it is done says so.
            flag = torch.full((), _PENDING, dtype=torch.uint8, pin_memory=True)
            self._last_was_finite = flag.copy_(total.isfinite(), non_blocking=True)

    def _arrived(self) -> int | None:
        return None if self._last_was_finite is None else int(self._last_was_finite)


def _have_values() -> bool:
    """Whether tensors have numbers now: not while a graph is compiled, nor under torch.func."""
    return not torch.compiler.is_compiling() and not are_transforms_active()
