"""ResNet-18, 34 and 50 without the classifier, named as torchvision names them; the paper's encoder is the 50."""

from collections.abc import Mapping
from typing import Literal

import torch.nn.functional as F
from torch import Tensor, nn

from debiased_contrastive.images.sizes import check_sizes
from debiased_contrastive.training.state import state_difference

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
    """Pooled features (b, feature_dim) of images (b, in_channels, h, w); `resnet18` and its siblings make it."""

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
        check_sizes(in_channels=in_channels, width=width)
        if stem not in ("imagenet", "cifar"):
            raise ValueError(f'stem must be "imagenet", or "cifar" for images of about 32 x 32; got {stem!r}')
        large = stem == "imagenet"
        self.conv1 = _convolution(in_channels, width, 7, 2) if large else _convolution(in_channels, width, 3)
        self.bn1 = nn.BatchNorm2d(width)
        self.maxpool = nn.MaxPool2d(3, stride=2, padding=1) if large else nn.Identity()
        out = block.expansion * width
        self.layer1 = _stage(block, width, width, depths[0], stride=1)
        self.layer2 = _stage(block, out, 2 * width, depths[1], stride=2)
        self.layer3 = _stage(block, 2 * out, 4 * width, depths[2], stride=2)
        self.layer4 = _stage(block, 4 * out, 8 * width, depths[3], stride=2)
        self.feature_dim = 8 * out

    def forward(self, images: Tensor) -> Tensor:
        """(b, feature_dim) means over the last feature map, not normalised."""
        x = self.maxpool(F.relu(self.bn1(self.conv1(images)), inplace=True))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return F.adaptive_avg_pool2d(x, 1).flatten(1)


def resnet18(*, stem: Stem = "imagenet", in_channels: int = 3, width: int = 64) -> ResNet:
    """A ResNet-18 with 512 features (8 x `width`).

    The "cifar" stem is a 3 x 3 convolution of stride 1 without max-pool, for images of about 32 x 32.
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


def _stage(
    block: type[BasicBlock] | type[Bottleneck], in_channels: int, channels: int, depth: int, *, stride: int
) -> nn.Sequential:
    """`depth` blocks, of which the first changes the shape."""
    blocks = [block(in_channels, channels, stride)]
    blocks += [block(channels * block.expansion, channels, 1) for _ in range(depth - 1)]
    return nn.Sequential(*blocks)
