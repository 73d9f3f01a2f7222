"""What the rows of the study of memberships know: groups that are written to files, and its worth beforehand."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from debiased_contrastive.images.evaluate import compute_features
from debiased_contrastive.images.images import ImageSet
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

ANCHORS = 2000
"""Number of images whose repulsion is measured."""


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
        unit = unit_rows(make_patches(settings, images))
        return nearest_centroids(unit, centroids(unit, classes, steps=30, generator=generator))
    right = torch.rand(len(labels), generator=generator) < float(how)
    other = (labels + torch.randint(1, classes, labels.shape, generator=generator)) % classes
    return torch.where(right, labels, other)


def make_patches(settings: SimCLRSettings, *parts: ImageSet) -> Tensor:
    """(n, d) features of the patch guide of the images of all parts, as a training makes them of its own."""
    pixels = [part.batch(torch.arange(len(part))) for part in parts]
    return patch_features(torch.cat(pixels), seed=settings.seed)


def worth_before(settings: SimCLRSettings, images: ImageSet, biased: Path) -> dict[str, float]:
    """What the knowledge of a row is worth, made from and measured on what the biased run in a folder learnt.

    Beside force share and accuracy, `repulsion_removed`: the share of the repulsion between samples of one class
    that the weights take away, 1 - sum over these pairs of pi_ij with the weights / the same without them.
    """
    method = load_biased(settings, biased)
    fabric = start_fabric(settings.training.accelerator, settings.training.precision)
    epoch = steps_per_epoch(len(images), settings.training.batch)
    source = Source(settings, images, fabric, method, epoch)
    source.refresh(settings.membership.begin * epoch)
    found = source.measure()
    assert method.known is not None
    assert method.known.knowledge is not None
    assert images.labels is not None
    chosen = torch.randperm(len(images), generator=make_generator(settings.seed, "repulsion"))[:ANCHORS]
    network = nn.Sequential(method.encoder, method.projector)
    z = unit_rows(compute_features(network, images, settings.views, fabric.device, chosen=chosen))
    strength = settings.membership.given_strength
    q = (strength * method.known.knowledge.same_class(chosen, chosen)).clamp(max=1)
    removed = repulsion_removed(z, images.labels[chosen], q, settings.objective.temperature)
    return {**found, "repulsion_removed": removed}


def repulsion_removed(z: Tensor, labels: Tensor, q: Tensor, temperature: float) -> float:
    """Share of the repulsion between unit rows z (n, d) of one class that weights 1 - q (n, n) take away."""
    logits = (z @ z.T / temperature).fill_diagonal_(-torch.inf)
    same = labels.unsqueeze(1) == labels
    left, all_of_it = (pushes.softmax(1).nan_to_num()[same].sum() for pushes in (logits + torch.log1p(-q), logits))
    return 1 - float(left / all_of_it)


def load_biased(settings: SimCLRSettings, folder: Path) -> SimCLR:
    """The method of the settings with the encoder and the projector of a biased run."""
    state = latest_checkpoint(folder)[0] if folder.is_dir() else None
    method = make_method(settings, gather=False)
    assert isinstance(method, SimCLR)
    if state is None:
        raise ValueError(f"{folder} must hold the biased run, for its projector: run the row biased first")
    parts: dict[str, Any] = {"encoder": method.encoder, "projector": method.projector}
    for name, part in parts.items():
        own = {
            key.removeprefix(f"{name}."): value for key, value in state["module"].items() if key.startswith(name)
        }
        part.load_state_dict(own)
    return method
