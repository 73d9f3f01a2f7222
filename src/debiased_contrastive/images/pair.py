"""Two encoders side by side, one for the first channel of an image and one for the others."""

import torch
from torch import Tensor, nn


class Pair(nn.Module):
    """Features (b, feature_dim) of images (b, c, h, w): those of channel 0, then those of the other channels.

    >>> pair = Pair(nn.Flatten(), nn.Flatten(), feature_dim=12)
    >>> pair(torch.zeros(5, 3, 2, 2)).shape
    torch.Size([5, 12])
    """

    def __init__(self, first: nn.Module, others: nn.Module, *, feature_dim: int) -> None:
        """feature_dim: of both together."""
        super().__init__()
        self.first, self.others = first, others
        self.feature_dim = feature_dim

    def forward(self, images: Tensor) -> Tensor:
        """(b, feature_dim) both features of each image."""
        return torch.cat(self.parts(images), 1)

    def parts(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """The features of each of the two views."""
        return self.first(images[:, :1]), self.others(images[:, 1:])
