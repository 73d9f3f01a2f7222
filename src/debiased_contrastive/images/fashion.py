"""The part of Fashion-MNIST that travels inside the package."""

from importlib.resources import files
from typing import Literal

import numpy as np
import torch

from debiased_contrastive.images.images import Images


def fashion_mnist_mini(split: Literal["train", "test"]) -> Images:
    """2,000 training or 500 test images, 28 x 28 greyscale, ten balanced classes.

    >>> fashion_mnist_mini("test").pixels.shape
    torch.Size([500, 1, 28, 28])
    """
    if split not in ("train", "test"):
        raise ValueError(f"split must be 'train' or 'test'; got {split!r}")
    resource = files("debiased_contrastive.images").joinpath("embedded/fashion_mnist_mini.npz")
    with resource.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
        return Images(
            torch.from_numpy(arrays[f"x_{split}"]).unsqueeze(1),
            torch.from_numpy(arrays[f"y_{split}"]).long(),
            tuple(str(name) for name in arrays["class_names"]),
        )
