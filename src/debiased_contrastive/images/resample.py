"""Every image through two matrices of its own: what crops, resizes, mirrors and blurs is linear in each side."""

import torch
from torch import Tensor


def resampled(images: Tensor, rows: Tensor, columns: Tensor, *, out: Tensor | None = None) -> Tensor:
    """(b, c, i, j): rows (b, i, h) times images (b, c, h, w) times columns (b, j, w), each image with its own.

    The result goes to `out` if there is one, which may be `images` itself.
    """
    # All channels and rows of an image meet the same columns: one product without copies.
    narrow = torch.bmm(images.flatten(1, 2), columns.mT).unflatten(1, images.shape[1:3])
    return torch.matmul(rows.unsqueeze(1), narrow, out=out)
