"""k-means with plain steps of Lloyd, the same for the same seed."""

import torch
from torch import Tensor

ELEMENTS = 2**22
"""Distances in memory at once."""


def centroids(rows: Tensor, k: int, *, steps: int, generator: torch.Generator) -> Tensor:
    """(k, d) means of the clusters of (n, d) rows, from k of them drawn at random; an empty cluster stays put."""
    means = rows[torch.randperm(len(rows), generator=generator)[:k]]
    for _ in range(steps):
        nearest = nearest_centroids(rows, means)
        sizes = nearest.bincount(minlength=len(means)).unsqueeze(1)
        sums = torch.zeros_like(means).index_add_(0, nearest, rows)
        means = torch.where(sizes > 0, sums / sizes.clamp_min(1), means)
    return means


def nearest_centroids(rows: Tensor, means: Tensor) -> Tensor:
    """(n,) number of the nearest mean."""
    lengths = means.square().sum(1) / 2
    tile = max(1, ELEMENTS // len(means))
    return torch.cat([torch.addmm(lengths, part, means.T, beta=-1).argmax(1) for part in rows.split(tile)])
