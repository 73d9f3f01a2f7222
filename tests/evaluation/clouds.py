"""Labelled points that the tests of the probes share."""

import torch
from torch import Tensor


def clouds(
    n: int, d: int, classes: int, *, seed: int = 0, spread: float = 1.0, decay: float = 0.0
) -> tuple[Tensor, Tensor]:
    """(n, d) float64 features around one centre a class, and labels, every class there at least once.

    With `decay` the scales of the directions fall off, as those of an encoder do.
    """
    generator = torch.Generator().manual_seed(seed)
    # Centres of one dimension and number of classes are the same for any seed: train and test agree.
    centres = torch.randn(classes, d, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    labels = torch.arange(n) % classes
    labels = labels[torch.randperm(n, generator=generator)]
    noise = torch.randn(n, d, generator=generator, dtype=torch.float64)
    scales = torch.arange(1, d + 1, dtype=torch.float64) ** -decay
    rotation = torch.linalg.qr(torch.randn(d, d, generator=torch.Generator().manual_seed(2), dtype=torch.float64)).Q
    return ((centres[labels] + spread * noise) * scales) @ rotation, labels
