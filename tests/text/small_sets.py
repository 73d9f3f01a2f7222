"""Valid input of a probe, for tests that spoil a part of it."""

import torch
from torch import Tensor


def small_sets() -> dict[str, Tensor]:
    return {
        "train_features": torch.randn(4, 3),
        "train_labels": torch.tensor([0, 0, 1, 1]),
        "test_features": torch.randn(2, 3),
        "test_labels": torch.tensor([0, 1]),
    }
