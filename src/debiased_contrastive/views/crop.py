"""Random crops, resized: where they lie, and the two small matrix products that cut them out."""

import math

import torch
from torch import Tensor

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
    boxes = boxes.to(images)
    rows = _resize_weights(boxes[:, 0], boxes[:, 2], size, images.shape[2], None)
    columns = _resize_weights(boxes[:, 1], boxes[:, 3], size, images.shape[3], flipped)
    # All channels and rows of an image meet the same columns: one product without copies.
    narrow = torch.bmm(images.flatten(1, 2), columns.mT).unflatten(1, images.shape[1:3])
    return torch.matmul(rows.unsqueeze(1), narrow, out=out)


def _resize_weights(start: Tensor, length: Tensor, size: int, extent: int, flipped: Tensor | None) -> Tensor:
    """(b, size, extent): row k holds the weights of the pixels that make output k of each image."""
    step = (length / size).view(-1, 1, 1)
    k = torch.arange(size, device=start.device).view(1, -1, 1)
    if flipped is not None:
        k = torch.where(flipped.to(k.device).view(-1, 1, 1), size - 1 - k, k)
    centre = start.view(-1, 1, 1) + (k + 0.5) * step
    pixel = torch.arange(extent, device=start.device).view(1, 1, -1)
    weights = (1 - (pixel + 0.5 - centre).abs() / step.clamp(min=1)).clamp_(min=0)
    # Beyond the box there is nothing: it was cut out before it was resized.
    inside = (pixel >= start.view(-1, 1, 1)) & (pixel < (start + length).view(-1, 1, 1))
    weights = weights * inside
    return weights / weights.sum(-1, keepdim=True)


def _uniform(shape: tuple[int, ...], bounds: tuple[float, float], generator: torch.Generator) -> Tensor:
    return bounds[0] + (bounds[1] - bounds[0]) * torch.rand(shape, generator=generator)


def _central_box(height: int, width: int, ratio: tuple[float, float]) -> list[float]:
    h, w = height, width
    if width / height < ratio[0]:
        h = round(width / ratio[0])
    elif width / height > ratio[1]:
        w = round(height * ratio[1])
    return [float((height - h) // 2), float((width - w) // 2), float(h), float(w)]
