"""Random crops, resized: where they lie, and the weights that cut them out."""

import math

import torch
from torch import Tensor

from debiased_contrastive.images.resample import resampled

ATTEMPTS = 10


def crop_boxes(
    count: int,
    height: int,
    width: int,
    *,
    scale: tuple[float, float] = (0.08, 1.0),
    ratio: tuple[float, float] = (3 / 4, 4 / 3),
    generator: torch.Generator,
) -> Tensor:
    """(count, 4) top, left, height, width of crops, distributed as torchvision's RandomResizedCrop.

    The area is uniform in `scale` of the image's, the aspect ratio log-uniform in `ratio`; the first of
    ten attempts that fits counts, and where none does, the largest centred crop within `ratio`.
    """
    area = height * width * _uniform((count, ATTEMPTS), scale, generator)
    aspect = torch.exp(_uniform((count, ATTEMPTS), (math.log(ratio[0]), math.log(ratio[1])), generator))
    w, h = torch.sqrt(area * aspect).round(), torch.sqrt(area / aspect).round()
    fits = (w > 0) & (w <= width) & (h > 0) & (h <= height)
    first = fits.int().argmax(1, keepdim=True)
    h, w, fits = (values.gather(1, first)[:, 0] for values in (h, w, fits))
    # An integer uniform in 0..room, both included, as randint draws it.
    top = (torch.rand(count, generator=generator) * (height - h + 1)).floor()
    left = (torch.rand(count, generator=generator) * (width - w + 1)).floor()
    boxes = torch.stack([top, left, h, w], 1)
    return torch.where(fits.unsqueeze(1), boxes, torch.tensor(_central_box(height, width, ratio)))


def cropped(
    images: Tensor, boxes: Tensor, size: int, flipped: Tensor | None = None, *, out: Tensor | None = None
) -> Tensor:
    """(b, c, size, size), each image's box resized with a triangle filter, mirrored where `flipped` (b,).

    images (b, c, h, w) floating-point; the result goes to `out` if there is one. The filter is Pillow's
    bilinear one: plain interpolation where a box is enlarged, an average over its pixels where it shrinks.
    """
    height, width = images.shape[2:]
    flipped = torch.zeros(len(boxes)) if flipped is None else flipped
    rows, columns = _resize_weights(boxes.to(images), flipped.to(images), size, max(height, width))
    return resampled(images, rows[..., :height], columns[..., :width], out=out)


def _resize_weights(boxes: Tensor, flipped: Tensor, size: int, extent: int) -> Tensor:
    """(2, b, size, extent), of rows and columns: line k holds the weights of the pixels that make output k."""
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


def _uniform(shape: tuple[int, ...], bounds: tuple[float, float], generator: torch.Generator) -> Tensor:
    return bounds[0] + (bounds[1] - bounds[0]) * torch.rand(shape, generator=generator)


def _central_box(height: int, width: int, ratio: tuple[float, float]) -> list[float]:
    h, w = height, width
    if width / height < ratio[0]:
        h = round(width / ratio[0])
    elif width / height > ratio[1]:
        w = round(height * ratio[1])
    return [float((height - h) // 2), float((width - w) // 2), float(h), float(w)]
