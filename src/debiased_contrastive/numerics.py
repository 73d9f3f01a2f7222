"""Numbers that every room agrees on: the dtype of arithmetic, and random numbers that depend on seed and place."""

import hashlib

import torch
from torch import Tensor


def working_dtype(*tensors: Tensor) -> torch.dtype:
    """The dtype of all arithmetic: at least float32, float64 where any input has it."""
    widest = torch.float32
    for tensor in tensors:
        widest = torch.promote_types(widest, tensor.dtype)
    return widest


def generator_of(seed: int, *place: int | str) -> torch.Generator:
    """A generator for one place of a run: the same for the same seed and place, unrelated otherwise."""
    return torch.Generator().manual_seed(seed_of(seed, *place))


def seed_of(seed: int, *place: int | str) -> int:
    """A seed for one place of a run, as `generator_of`."""
    words = ":".join(map(str, (seed, *place)))
    return int.from_bytes(hashlib.sha256(words.encode()).digest()[:8], "big") >> 1
