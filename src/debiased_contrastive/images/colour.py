"""Brightness, contrast, saturation, hue, grayscale and blur, one factor for each image of a batch.

Definitions are torchvision's. Images are (b, 3, h, w) or (b, 1, h, w) in [0, 1], and are changed in place where a
name ends in an underscore; factors are (b,).
"""

import torch
from torch import Tensor
from torch.nn import functional as F

from debiased_contrastive.images.resample import resampled

_LUMA = (0.2989, 0.587, 0.114)


def grayscale(images: Tensor) -> Tensor:
    """(b, 1, h, w), the luma of the images."""
    if images.shape[1] == 1:
        return images
    luma = images.new_tensor(_LUMA).expand(len(images), 1, 3)
    result: Tensor = torch.bmm(luma, images.flatten(2)).unflatten(2, images.shape[2:])
    return result


def brightness_(images: Tensor, factor: Tensor) -> None:
    """The images times the factor."""
    images.mul_(_per_image(factor)).clamp_(0, 1)


def contrast_(images: Tensor, factor: Tensor) -> None:
    """The images drawn from (factor < 1 to) their mean luma."""
    _blend_(images, grayscale(images.mean((2, 3), keepdim=True)), factor)


def saturation_(images: Tensor, factor: Tensor) -> None:
    """The images drawn from (factor < 1 to) their grayscale."""
    if images.shape[1] == 3:
        _blend_(images, grayscale(images), factor)


def hue_(images: Tensor, shift: Tensor) -> None:
    """The images with their hue turned by `shift` of a full circle.

    With v, m the largest and the smallest channel, c = v - m, and h in [-3, 3] the hue in sixths of the circle, 0
    at cyan: h is +-(c + v + r - g - b) / c, negative where b < g. Red is m + c w(h), green v - c w(h + 1) and blue
    v - c w(h - 1), where w(x) is |x| - 1 cut to [0, 1].
    """
    if images.shape[1] == 1:
        return
    r, g, b = images.unbind(1)
    v, m = images.amax(1), images.amin(1)
    c = v - m
    h = (c + v).add_(r).sub_(g).sub_(b)
    # Where c is 0 so is h, and any hue will do.
    h = h.div_(c.clamp(min=torch.finfo(c.dtype).tiny)).copysign_(b - g).add_(6 * shift.view(-1, 1, 1))
    h.sub_((h / 6).round_(), alpha=6)
    w = (h.unsqueeze(1) + h.new_tensor([0.0, 1.0, -1.0]).view(3, 1, 1)).abs_().sub_(1).clamp_(0, 1)
    w.mul_(c.unsqueeze(1))
    torch.add(m, w[:, 0], out=images[:, 0])
    torch.sub(v.unsqueeze(1), w[:, 1:], out=images[:, 1:])


def blur_(images: Tensor, sigma: Tensor, kernel: int) -> None:
    """The images under a Gaussian of that width in pixels, cut at `kernel` taps, edges reflected."""
    offsets = torch.arange(kernel, device=images.device) - kernel // 2
    # A Gaussian that sums to one is a softmax.
    weights = torch.softmax(-0.5 * (offsets / sigma.unsqueeze(1)).square(), 1).to(images)
    height, width = images.shape[2:]
    rows = torch.tensordot(weights, _shifts(offsets, height).to(images), 1)
    columns = rows if width == height else torch.tensordot(weights, _shifts(offsets, width).to(images), 1)
    resampled(images, rows, columns, out=images)


def _shifts(offsets: Tensor, size: int) -> Tensor:
    """(k, size, size) of 0 and 1: row i of matrix k picks pixel i + offset k, reflected at the ends."""
    pixel = (torch.arange(size, device=offsets.device) + offsets.unsqueeze(1)).abs()
    return F.one_hot(size - 1 - (size - 1 - pixel).abs(), size)


def _blend_(images: Tensor, towards: Tensor, factor: Tensor) -> None:
    factor = _per_image(factor)
    images.mul_(factor).add_(towards * (1 - factor)).clamp_(0, 1)


def _per_image(factor: Tensor) -> Tensor:
    return factor.view(-1, 1, 1, 1)
