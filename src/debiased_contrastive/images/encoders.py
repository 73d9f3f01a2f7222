"""Encoders of images: ResNet-18, 34 and 50, a small network for CPUs, two side by side, and the projector.

ResNets have no classifier, and their weights are named as torchvision names them; the paper's encoder is the 50.
"""

from collections.abc import Mapping
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import convert_conv2d_weight_memory_format

from debiased_contrastive.training.weights import state_difference

Stem = Literal["imagenet", "cifar"]


class BasicBlock(nn.Module):
    """Two 3 x 3 convolutions beside a shortcut: the block of ResNet-18 and 34."""

    expansion = 1

    def __init__(self, in_channels: int, channels: int, stride: int) -> None:
        super().__init__()
        self.conv1 = _convolution(in_channels, channels, 3, stride)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = _convolution(channels, channels, 3)
        self.bn2 = nn.BatchNorm2d(channels)
        self.downsample = _shortcut(in_channels, channels, stride)

    def forward(self, x: Tensor) -> Tensor:
        """(b, channels, h / stride, w / stride) features of (b, in_channels, h, w) ones."""
        out = F.relu(self.bn1(self.conv1(x)), inplace=True)
        out = self.bn2(self.conv2(out))
        out += self.downsample(x)
        return F.relu(out, inplace=True)


class Bottleneck(nn.Module):
    """A 3 x 3 convolution between two 1 x 1 ones beside a shortcut: the block of ResNet-50.

    The stride is in the 3 x 3 convolution ("v1.5"), as in torchvision; the original has it in the first.
    """

    expansion = 4

    def __init__(self, in_channels: int, channels: int, stride: int) -> None:
        super().__init__()
        self.conv1 = _convolution(in_channels, channels, 1)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = _convolution(channels, channels, 3, stride)
        self.bn2 = nn.BatchNorm2d(channels)
        self.conv3 = _convolution(channels, channels * self.expansion, 1)
        self.bn3 = nn.BatchNorm2d(channels * self.expansion)
        self.downsample = _shortcut(in_channels, channels * self.expansion, stride)

    def forward(self, x: Tensor) -> Tensor:
        """(b, 4 channels, h / stride, w / stride) features of (b, in_channels, h, w) ones."""
        out = F.relu(self.bn1(self.conv1(x)), inplace=True)
        out = F.relu(self.bn2(self.conv2(out)), inplace=True)
        out = self.bn3(self.conv3(out))
        out += self.downsample(x)
        return F.relu(out, inplace=True)


class ResNet(nn.Module):
    """A ResNet without classifier; `resnet18` and its siblings make it."""

    def __init__(
        self,
        block: type[BasicBlock] | type[Bottleneck],
        depths: tuple[int, int, int, int],
        *,
        stem: Stem,
        in_channels: int,
        width: int,
    ) -> None:
        super().__init__()
        _check_sizes(in_channels=in_channels, width=width)
        if stem not in ("imagenet", "cifar"):
            raise ValueError(f'stem must be "imagenet", or "cifar" for images of about 32 x 32; got {stem!r}')
        large = stem == "imagenet"
        self.conv1 = _convolution(in_channels, width, 7, 2) if large else _convolution(in_channels, width, 3)
        self.bn1 = nn.BatchNorm2d(width)
        self.maxpool = nn.MaxPool2d(3, stride=2, padding=1) if large else nn.Identity()
        out = block.expansion * width
        self.layer1 = _resnet_stage(block, width, width, depths[0], stride=1)
        self.layer2 = _resnet_stage(block, out, 2 * width, depths[1], stride=2)
        self.layer3 = _resnet_stage(block, 2 * out, 4 * width, depths[2], stride=2)
        self.layer4 = _resnet_stage(block, 4 * out, 8 * width, depths[3], stride=2)
        self.feature_dim = 8 * out

    def forward(self, images: Tensor) -> Tensor:
        """(b, feature_dim) means over the last feature map of images (b, in_channels, h, w), not normalised."""
        x = self.maxpool(F.relu(self.bn1(self.conv1(images)), inplace=True))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return F.adaptive_avg_pool2d(x, 1).flatten(1)


def resnet18(*, stem: Stem = "imagenet", in_channels: int = 3, width: int = 64) -> ResNet:
    """A ResNet-18 with 512 features (8 x `width`).

    Args:
        stem: "imagenet" begins as usual, with a 7 x 7 convolution of stride 2 and a max-pool; "cifar" with a 3 x 3
            convolution of stride 1 without max-pool, for images of about 32 x 32.
        in_channels: Channels of the images.
        width: Channels of the first stage.
    """
    return ResNet(BasicBlock, (2, 2, 2, 2), stem=stem, in_channels=in_channels, width=width)


def resnet34(*, stem: Stem = "imagenet", in_channels: int = 3, width: int = 64) -> ResNet:
    """A ResNet-34 with 512 features (8 x `width`); the arguments are those of `resnet18`."""
    return ResNet(BasicBlock, (3, 4, 6, 3), stem=stem, in_channels=in_channels, width=width)


def resnet50(*, stem: Stem = "imagenet", in_channels: int = 3, width: int = 64) -> ResNet:
    """A ResNet-50 with 2048 features (32 x `width`); the arguments are those of `resnet18`.

    With the "cifar" stem it is the paper's encoder for CIFAR10 and STL10.
    """
    return ResNet(Bottleneck, (3, 4, 6, 3), stem=stem, in_channels=in_channels, width=width)


