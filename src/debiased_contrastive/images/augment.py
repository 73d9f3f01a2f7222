"""Batches of images to any number of views, as `Views` says: the random numbers first, then all images at once."""

from typing import NamedTuple

import torch
from torch import Tensor

from debiased_contrastive.images import transforms
from debiased_contrastive.images.views import Views

_IMAGES_IN_CACHE = 256
_JITTER = (transforms.brightness_, transforms.contrast_, transforms.saturation_, transforms.hue_)


class ViewParameters(NamedTuple):
    """The random part of v views of b images, on the CPU; each entry is (v, b) or (v, b, k)."""

    boxes: Tensor
    """Top, left, height and width of the crop."""
    flipped: Tensor
    jittered: Tensor
    order: Tensor
    """Which of brightness, contrast, saturation and hue comes first, second, third and last."""
    factors: Tensor
    """By how much each of the four changes."""
    gray: Tensor
    blurred: Tensor
    sigma: Tensor

    def select(self, images: slice) -> "ViewParameters":
        """The part that belongs to some of the images, so that processes can share a batch."""
        return ViewParameters(*(values[:, images] for values in self))


def make_views(settings: Views, pixels: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """Make normalised views of images; every image of every view has its own random parameters.

    >>> pixels = torch.randint(256, (4, 3, 40, 40), dtype=torch.uint8)
    >>> make_views(Views(size=32), pixels, 2, torch.Generator().manual_seed(0)).shape
    torch.Size([2, 4, 3, 32, 32])

    Args:
        settings: Which changes are made, how likely and how strong.
        pixels: Images (b, c, h, w) uint8 on any device.
        count: Number of views of each image.
        generator: Source of all random numbers. It lives on the CPU, so that they are the same on every device.

    Returns:
        Views (count, b, c, size, size) on the device of the images.
    """
    b, _, height, width = pixels.shape
    return apply_views(settings, pixels, draw_views(settings, count, b, height, width, generator))


def draw_views(
    settings: Views, count: int, b: int, height: int, width: int, generator: torch.Generator
) -> ViewParameters:
    """Draw what will happen to each of b images of that size in each of `count` views."""
    n = count * b
    centre, strength = torch.tensor([1.0, 1.0, 1.0, 0.0]), torch.tensor(settings.jitter)
    low, high = (centre - strength).maximum(torch.tensor([0.0, 0.0, 0.0, -0.5])), centre + strength
    sigma_low, sigma_high = settings.blur_sigma

    def happens(probability: float) -> Tensor:
        return torch.rand(n, generator=generator) < probability

    flat = ViewParameters(
        boxes=transforms.draw_crop_boxes(
            n, height, width, scale=settings.scale, ratio=settings.ratio, generator=generator
        ),
        flipped=happens(settings.flip),
        jittered=happens(settings.jitter_probability),
        order=torch.rand(n, len(_JITTER), generator=generator).argsort(1),
        factors=low + (high - low) * torch.rand(n, len(_JITTER), generator=generator),
        gray=happens(settings.grayscale_probability),
        blurred=happens(settings.blur_probability),
        sigma=sigma_low + (sigma_high - sigma_low) * torch.rand(n, generator=generator),
    )
    return ViewParameters(*(values.unflatten(0, (count, b)) for values in flat))


def apply_views(settings: Views, pixels: Tensor, drawn: ViewParameters) -> Tensor:
    """Make (v, b, c, size, size) normalised views of (b, c, h, w) pixels, as they were drawn."""
    channels = pixels.shape[1]
    if channels != len(settings.mean):
        raise ValueError(f"images must have {len(settings.mean)} channels, as mean and std have; got {channels}")
    count, b = drawn.flipped.shape
    if b != len(pixels):
        raise ValueError(f"drawn must be for as many images as there are; got {b} for {len(pixels)}")
    flat = ViewParameters(*(values.flatten(0, 1) for values in drawn))
    rounds = torch.where(flat.jittered.unsqueeze(1), flat.order, len(_JITTER)).unbind(1)
    place = rounds[0].argsort(stable=True)
    batch = _SortedBatch(_crop_all(pixels, flat, place, settings.size), place)
    for kinds in rounds:
        _jitter_(batch, kinds, flat, settings.jitter)
    _gray_and_blur_(batch, flat, settings.blur_kernel)
    batch.sort(torch.arange(len(place)))
    images = batch.images if settings.space == "rgb" else transforms.to_space(batch.images, settings.space)
    mean, std = _moments(settings, images)
    result: Tensor = images.sub_(mean).div_(std).unflatten(0, (count, b))
    return result


def normalise(settings: Views, images: Tensor) -> Tensor:
    """Bring images in [0, 1] to the colour space of the views, and take out its mean and standard deviation."""
    mean, std = _moments(settings, images)
    return (transforms.to_space(images, settings.space) - mean) / std


def prepare(settings: Views, pixels: Tensor) -> Tensor:
    """Resize and normalise whole images (b, c, h, w) uint8 as the views are; gray for a gray encoder."""
    images = pixels.float() / 255
    if len(settings.mean) == 1:
        images = transforms.grayscale(images)
    b, _, height, width = images.shape
    if (height, width) != (settings.size, settings.size):
        box = torch.tensor([0.0, 0.0, height, width], device=images.device)
        images = transforms.crop(images, box.expand(b, 4), settings.size)
    return normalise(settings, images)


def _moments(settings: Views, images: Tensor) -> tuple[Tensor, Tensor]:
    mean, std = (
        torch.tensor(values, device=images.device).view(-1, 1, 1)
        for values in transforms.MOMENTS.get(settings.space, (settings.mean, settings.std))
    )
    return mean, std


class _SortedBatch:
    """A batch that is sorted again before each operation, so that images that it changes lie together.

    They can then be changed in place, which takes less time than to pick them out and put them back. `place` (n,),
    on the CPU, says which image stands where.
    """

    def __init__(self, images: Tensor, place: Tensor) -> None:
        self.images = images
        self.place = place
        self.spare = torch.empty_like(images)

    def sort(self, keys: Tensor) -> None:
        """Let the keys (n,) of the images, given in the order of their numbers, ascend."""
        given = keys[self.place]
        if bool((given.diff() >= 0).all()):
            return
        order = given.argsort(stable=True)
        torch.index_select(self.images, 0, order.to(self.images.device), out=self.spare)
        self.images, self.spare, self.place = self.spare, self.images, self.place[order]


def _crop_all(pixels: Tensor, drawn: ViewParameters, place: Tensor, size: int) -> Tensor:
    """The crops of all views in [0, 1], in that order; on a CPU in parts whose numbers stay in its cache."""
    images = torch.empty(len(place), pixels.shape[1], size, size, device=pixels.device)
    part = _IMAGES_IN_CACHE if pixels.device.type == "cpu" else len(place)
    for own, out in zip(place.split(part), images.split(part), strict=True):
        source = pixels.index_select(0, (own % len(pixels)).to(pixels.device)).float().mul_(1 / 255)
        transforms.crop(source, drawn.boxes[own], size, drawn.flipped[own], out=out)
    return images


def _jitter_(batch: _SortedBatch, kinds: Tensor, drawn: ViewParameters, strength: tuple[float, ...]) -> None:
    """Do one of four rounds: to each image the operation that its own order has here."""
    batch.sort(kinds)
    factors = drawn.factors[batch.place].to(batch.images)
    groups = kinds.bincount(minlength=len(_JITTER) + 1).tolist()
    # The last group is of images that are left as they are.
    images, own = batch.images.split(groups)[:-1], factors.split(groups)[:-1]
    for kind, operation_ in enumerate(_JITTER):
        if strength[kind] and groups[kind]:
            operation_(images[kind], own[kind][:, kind])


def _gray_and_blur_(batch: _SortedBatch, drawn: ViewParameters, kernel: int) -> None:
    # Gray alone, gray and blurred, blurred alone, neither: both groups lie together.
    kinds = torch.where(drawn.gray, drawn.blurred.long(), 3 - drawn.blurred.long())
    batch.sort(kinds)
    gray, both, blurred, _ = kinds.bincount(minlength=4).tolist()
    if gray + both:
        images = batch.images[: gray + both]
        images.copy_(transforms.grayscale(images).expand_as(images))
    if both + blurred:
        own = slice(gray, gray + both + blurred)
        transforms.blur_(batch.images[own], drawn.sigma[batch.place[own]].to(batch.images), kernel)
