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
    means = images.mean((2, 3), keepdim=True)
    return _blend(images, grayscale(means), factor)


def saturation(images: Tensor, factor: Tensor) -> Tensor:
    """The images drawn from (factor < 1 to) their grayscale."""
    return images if images.shape[1] == 1 else _blend(images, grayscale(images), factor)


def hue(images: Tensor, shift: Tensor) -> Tensor:
    """The images with their hue turned by `shift` of a full circle.

    With v the largest channel, c the largest minus the smallest and h the hue in [0, 6), a channel of the
    result is v - c l, where its lack l is 2 - |h - 3| for red, |h - 2| - 1 for green and |h - 4| - 1 for blue, each
    cut to [0, 1].
    """
    if images.shape[1] == 1:
        return images
    r, g, b = images.unbind(1)
    v = torch.maximum(torch.maximum(r, g), b)
    c = torch.minimum(torch.minimum(r, g), b).neg_().add_(v)
    # Where c is 0 all differences are, and any hue will do.
    inverse = c.clamp(min=torch.finfo(c.dtype).tiny).reciprocal_()
    # A sign is 0 where that channel is the largest, else 1: cheaper than a mask and two choices.
    h = (b - r).mul_(inverse).add_(2)
    h.lerp_((r - g).mul_(inverse).add_(4), (v - g).sign_())
    h = (g - b).mul_(inverse).lerp_(h, (v - r).sign_()).add_(6 * shift.view(-1, 1, 1))
    h.sub_(torch.floor(h / 6), alpha=6)
    lack = (h.unsqueeze(1) - h.new_tensor([3.0, 2.0, 4.0]).view(3, 1, 1)).abs_()
    lack[:, 0].neg_().add_(3)
    return torch.addcmul(v.unsqueeze(1), c.unsqueeze(1), lack.sub_(1).clamp_(0, 1), value=-1)


def blurred(images: Tensor, sigma: Tensor, kernel: int) -> Tensor:
    """The images under a Gaussian of that width in pixels, cut at `kernel` taps, edges reflected."""
    taps = torch.arange(kernel, device=images.device) - (kernel - 1) / 2
    weights = torch.exp(-0.5 * (taps / sigma.unsqueeze(1)).square())
    weights = (weights / weights.sum(1, keepdim=True)).to(images)
    half = kernel // 2
    for dim, pad in ((3, (half, half, 0, 0)), (2, (0, 0, half, half))):
        padded = F.pad(images, pad, mode="reflect")
        size = images.shape[dim]
        images = images * _per_image(weights[:, half])
        # The weights are symmetric: two taps at once.
        for tap in range(half):
            pair = padded.narrow(dim, tap, size) + padded.narrow(dim, kernel - 1 - tap, size)
            images.addcmul_(pair, _per_image(weights[:, tap]))
    return images


def _blend(images: Tensor, towards: Tensor, factor: Tensor) -> Tensor:
    factor = _per_image(factor)
    return (images * factor).add_(towards * (1 - factor)).clamp_(0, 1)


def _per_image(factor: Tensor) -> Tensor:
    return factor.view(-1, 1, 1, 1)
