"""Which samples a step sees, and with which random numbers: functions of seed and step, so nothing to save."""

from functools import lru_cache
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from debiased_contrastive.numerics import generator_of

Order: TypeAlias = Literal["epochs", "drawn"]
"""Each sample once in an epoch, or every batch drawn anew."""


def steps_per_epoch(num_samples: int, batch: int) -> int:
    """Number of whole batches in one pass over the data; the rest of it is dropped."""
    if not 2 <= batch <= num_samples:
        raise ValueError(
            f"batch must lie between 2 and the number of samples, {num_samples}; got {batch}: a batch needs "
            "other inputs, and at least one must be whole"
        )
    return num_samples // batch


def indices_of(step: int, num_samples: int, batch: int, seed: int, order: Order = "epochs") -> Tensor:
    """(batch,) the samples of a step, all different.

    epochs: each is a fresh permutation, cut into whole batches. drawn: a batch does not depend on the others, so
    that nothing tells which samples come next.
    """
    epoch, place = divmod(step, steps_per_epoch(num_samples, batch))
    if order == "drawn":
        return torch.randperm(num_samples, generator=generator_of(seed, "batch", step))[:batch]
    return _order(epoch, num_samples, seed)[place * batch : (place + 1) * batch].clone()


# Two, since a prefetching reader is ahead of the one that trains.
@lru_cache(maxsize=2)
def _order(epoch: int, num_samples: int, seed: int) -> Tensor:
    return torch.randperm(num_samples, generator=generator_of(seed, "order", epoch))
