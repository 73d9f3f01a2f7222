"""What the rows of the study of memberships know: groups that are written to files, and its worth beforehand."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from debiased_contrastive.images.images import FolderImages, Images
from debiased_contrastive.images.knowledge import Source
from debiased_contrastive.images.networks import make_method
from debiased_contrastive.images.settings import SimCLRSettings
from debiased_contrastive.images.simclr import SimCLR
from debiased_contrastive.images.sources import read_training_images
from debiased_contrastive.membership.kmeans import centroids, nearest_centroids
from debiased_contrastive.membership.patches import patch_features
from debiased_contrastive.numerics import make_generator, unit_rows
from debiased_contrastive.training.checkpoint import latest_checkpoint
from debiased_contrastive.training.gradient import steps_per_epoch
from debiased_contrastive.training.machine import start_fabric


def write_groups(path: Path, settings: SimCLRSettings, how: float | str) -> Path:
    """Write a file with a group for each image, if it is not there yet."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        np.save(path, draw_groups(settings, how).numpy())
    return path


def draw_groups(settings: SimCLRSettings, how: float | str) -> Tensor:
    """(n,) as many groups as classes.

    Args:
        settings: Those of the training; its seed is that of the groups.
        how: A share of right labels, the others drawn from the other classes; "random" for labels of other images;
            "clusters" for k-means of the patch guide.
    """
    images, generator = read_training_images(settings.data), make_generator(settings.seed, "groups")
    labels, classes = images.labels, len(images.class_names)
    assert labels is not None
    if how == "random":
        return labels[torch.randperm(len(labels), generator=generator)]
    if how == "clusters":
        unit = unit_rows(make_patches(settings))
        return nearest_centroids(unit, centroids(unit, classes, steps=30, generator=generator))
    right = torch.rand(len(labels), generator=generator) < float(how)
    other = (labels + torch.randint(1, classes, labels.shape, generator=generator)) % classes
    return torch.where(right, labels, other)


def make_patches(settings: SimCLRSettings) -> Tensor:
    """(n, d) features of the patch guide, as the training makes them."""
    images = read_training_images(settings.data)
    assert isinstance(images, Images)
    return patch_features(images.pixels, seed=settings.seed)


def worth_before(settings: SimCLRSettings, images: Images | FolderImages, biased: Path) -> dict[str, float]:
    """Force share and accuracy of the knowledge of a row, made from and measured on what biased training learnt.

    Empty where the folder of the biased run holds no checkpoint.
    """
    state, _ = latest_checkpoint(biased)
    if state is None:
        return {}
    fabric = start_fabric(settings.training.accelerator, settings.training.precision)
    method = make_method(settings, gather=False)
    assert isinstance(method, SimCLR)
    for name in ("encoder", "projector"):
        part: Any = getattr(method, name)
        prefix = f"{name}."
        part.load_state_dict(
            {key.removeprefix(prefix): value for key, value in state["module"].items() if key.startswith(prefix)}
        )
    epoch = steps_per_epoch(len(images), settings.training.batch)
    source = Source(settings, images, fabric, method, epoch)
    source.refresh(settings.membership.begin * epoch)
    return source.measure()
