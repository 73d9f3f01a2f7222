"""Images to the features of a frozen encoder."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from debiased_contrastive.images.colour import grayscale
from debiased_contrastive.images.crop import cropped
from debiased_contrastive.images.folder import FolderImages
from debiased_contrastive.images.images import Images
from debiased_contrastive.images.views import SimCLRViews

BATCH = 512


def batches(images: Images | FolderImages) -> Iterator[Tensor]:
    """All images in their order, in uint8 batches; those of a folder are decoded ahead."""
    return images.prefetched(torch.arange(len(images)).split(BATCH))


@torch.no_grad()
def features_of(
    encoder: nn.Module,
    images: Images | FolderImages,
    views: SimCLRViews,
    device: torch.device,
    on_progress: Callable[[int, int], None] | None = None,
) -> Tensor:
    """(n, d) features in evaluation mode, on the CPU, of whole images at the size that was trained on."""
    was_training = encoder.training
    encoder.eval()
    parts = []
    try:
        for pixels in batches(images):
            parts.append(encoder(prepared(pixels.to(device), views)).float().cpu())
            if on_progress is not None:
                on_progress(sum(map(len, parts)), len(images))
    finally:
        encoder.train(was_training)
    return torch.cat(parts)


def check_features(features: npt.NDArray[Any], source: Path) -> None:
    """Raise where a row is no vector of numbers: sound weights can still overflow on what they never saw."""
    if not np.isfinite(features).all():
        row = int(np.flatnonzero(~np.isfinite(features).all(1))[0])
        raise ValueError(f"features must be finite; row {row} of {source} is not: nothing was written")


def prepared(pixels: Tensor, views: SimCLRViews) -> Tensor:
    """(b, c, size, size) whole images, resized and normalised as the views are; gray for a gray encoder."""
    images = pixels.float() / 255
    if len(views.mean) == 1:
        images = grayscale(images)
    b, _, height, width = images.shape
    if (height, width) != (views.size, views.size):
        box = torch.tensor([0.0, 0.0, height, width], device=images.device)
        images = cropped(images, box.expand(b, 4), views.size)
    return views.normalised(images)
