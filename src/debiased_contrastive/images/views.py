"""The settings of views (appendix B), without torch, so that flags are read without it; `augment` makes views."""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

Space: TypeAlias = Literal["rgb", "lab", "ycbcr"]


@dataclass(frozen=True)
class Views:
    """How images become views: crop, flip, colour jitter, grayscale, blur, normalise."""

    EARLIER: ClassVar[frozenset[str]] = frozenset({"space"})

    size: int = 32
    """Side of the views in pixels."""
    scale: tuple[float, float] = (0.08, 1.0)
    """Smallest and largest area of a crop, as a share of the image's area."""
    ratio: tuple[float, float] = (3 / 4, 4 / 3)
    """Smallest and largest aspect ratio of a crop, width over height."""
    flip: float = 0.5
    """Probability that a view is mirrored from left to right."""
    jitter: tuple[float, float, float, float] = (0.4, 0.4, 0.4, 0.1)
    """Strength of the changes of brightness, contrast, saturation and hue; 0 leaves one out."""
    jitter_probability: float = 0.8
    """Probability that the colours of a view are changed."""
    grayscale_probability: float = 0.2
    """Probability that a view loses its colours."""
    blur_probability: float = 0.5
    """Probability that a view is blurred."""
    blur_kernel: int = 3
    """Size of the Gaussian blur in pixels, an odd number."""
    blur_sigma: tuple[float, float] = (0.1, 2.0)
    """Smallest and largest standard deviation of the blur in pixels."""
    mean: tuple[float, ...] = (0.4914, 0.4822, 0.4465)
    """Mean of each channel, which is subtracted."""
    std: tuple[float, ...] = (0.2023, 0.1994, 0.2010)
    """Standard deviation of each channel, by which views are divided."""

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
        if len(self.mean) != len(self.std):
            raise ValueError(f"mean and std must have one value per channel; got {self.mean} and {self.std}")

    @property
    def space(self) -> Space:
        """Colour space of the finished views."""
        return "rgb"


@dataclass(frozen=True)
class ColourViews(Views):
    """Views whose luminance is one channel and whose colour is the others; these have moments of their own."""

    EARLIER: ClassVar[frozenset[str]] = frozenset[str]()

    space: Literal["lab", "ycbcr"] = "lab"
    """Colour space of the finished views."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.space not in (words := ("lab", "ycbcr")):
            raise ValueError(f"space must be one of {', '.join(words)}; got {self.space!r}")
        if len(self.mean) != 3:
            raise ValueError(
                f"space={self.space} is of three channels; mean has {len(self.mean)}: use colour images"
            )