def load_torchvision_weights(model: ResNet, state_dict: Mapping[str, Tensor]) -> None:
    """Copy the weights of torchvision's ResNet of the same depth into `model`, all but the classifier `fc`.

    The way back is `torchvision_model.load_state_dict(model.state_dict(), strict=False)`. Where names or
    shapes differ it raises, and `model` stays as it was.
    """
    own = model.state_dict()
    # Files of torchvision's first releases have no batch counters, which nothing here reads.
    counters = {name: value for name, value in own.items() if name.endswith(".num_batches_tracked")}
    given = counters | {name: value for name, value in state_dict.items() if not name.startswith("fc.")}
    difference = state_difference(own, given)
    if difference:
        raise ValueError(
            f"the weights must have the model's names and shapes; {difference}: take the ResNet of the same "
            'depth, with stem="imagenet", in_channels=3 and width=64 for torchvision\'s own files'
        )
    model.load_state_dict(given)


class SmallConvNet(nn.Module):
    """An encoder that two CPU cores can train; `small_convnet` makes it."""

    def __init__(self, *, in_channels: int, width: int, feature_dim: int) -> None:
        super().__init__()
        self.stages = nn.Sequential(
            # Stride 2 at once: at full resolution, with a max-pool behind it, the first stage alone adds more
            # time than these four take.
            _small_stage(in_channels, width, stride=2),
            _small_stage(width, 2 * width, stride=2),
            _small_stage(2 * width, 4 * width, stride=2),
            _small_stage(4 * width, feature_dim, stride=1),
        )
        self.feature_dim = feature_dim

    def forward(self, images: Tensor) -> Tensor:
        """(b, feature_dim) means over the last feature map of images (b, in_channels, h, w), not normalised."""
        return F.adaptive_avg_pool2d(self.stages(images), 1).flatten(1)


def small_convnet(*, in_channels: int = 3, width: int = 32, feature_dim: int = 256) -> SmallConvNet:
    """Four convolutions with batch norm and ReLU, at 1/2, 1/4, 1/8 and 1/8 of the resolution, then the mean.

    For images of about 28 x 28 to 64 x 64. The weights are in the channels-last format, in which CPUs are
    faster; images may come in either.

    >>> small_convnet()(torch.zeros(2, 3, 32, 32)).shape
    torch.Size([2, 256])
    """
    _check_sizes(in_channels=in_channels, width=width, feature_dim=feature_dim)
    encoder = SmallConvNet(in_channels=in_channels, width=width, feature_dim=feature_dim)
    convert_conv2d_weight_memory_format(encoder, torch.channels_last)
    return encoder


class Pair(nn.Module):
    """Two encoders side by side, one for the first channel of an image and one for the others.

    >>> pair = Pair(nn.Flatten(), nn.Flatten(), feature_dim=12)
    >>> pair(torch.zeros(5, 3, 2, 2)).shape
    torch.Size([5, 12])

    Args:
        first: Encoder of channel 0.
        others: Encoder of all other channels.
        feature_dim: Number of features of both together.
    """

    def __init__(self, first: nn.Module, others: nn.Module, *, feature_dim: int) -> None:
        super().__init__()
        self.first, self.others = first, others
        self.feature_dim = feature_dim

    def forward(self, images: Tensor) -> Tensor:
        """(b, feature_dim) joined features of images (b, c, h, w)."""
        return torch.cat(self.parts(images), 1)

    def parts(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """The features of channel 0 and those of the other channels."""
        return self.first(images[:, :1]), self.others(images[:, 1:])


def projector(in_dim: int, hidden_dim: int = 512, out_dim: int = 128) -> nn.Sequential:
    """Linear without bias, batch norm, ReLU, Linear: (b, in_dim) features to (b, out_dim) embeddings.

    2048-512-128 after a ResNet-50, as in the released code. The losses normalise; the head does not. It
    is dropped after training: probes read the encoder's features.

    >>> projector(2048)(torch.zeros(4, 2048)).shape
    torch.Size([4, 128])
    """
    _check_sizes(in_dim=in_dim, hidden_dim=hidden_dim, out_dim=out_dim)
    return nn.Sequential(
        nn.Linear(in_dim, hidden_dim, bias=False),
        nn.BatchNorm1d(hidden_dim),
        nn.ReLU(inplace=True),
        nn.Linear(hidden_dim, out_dim),
    )


def _check_sizes(**sizes: int) -> None:
    for name, size in sizes.items():
        if not isinstance(size, int) or size < 1:
            raise ValueError(f"{name} must be an integer of at least 1; got {size!r}")


def _convolution(in_channels: int, channels: int, size: int, stride: int = 1) -> nn.Conv2d:
    """A convolution that keeps the borders, without the bias that batch norm would remove."""
    layer = nn.Conv2d(in_channels, channels, size, stride, padding=size // 2, bias=False)
    nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
    return layer


def _shortcut(in_channels: int, channels: int, stride: int) -> nn.Sequential:
    """The identity, as an empty sequence, or a 1 x 1 convolution where the shape changes."""
    if stride == 1 and in_channels == channels:
        return nn.Sequential()
    return nn.Sequential(_convolution(in_channels, channels, 1, stride), nn.BatchNorm2d(channels))


def _resnet_stage(
    block: type[BasicBlock] | type[Bottleneck], in_channels: int, channels: int, depth: int, *, stride: int
) -> nn.Sequential:
    # The first block changes the shape.
    blocks = [block(in_channels, channels, stride)]
    blocks += [block(channels * block.expansion, channels, 1) for _ in range(depth - 1)]
    return nn.Sequential(*blocks)


def _small_stage(in_channels: int, channels: int, *, stride: int) -> nn.Sequential:
    convolution = _convolution(in_channels, channels, 3, stride)
    return nn.Sequential(convolution, nn.BatchNorm2d(channels), nn.ReLU(inplace=True))
