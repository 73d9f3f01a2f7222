"""The encoder of an agent that learns from pixels (Section 5.3): stacked frames to features."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

KERNEL = 3
MOTION_GAIN = 4.0
"""Factor on differences between frames, so that they are about as large as the frames."""


def to_unit_range(frames: Tensor) -> Tensor:
    """Convert frames (b, channels, size, size) uint8 to floats in [0, 1], laid out as convolutions like it best.

    No part of the convolutions, since several networks see one frame: on a CPU this takes as long as a layer.
    """
    return frames.contiguous(memory_format=torch.channels_last).float().mul_(1 / 255)


def frame_differences(x: Tensor, channels: int) -> Tensor:
    """Replace a stack of frames in [0, 1], oldest first, by the changes between them and the newest frame.

    The information is the same. But the slow turn of a pole changes few pixels by little, and small networks
    find it sooner where all that stands still is taken away.
    """
    changes = (x[:, channels:] - x[:, :-channels]).mul_(MOTION_GAIN)
    return torch.cat([changes, x[:, -channels:] - 0.5], 1)


class Convolutions(nn.Module):
    """Filters of 3 x 3, the first layers with a stride of 2; actor and critic share them."""

    def __init__(self, channels: int, size: int, filters: int = 32, layers: int = 4, strided: int = 1) -> None:
        super().__init__()
        strides = [2] * strided + [1] * (layers - strided)
        width = size
        for stride in strides:
            width = (width - KERNEL) // stride + 1
        if layers < 1 or not 0 <= strided <= layers or width < 1:
            raise ValueError(
                f"frames must be large enough for {layers} layers of 3 x 3 filters, {strided} of them with stride "
                f"2; got {size} pixels"
            )
        widths = [channels] + [filters] * layers
        self.layers = nn.ModuleList(
            nn.Conv2d(before, after, KERNEL, stride)
            for before, after, stride in zip(widths, widths[1:], strides, strict=False)
        )
        self.feature_dim = filters * width**2
        self.apply(orthogonal_)
        if strided > 1:
            # With strides, weights at the centre alone would miss whatever is thin.
            for weight in self.layers.parameters():
                if weight.dim() == 4:
                    nn.init.orthogonal_(weight, gain=math.sqrt(2))
        # On CPUs, so few channels are 1.5 times as fast in this format.
        self.layers.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def forward(self, x: Tensor) -> Tensor:
        """(b, feature_dim) features of frames (b, channels, size, size) in [0, 1]."""
        for layer in self.layers:
            x = F.relu_(layer(x))
        return x.flatten(1)


class PixelEncoder(nn.Module):
    """Frames to features: convolutions and a head."""

    def __init__(self, convolutions: Convolutions, dim: int) -> None:
        super().__init__()
        self.convolutions = convolutions
        self.head = make_head(convolutions, dim)

    def forward(self, frames: Tensor) -> Tensor:
        """(b, dim) features of frames (b, channels, size, size) in [0, 1]."""
        features: Tensor = self.head(self.convolutions(frames))
        return features


def make_head(convolutions: Convolutions, dim: int) -> nn.Sequential:
    """Make the head that actor and critic each put on the shared convolutions, to (b, dim) features."""
    return nn.Sequential(nn.Linear(convolutions.feature_dim, dim), nn.LayerNorm(dim)).apply(orthogonal_)


def orthogonal_(module: nn.Module) -> None:
    """Set weights to an orthogonal matrix, in convolutions at the centre alone, and biases to 0."""
    if isinstance(module, nn.Linear):
        nn.init.orthogonal_(module.weight)
        nn.init.zeros_(module.bias)
    elif isinstance(module, nn.Conv2d):
        assert module.bias is not None
        nn.init.zeros_(module.weight)
        nn.init.zeros_(module.bias)
        nn.init.orthogonal_(module.weight.data[:, :, KERNEL // 2, KERNEL // 2], gain=math.sqrt(2))
