"""Stacked frames to features, as agents that learn from pixels have them (Section 5.3)."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

KERNEL = 3
CHANGE = 4.0
"""Times by which changes are made larger, so that they are about as large as what is seen."""


def shares(frames: Tensor) -> Tensor:
    """Frames (b, channels, size, size) uint8 as shares of full brightness, laid out as convolutions like it best.

    Apart from the convolutions, since several networks see one frame: on a CPU this takes as long as a layer.
    """
    return frames.contiguous(memory_format=torch.channels_last).float().mul_(1 / 255)


def motion(x: Tensor, channels: int) -> Tensor:
    """A stack of frames of so many channels, as shares and oldest first, as its changes and its newest frame.

    It is the same information. But the slow turn of a pole moves few pixels by little, beside all that stands
    still: small networks find it sooner where that is taken away.
    """
    changes = (x[:, channels:] - x[:, :-channels]).mul_(CHANGE)
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
            # Centres alone would see one pixel of many, and miss whatever is thin.
            for weight in self.layers.parameters():
                if weight.dim() == 4:
                    nn.init.orthogonal_(weight, gain=math.sqrt(2))
        # So few channels go one and a half times as fast on CPUs this way.
        self.layers.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def forward(self, x: Tensor) -> Tensor:
        """(b, feature_dim) of what `shares` makes of frames, (b, channels, size, size)."""
        for layer in self.layers:
            x = F.relu_(layer(x))
        return x.flatten(1)


def head(convolutions: Convolutions, dim: int) -> nn.Sequential:
    """What actor and critic each put on the shared convolutions: (b, feature_dim) to (b, dim)."""
    made = nn.Sequential(nn.Linear(convolutions.feature_dim, dim), nn.LayerNorm(dim))
    made.apply(orthogonal_)
    return made


def orthogonal_(module: nn.Module) -> None:
    """Orthogonal weights, in convolutions those of the centre alone, and no biases."""
    if isinstance(module, nn.Linear):
        nn.init.orthogonal_(module.weight)
        nn.init.zeros_(module.bias)
    elif isinstance(module, nn.Conv2d):
        assert module.bias is not None
        nn.init.zeros_(module.weight)
        nn.init.zeros_(module.bias)
        nn.init.orthogonal_(module.weight.data[:, :, KERNEL // 2, KERNEL // 2], gain=math.sqrt(2))
