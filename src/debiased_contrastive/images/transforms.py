"""Crop, jitter, blur and convert whole batches of images, each image with its own parameters.

Definitions of crops and colours are torchvision's. Images are (b, 3, h, w) or (b, 1, h, w) in [0, 1], and are
changed in place where a name ends in an underscore; factors are (b,).
"""

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from debiased_contrastive.images.views import Space

_CROP_ATTEMPTS = 10
_LUMA = (0.2989, 0.587, 0.114)
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


def draw_crop_boxes(
    count: int,
    height: int,
    width: int,
    *,
    scale: tuple[float, float] = (0.08, 1.0),
    ratio: tuple[float, float] = (3 / 4, 4 / 3),
    generator: torch.Generator,
) -> Tensor:
    """Draw (count, 4) top, left, height, width of crops, distributed as torchvision's RandomResizedCrop.

    The area is uniform in `scale` of the image's, the aspect ratio log-uniform in `ratio`; the first of
    ten attempts that fits counts, and where none does, the largest centred crop within `ratio`.
    """
    area = height * width * _uniform((count, _CROP_ATTEMPTS), scale, generator)
    aspect = torch.exp(_uniform((count, _CROP_ATTEMPTS), (math.log(ratio[0]), math.log(ratio[1])), generator))
    w, h = torch.sqrt(area * aspect).round(), torch.sqrt(area / aspect).round()
    fits = (w > 0) & (w <= width) & (h > 0) & (h <= height)
    first = fits.int().argmax(1, keepdim=True)
    h, w, fits = (values.gather(1, first)[:, 0] for values in (h, w, fits))
    # An integer uniform in 0..room, both included, as randint draws it.
    top = (torch.rand(count, generator=generator) * (height - h + 1)).floor()
    left = (torch.rand(count, generator=generator) * (width - w + 1)).floor()
    boxes = torch.stack([top, left, h, w], 1)
    return torch.where(fits.unsqueeze(1), boxes, torch.tensor(_central_box(height, width, ratio)))


def _uniform(shape: tuple[int, ...], bounds: tuple[float, float], generator: torch.Generator) -> Tensor:
    return bounds[0] + (bounds[1] - bounds[0]) * torch.rand(shape, generator=generator)


