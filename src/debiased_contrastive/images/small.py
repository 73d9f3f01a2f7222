"""An encoder that two CPU cores can train."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import convert_conv2d_weight_memory_format

from debiased_contrastive.images.sizes import check_sizes


class SmallConvNet(nn.Module):
    """Pooled features (b, feature_dim) of images (b, in_channels, h, w); `small_convnet` makes it."""

    def __init__(self, *, in_channels: int, width: int, feature_dim: int) -> None:
        super().__init__()
        self.stages = nn.Sequential(
            # Stride 2 at once: at full resolution, with a max-pool behind it, the first stage alone adds more
            # time than these four take.
            _stage(in_channels, width, stride=2),
            _stage(width, 2 * width, stride=2),
            _stage(2 * width, 4 * width, stride=2),
            _stage(4 * width, feature_dim, stride=1),
        )
        self.feature_dim = feature_dim

    def forward(self, images: Tensor) -> Tensor:
        """(b, feature_dim) means over the last feature map, not normalised."""
        return F.adaptive_avg_pool2d(self.stages(images), 1).flatten(1)


def small_convnet(*, in_channels: int = 3, width: int = 32, feature_dim: int = 256) -> SmallConvNet:
    """Four convolutions with batch norm and ReLU, at 1/2, 1/4, 1/8 and 1/8 of the resolution, then the mean.

    For images of about 28 x 28 to 64 x 64. The weights are in the channels-last format, in which CPUs are
    faster; images may come in either.

    >>> small_convnet()(torch.zeros(2, 3, 32, 32)).shape
    torch.Size([2, 256])
    """
    check_sizes(in_channels=in_channels, width=width, feature_dim=feature_dim)
    encoder = SmallConvNet(in_channels=in_channels, width=width, feature_dim=feature_dim)
    convert_conv2d_weight_memory_format(encoder, torch.channels_last)
    return encoder


def _stage(in_channels: int, channels: int, *, stride: int) -> nn.Sequential:
    convolution = nn.Conv2d(in_channels, channels, 3, stride, padding=1, bias=False)
    nn.init.kaiming_normal_(convolution.weight, mode="fan_out", nonlinearity="relu")
    return nn.Sequential(convolution, nn.BatchNorm2d(channels), nn.ReLU(inplace=True))
