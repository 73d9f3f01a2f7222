"""The shuffle and the folds of the skip-thoughts evaluation, as masks."""

import random

import torch
from torch import Tensor

SEED = 1234
"""That of its shuffles."""


def shuffled(n: int, seed: int = SEED) -> list[int]:
    """The order RandomState(seed).permutation(n) of NumPy, in which the protocol puts the samples.

    Python has the same Mersenne Twister and differs in how a seed sets it and how it draws below a bound.
    Done NumPy's way here, the vectors' scores need no NumPy.
    """
    state = [seed]
    for place in range(1, 624):
        state.append((1812433253 * (state[-1] ^ state[-1] >> 30) + place) % 2**32)
    source = random.Random()
    source.setstate((3, (*state, 624), None))
    order = list(range(n))
    for last in range(n - 1, 0, -1):
        place = n
        while place > last:
            place = source.getrandbits(32) % 2 ** last.bit_length()
        order[last], order[place] = order[place], order[last]
    return order


def held_out(n: int, folds: int) -> Tensor:
    """(folds, n) masks of contiguous parts; the first n mod `folds` of them have one sample more."""
    if n < folds:
        raise ValueError(f"there must be a sample for each of {folds} folds; got {n}: use fewer folds")
    numbers = torch.arange(folds)
    sizes = n // folds + (numbers < n % folds).long()
    return numbers.repeat_interleave(sizes) == numbers.unsqueeze(1)


def inner_held_out(outer: Tensor, folds: int) -> Tensor:
    """(folds, n) masks of contiguous parts of what an outer fold, an (n,) mask, leaves."""
    masks = torch.zeros(folds, len(outer), dtype=torch.bool)
    masks[:, ~outer] = held_out(int((~outer).sum()), folds)
    return masks