def _central_box(height: int, width: int, ratio: tuple[float, float]) -> list[float]:
    h, w = height, width
    if width / height < ratio[0]:
        h = round(width / ratio[0])
    elif width / height > ratio[1]:
        w = round(height * ratio[1])
    return [float((height - h) // 2), float((width - w) // 2), float(h), float(w)]


def crop(
    images: Tensor, boxes: Tensor, size: int, flipped: Tensor | None = None, *, out: Tensor | None = None
) -> Tensor:
    """Resize each image's box to (b, c, size, size) with a triangle filter, mirrored where `flipped` (b,).

    images (b, c, h, w) floating-point; the result goes to `out` if there is one. The filter is Pillow's
    bilinear one: plain interpolation where a box is enlarged, an average over its pixels where it shrinks.
    """
    height, width = images.shape[2:]
    flipped = torch.zeros(len(boxes)) if flipped is None else flipped
    rows, columns = _resize_weights(boxes.to(images), flipped.to(images), size, max(height, width))
    return _resample(images, rows[..., :height], columns[..., :width], out=out)


def _resize_weights(boxes: Tensor, flipped: Tensor, size: int, extent: int) -> Tensor:
    """(2, b, size, extent) for rows and columns: line k holds the weights of the pixels that make output k."""
    start, length = boxes[:, :2].T.view(2, -1, 1, 1), boxes[:, 2:].T.view(2, -1, 1, 1)
    step = length / size
    # From left to right, or from the right end to the left.
    mirrored = torch.stack([torch.zeros_like(flipped), flipped]).view_as(start)
    k = torch.arange(0.5, size, device=boxes.device).view(-1, 1)
    centre = start - 0.5 + length * mirrored + step * (1 - 2 * mirrored) * k
    # Beyond the box there is nothing: it was cut out before it was resized.
    centre = centre.maximum(start).minimum(start + length - 1)
    pixel = torch.arange(extent, device=boxes.device, dtype=boxes.dtype)
    weights = (pixel - centre).abs_().div_(-step.clamp(min=1)).add_(1).clamp_(min=0)
    if bool((length <= size).all()):
        return weights
    # The wider triangles of what shrinks reach over the box, and their sums vary.
    weights.mul_((pixel >= start) & (pixel < start + length))
    return weights.div_(weights.sum(-1, keepdim=True))


def _resample(images: Tensor, rows: Tensor, columns: Tensor, *, out: Tensor | None = None) -> Tensor:
    """(b, c, i, j): rows (b, i, h) times images (b, c, h, w) times columns (b, j, w), each image with its own.

    What crops, resizes, mirrors and blurs is linear in each side. `out` may be `images` itself.
    """
    # All channels and rows of an image meet the same columns: one product without copies.
    narrow = torch.bmm(images.flatten(1, 2), columns.mT).unflatten(1, images.shape[1:3])
    return torch.matmul(rows.unsqueeze(1), narrow, out=out)


def grayscale(images: Tensor) -> Tensor:
    """(b, 1, h, w), the luma of the images."""
    if images.shape[1] == 1:
        return images
    luma = images.new_tensor(_LUMA).expand(len(images), 1, 3)
    result: Tensor = torch.bmm(luma, images.flatten(2)).unflatten(2, images.shape[2:])
    return result


def brightness_(images: Tensor, factor: Tensor) -> None:
    images.mul_(factor.view(-1, 1, 1, 1)).clamp_(0, 1)


def contrast_(images: Tensor, factor: Tensor) -> None:
    """Draw the images away from their mean luma, or towards it where factor < 1."""
    _blend_(images, grayscale(images.mean((2, 3), keepdim=True)), factor)


def saturation_(images: Tensor, factor: Tensor) -> None:
    """Draw the images away from their grayscale, or towards it where factor < 1."""
    if images.shape[1] == 3:
        _blend_(images, grayscale(images), factor)


def hue_(images: Tensor, shift: Tensor) -> None:
    """Turn the hue of the images by `shift` of a full circle.

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
    """Blur the images by a Gaussian of that width in pixels, cut at `kernel` taps, edges reflected."""
    offsets = torch.arange(kernel, device=images.device) - kernel // 2
    # A Gaussian that sums to one is a softmax.
    weights = torch.softmax(-0.5 * (offsets / sigma.unsqueeze(1)).square(), 1).to(images)
    height, width = images.shape[2:]
    rows = torch.tensordot(weights, _shifts(offsets, height).to(images), 1)
    columns = rows if width == height else torch.tensordot(weights, _shifts(offsets, width).to(images), 1)
    _resample(images, rows, columns, out=images)


def _shifts(offsets: Tensor, size: int) -> Tensor:
    """(k, size, size) of 0 and 1: row i of matrix k picks pixel i + offset k, reflected at the ends."""
    pixel = (torch.arange(size, device=offsets.device) + offsets.unsqueeze(1)).abs()
    return F.one_hot(size - 1 - (size - 1 - pixel).abs(), size)


def _blend_(images: Tensor, towards: Tensor, factor: Tensor) -> None:
    factor = factor.view(-1, 1, 1, 1)
    images.mul_(factor).add_(towards * (1 - factor)).clamp_(0, 1)


def to_space(images: Tensor, space: Space) -> Tensor:
    if space == "rgb":
        return images
    return lab(images) if space == "lab" else ycbcr(images)


def lab(images: Tensor) -> Tensor:
    """(b, 3, h, w) lightness L in [0, 100] and the differences a and b, of sRGB images in [0, 1]."""
    linear = torch.where(images > 0.04045, ((images + 0.055) / 1.055).pow(2.4), images / 12.92)
    xyz = _mix(linear, _XYZ) / _column(_WHITE, images)
    # The cube root, with a straight line where it would be too steep.
    f = torch.where(xyz > 0.008856, xyz.clamp(min=0.008856).pow(1 / 3), 7.787 * xyz + 16 / 116)
    x, y, z = f.unbind(1)
    return torch.stack([116 * y - 16, 500 * (x - y), 200 * (y - z)], 1)


def ycbcr(images: Tensor) -> Tensor:
    """(b, 3, h, w) luma Y in [16, 235] and the differences Cb and Cr in [16, 240], of images in [0, 1]."""
    return _mix(images, _YCBCR) + _column(_YCBCR_OFFSET, images)


def _mix(images: Tensor, matrix: tuple[tuple[float, ...], ...]) -> Tensor:
    return torch.einsum("ij,bjhw->bihw", torch.tensor(matrix, dtype=images.dtype, device=images.device), images)


def _column(values: tuple[float, ...], like: Tensor) -> Tensor:
    return torch.tensor(values, dtype=like.dtype, device=like.device).view(-1, 1, 1)
