"""Colours as a luminance and two differences of colour: Lab and YCbCr, of whole batches."""

from typing import Literal, TypeAlias

import torch
from torch import Tensor

Space: TypeAlias = Literal["rgb", "lab", "ycbcr"]

MOMENTS = {
    "lab": ((50.0, 6.025, -6.6895), (50.0, 92.208, 101.1675)),
    "ycbcr": ((116.151, 121.080, 132.342), (109.5, 111.855, 111.964)),
}
"""Mean and standard deviation of each channel, as contrastive multiview coding takes them."""

_XYZ = ((0.412453, 0.357580, 0.180423), (0.212671, 0.715160, 0.072169), (0.019334, 0.119193, 0.950227))
_WHITE = (0.95047, 1.0, 1.08883)
"""Daylight, D65, for an observer of 2 degrees."""
_YCBCR = ((65.481, 128.553, 24.966), (-37.797, -74.203, 112.0), (112.0, -93.786, -18.214))
_YCBCR_OFFSET = (16.0, 128.0, 128.0)


def lab(images: Tensor) -> Tensor:
    """(b, 3, h, w) lightness L in [0, 100] and the differences a and b, of sRGB images in [0, 1]."""
    linear = torch.where(images > 0.04045, ((images + 0.055) / 1.055).pow(2.4), images / 12.92)
    xyz = _mixed(linear, _XYZ) / _column(_WHITE, images)
    # The cube root, with a straight line where it would be too steep.
    f = torch.where(xyz > 0.008856, xyz.clamp(min=0.008856).pow(1 / 3), 7.787 * xyz + 16 / 116)
    x, y, z = f.unbind(1)
    return torch.stack([116 * y - 16, 500 * (x - y), 200 * (y - z)], 1)


def ycbcr(images: Tensor) -> Tensor:
    """(b, 3, h, w) luma Y in [16, 235] and the differences Cb and Cr in [16, 240], of images in [0, 1]."""
    return _mixed(images, _YCBCR) + _column(_YCBCR_OFFSET, images)


def converted(images: Tensor, space: Space) -> Tensor:
    """Images in [0, 1] in that space; rgb as they are."""
    if space == "rgb":
        return images
    return lab(images) if space == "lab" else ycbcr(images)


def moments(space: Space) -> tuple[tuple[float, ...], tuple[float, ...]] | None:
    """Mean and standard deviation of each channel; None for rgb, where they are the data's."""
    return None if space == "rgb" else MOMENTS[space]


def _mixed(images: Tensor, matrix: tuple[tuple[float, ...], ...]) -> Tensor:
    return torch.einsum("ij,bjhw->bihw", torch.tensor(matrix, dtype=images.dtype, device=images.device), images)


def _column(values: tuple[float, ...], like: Tensor) -> Tensor:
    return torch.tensor(values, dtype=like.dtype, device=like.device).view(-1, 1, 1)
