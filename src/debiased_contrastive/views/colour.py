"""Brightness, contrast, saturation, hue, grayscale and blur, one factor for each image of a batch.

Definitions are torchvision's. Images are (b, 3, h, w) or (b, 1, h, w) in [0, 1]; factors are (b,).
"""

import torch
from torch import Tensor
from torch.nn import functional as F

_LUMA = (0.2989, 0.587, 0.114)


def grayscale(images: Tensor) -> Tensor:
    """(b, 1, h, w), the luma of the images."""
    if images.shape[1] == 1:
        return images
    r, g, b = images.unbind(1)
    return (_LUMA[0] * r).add_(g, alpha=_LUMA[1]).add_(b, alpha=_LUMA[2]).unsqueeze(1)


def brightness(images: Tensor, factor: Tensor) -> Tensor:
    """The images times the factor."""
    return (images * _per_image(factor)).clamp_(0, 1)


def contrast(images: Tensor, factor: Tensor) -> Tensor:
    """The images drawn from (factor < 1 to) their mean luma."""
    return _blend(images, grayscale(images).mean((1, 2, 3), keepdim=True), factor)


def saturation(images: Tensor, factor: Tensor) -> Tensor:
    """The images drawn from (factor < 1 to) their grayscale."""
    return images if images.shape[1] == 1 else _blend(images, grayscale(images), factor)


def hue(images: Tensor, shift: Tensor) -> Tensor:
    """The images with their hue turned by `shift` of a full circle.

    With v the largest channel, c the largest minus the smallest and h the hue in [0, 6), a channel of the
    result is v - c (1 - w), where w is |h - 3| - 1 for red, 2 - |h - 2| for green and 2 - |h - 4| for blue,
    each cut to [0, 1].
    """
    if images.shape[1] == 1:
        return images
    r, g, b = images.unbind(1)
    v = torch.maximum(torch.maximum(r, g), b)
    c = v - torch.minimum(torch.minimum(r, g), b)
    # Where c is 0 all differences are, and any hue will do.
    inverse = c.clamp(min=torch.finfo(c.dtype).tiny).reciprocal_()
    of_green_or_blue = torch.where(v == g, (b - r).mul_(inverse).add_(2), (r - g).mul_(inverse).add_(4))
    h = torch.where(v == r, (g - b).mul_(inverse), of_green_or_blue)
    h += 6 * shift.view(-1, 1, 1)
    h.sub_(torch.floor(h / 6), alpha=6)
    result = torch.empty_like(images)
    for channel, (centre, sign, offset) in enumerate(((3, 1, -1), (2, -1, 2), (4, -1, 2))):
        lack = (h - centre).abs_().mul_(sign).add_(offset).clamp_(0, 1).sub_(1)
        torch.addcmul(v, c, lack, out=result[:, channel])
    return result


def blurred(images: Tensor, sigma: Tensor, kernel: int) -> Tensor:
    """The images under a Gaussian of that width in pixels, cut at `kernel` taps, edges reflected."""
    taps = torch.arange(kernel, device=images.device) - (kernel - 1) / 2
    weights = torch.exp(-0.5 * (taps / sigma.unsqueeze(1)).square())
    weights = (weights / weights.sum(1, keepdim=True)).to(images)
    half = kernel // 2
    for dim, pad in ((3, (half, half, 0, 0)), (2, (0, 0, half, half))):
        padded = F.pad(images, pad, mode="reflect")
        images = sum(
            _per_image(weights[:, tap]) * padded.narrow(dim, tap, images.shape[dim]) for tap in range(kernel)
        )  # type: ignore[assignment]
    return images


def _blend(images: Tensor, towards: Tensor, factor: Tensor) -> Tensor:
    return torch.lerp(towards.expand_as(images), images, _per_image(factor)).clamp_(0, 1)


def _per_image(factor: Tensor) -> Tensor:
    return factor.view(-1, 1, 1, 1)
