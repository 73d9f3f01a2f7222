"""The views of SimCLR on small images (appendix B): crop, flip, colour jitter, grayscale, blur, normalise."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, get_args

import torch
from torch import Tensor

from debiased_contrastive.images.arranged import Arranged
from debiased_contrastive.images.colour import blur_, brightness_, contrast_, grayscale, hue_, saturation_
from debiased_contrastive.images.colour_space import Space, converted, moments
from debiased_contrastive.images.crop import crop_boxes, cropped

_PART = 256
_JITTER: tuple[Callable[[Tensor, Tensor], None], ...] = (brightness_, contrast_, saturation_, hue_)


@dataclass(frozen=True)
class SimCLRViews:
    """A batch of uint8 images to any number of views; every image of every view has its own parameters."""

    size: int = 32
    """Side of the views in pixels."""
    scale: tuple[float, float] = (0.08, 1.0)
    """Area of a crop as a share of the image's."""
    ratio: tuple[float, float] = (3 / 4, 4 / 3)
    """Aspect ratio of a crop."""
    flip: float = 0.5
    """Probability of a mirror image."""
    jitter: tuple[float, float, float, float] = (0.4, 0.4, 0.4, 0.1)
    """Strength of brightness, contrast, saturation and hue."""
    jitter_probability: float = 0.8
    grayscale_probability: float = 0.2
    blur_probability: float = 0.5
    blur_kernel: int = 3
    """Taps of the Gaussian blur, an odd number."""
    blur_sigma: tuple[float, float] = (0.1, 2.0)
    """Width of the blur in pixels."""
    space: Space = "rgb"
    """Of the colours, at the end."""
    mean: tuple[float, ...] = (0.4914, 0.4822, 0.4465)
    """Of red, green and blue; lab and ycbcr have their own."""
    std: tuple[float, ...] = (0.2023, 0.1994, 0.2010)

    def __post_init__(self) -> None:
        for name in ("flip", "jitter_probability", "grayscale_probability", "blur_probability"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} must lie in [0, 1]; got {getattr(self, name)}: it is a probability")
        if self.size < 1 or self.blur_kernel < 1 or self.blur_kernel % 2 == 0:
            raise ValueError(
                f"size must be at least 1 and blur_kernel odd; got size={self.size}, blur_kernel={self.blur_kernel}"
            )
        for name in ("scale", "ratio", "blur_sigma"):
            low, high = getattr(self, name)
            if not 0 < low <= high < math.inf:
                raise ValueError(f"{name} must be two numbers, 0 < low <= high; got {low} and {high}")
        if self.blur_kernel // 2 >= self.size:
            raise ValueError(
                f"blur_kernel must be smaller than twice the size; got {self.blur_kernel} for {self.size}"
            )
        if min(self.jitter) < 0 or min(self.std) <= 0:
            raise ValueError(f"jitter must be at least 0 and std positive; got {self.jitter} and {self.std}")
        if self.space not in get_args(Space):
            raise ValueError(f"space must be one of {', '.join(get_args(Space))}; got {self.space!r}")
        if self.space != "rgb" and len(self.mean) != 3:
            raise ValueError(
                f"space={self.space} is of three channels; mean has {len(self.mean)}: use rgb for gray images"
            )
        if len(self.mean) != len(self.std):
            raise ValueError(f"mean and std must have one value per channel; got {self.mean} and {self.std}")

    def __call__(self, pixels: Tensor, count: int, generator: torch.Generator) -> Tensor:
        """(count, b, c, size, size) normalised views of (b, c, h, w) pixels, on their device.

        All random numbers come from `generator`, which lives on the CPU, so that they are the same
        on every device.

        >>> pixels = torch.randint(256, (4, 3, 40, 40), dtype=torch.uint8)
        >>> SimCLRViews(size=32)(pixels, 2, torch.Generator().manual_seed(0)).shape
        torch.Size([2, 4, 3, 32, 32])
        """
        b, _, height, width = pixels.shape
        return self.applied(pixels, self.drawn(count, b, height, width, generator))

    def drawn(self, count: int, b: int, height: int, width: int, generator: torch.Generator) -> "Drawn":
        """What will happen to each of b images of that size in each of `count` views."""
        n = count * b
        low, high = self._jitter_bounds()
        sigma_low, sigma_high = self.blur_sigma
        flat = Drawn(
            boxes=crop_boxes(n, height, width, scale=self.scale, ratio=self.ratio, generator=generator),
            flipped=_chosen(n, self.flip, generator),
            jittered=_chosen(n, self.jitter_probability, generator),
            order=torch.rand(n, len(_JITTER), generator=generator).argsort(1),
            factors=low + (high - low) * torch.rand(n, len(_JITTER), generator=generator),
            gray=_chosen(n, self.grayscale_probability, generator),
            blurred=_chosen(n, self.blur_probability, generator),
            sigma=sigma_low + (sigma_high - sigma_low) * torch.rand(n, generator=generator),
        )
        return Drawn(*(values.unflatten(0, (count, b)) for values in flat))

    def applied(self, pixels: Tensor, drawn: "Drawn") -> Tensor:
        """(v, b, c, size, size) normalised views of (b, c, h, w) pixels, as drawn."""
        channels = pixels.shape[1]
        if channels != len(self.mean):
            raise ValueError(f"images must have {len(self.mean)} channels, as mean and std have; got {channels}")
        count, b = drawn.flipped.shape
        if b != len(pixels):
            raise ValueError(f"drawn must be for as many images as there are; got {b} for {len(pixels)}")
        flat = Drawn(*(values.flatten(0, 1) for values in drawn))
        rounds = torch.where(flat.jittered.unsqueeze(1), flat.order, len(_JITTER)).unbind(1)
        place = rounds[0].argsort(stable=True)
        batch = Arranged(self._cropped(pixels, flat, place), place)
        for kinds in rounds:
            self._jitter_(batch, kinds, flat)
        self._gray_and_blur_(batch, flat)
        batch.sort(torch.arange(len(place)))
        images = batch.images if self.space == "rgb" else converted(batch.images, self.space)
        mean, std = self._moments(images)
        result: Tensor = images.sub_(mean).div_(std).unflatten(0, (count, b))
        return result

    def normalised(self, images: Tensor) -> Tensor:
        """Images in [0, 1], in the space of the views, with its mean and standard deviation taken out."""
        mean, std = self._moments(images)
        return (converted(images, self.space) - mean) / std

    def _moments(self, images: Tensor) -> tuple[Tensor, Tensor]:
        mean, std = (
            torch.tensor(values, device=images.device).view(-1, 1, 1)
            for values in (moments(self.space) or (self.mean, self.std))
        )
        return mean, std

    def _cropped(self, pixels: Tensor, drawn: "Drawn", place: Tensor) -> Tensor:
        """The crops of all views in [0, 1], in that order; on a CPU in parts whose numbers stay in its cache."""
        images = torch.empty(len(place), pixels.shape[1], self.size, self.size, device=pixels.device)
        part = _PART if pixels.device.type == "cpu" else len(place)
        for own, out in zip(place.split(part), images.split(part), strict=True):
            source = pixels.index_select(0, (own % len(pixels)).to(pixels.device)).float().mul_(1 / 255)
            cropped(source, drawn.boxes[own], self.size, drawn.flipped[own], out=out)
        return images

    def _jitter_bounds(self) -> tuple[Tensor, Tensor]:
        centre = torch.tensor([1.0, 1.0, 1.0, 0.0])
        low = (centre - torch.tensor(self.jitter)).maximum(torch.tensor([0.0, 0.0, 0.0, -0.5]))
        return low, centre + torch.tensor(self.jitter)

    def _jitter_(self, batch: Arranged, kinds: Tensor, drawn: "Drawn") -> None:
        """One of four rounds: to each image the operation that its own order has here."""
        batch.sort(kinds)
        factors = drawn.factors[batch.place].to(batch.images)
        groups = kinds.bincount(minlength=len(_JITTER) + 1).tolist()
        # The last group is of images that are left as they are.
        images, own = batch.images.split(groups)[:-1], factors.split(groups)[:-1]
        for kind, operation_ in enumerate(_JITTER):
            if self.jitter[kind] and groups[kind]:
                operation_(images[kind], own[kind][:, kind])

    def _gray_and_blur_(self, batch: Arranged, drawn: "Drawn") -> None:
        # Gray alone, gray and blurred, blurred alone, neither: both groups lie together.
        kinds = torch.where(drawn.gray, drawn.blurred.long(), 3 - drawn.blurred.long())
        batch.sort(kinds)
        gray, both, blurred, _ = kinds.bincount(minlength=4).tolist()
        if gray + both:
            images = batch.images[: gray + both]
            images.copy_(grayscale(images).expand_as(images))
        if both + blurred:
            own = slice(gray, gray + both + blurred)
            blur_(batch.images[own], drawn.sigma[batch.place[own]].to(batch.images), self.blur_kernel)


class Drawn(NamedTuple):
    """The random part of v views of b images, on the CPU; each entry is (v, b) or (v, b, k)."""

    boxes: Tensor
    """Top, left, height and width of the crop."""
    flipped: Tensor
    jittered: Tensor
    order: Tensor
    """Which of brightness, contrast, saturation and hue comes first, second, third and last."""
    factors: Tensor
    """Of each of the four."""
    gray: Tensor
    blurred: Tensor
    sigma: Tensor

    def of(self, images: slice) -> "Drawn":
        """The part that belongs to some of the images, so that processes can share a batch."""
        return Drawn(*(values[:, images] for values in self))


def _chosen(count: int, probability: float, generator: torch.Generator) -> Tensor:
    return torch.rand(count, generator=generator) < probability
