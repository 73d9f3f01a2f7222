"""The views of SimCLR on small images (appendix B): crop, flip, colour jitter, grayscale, blur, normalise."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from debiased_contrastive.views.colour import blurred, brightness, contrast, grayscale, hue, saturation
from debiased_contrastive.views.crop import crop_boxes, cropped

_JITTER: tuple[Callable[[Tensor, Tensor], Tensor], ...] = (brightness, contrast, saturation, hue)


@dataclass(frozen=True)
class SimCLRViews:
    """A batch of uint8 images to any number of views; every image of every view has its own parameters.

    >>> views = SimCLRViews(size=32)
    >>> pixels = torch.randint(256, (4, 3, 40, 40), dtype=torch.uint8)
    >>> views(pixels, 2, torch.Generator().manual_seed(0)).shape
    torch.Size([2, 4, 3, 32, 32])
    """

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
    mean: tuple[float, ...] = (0.4914, 0.4822, 0.4465)
    std: tuple[float, ...] = (0.2023, 0.1994, 0.2010)

    def __post_init__(self) -> None:
        for name in ("flip", "jitter_probability", "grayscale_probability", "blur_probability"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} must lie in [0, 1]; got {getattr(self, name)}: it is a probability")
        if self.size < 1 or self.blur_kernel < 1 or self.blur_kernel % 2 == 0:
            raise ValueError(
                f"size must be at least 1 and blur_kernel odd; got size={self.size}, blur_kernel={self.blur_kernel}"
            )
        if len(self.mean) != len(self.std):
            raise ValueError(f"mean and std must have one value per channel; got {self.mean} and {self.std}")

    def __call__(self, pixels: Tensor, count: int, generator: torch.Generator) -> Tensor:
        """(count, b, c, size, size) normalised views of (b, c, h, w) pixels, on their device.

        All random numbers come from `generator`, which lives on the CPU, so that they are the same
        on every device.
        """
        b, channels, height, width = pixels.shape
        if channels != len(self.mean):
            raise ValueError(f"images must have {len(self.mean)} channels, as mean and std have; got {channels}")
        n = count * b
        boxes = crop_boxes(n, height, width, scale=self.scale, ratio=self.ratio, generator=generator)
        flipped = _chosen(n, self.flip, generator)
        images = cropped((pixels.float() / 255).repeat(count, 1, 1, 1), boxes, self.size, flipped)
        self._jitter_(images, generator)
        self._gray_(images, generator)
        self._blur_(images, generator)
        return self.normalised(images).view(count, b, channels, self.size, self.size)

    def normalised(self, images: Tensor) -> Tensor:
        """Images in [0, 1] with the data's mean and standard deviation taken out."""
        mean = torch.tensor(self.mean, device=images.device).view(-1, 1, 1)
        std = torch.tensor(self.std, device=images.device).view(-1, 1, 1)
        return (images - mean) / std

    def _jitter_(self, images: Tensor, generator: torch.Generator) -> None:
        n = len(images)
        apply = _chosen(n, self.jitter_probability, generator)
        # Each image has its own order of the four, so each round has a group of images for each.
        order = torch.rand(n, 4, generator=generator).argsort(1)
        centre = torch.tensor([1.0, 1.0, 1.0, 0.0])
        low = (centre - torch.tensor(self.jitter)).maximum(torch.tensor([0.0, 0.0, 0.0, -0.5]))
        high = centre + torch.tensor(self.jitter)
        factors = (low + (high - low) * torch.rand(n, 4, generator=generator)).to(images)
        for position in range(4):
            for kind, operation in enumerate(_JITTER):
                if self.jitter[kind]:
                    group = (apply & (order[:, position] == kind)).nonzero()[:, 0].to(images.device)
                    images[group] = operation(images[group], factors[group, kind])

    def _gray_(self, images: Tensor, generator: torch.Generator) -> None:
        group = _chosen(len(images), self.grayscale_probability, generator).nonzero()[:, 0].to(images.device)
        images[group] = grayscale(images[group]).expand(-1, images.shape[1], -1, -1)

    def _blur_(self, images: Tensor, generator: torch.Generator) -> None:
        apply = _chosen(len(images), self.blur_probability, generator)
        low, high = self.blur_sigma
        sigma = (low + (high - low) * torch.rand(len(images), generator=generator)).to(images)
        group = apply.nonzero()[:, 0].to(images.device)
        images[group] = blurred(images[group], sigma[group], self.blur_kernel)


def _chosen(count: int, probability: float, generator: torch.Generator) -> Tensor:
    return torch.rand(count, generator=generator) < probability
