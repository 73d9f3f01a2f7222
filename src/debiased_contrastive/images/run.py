"""SimCLR and CMC on images (Section 5.1): a run directory in, a trained one out, however often interrupted."""

from collections.abc import Generator, Iterable, Iterator
from typing import Any

import torch
from lightning_fabric import Fabric
from torch import Tensor

from debiased_contrastive.images.batch_norm import synchronised
from debiased_contrastive.images.folder import FolderImages
from debiased_contrastive.images.images import Images
from debiased_contrastive.images.networks import method_of
from debiased_contrastive.images.settings import Settings
from debiased_contrastive.images.sources import batch_of, known_labels, training_images
from debiased_contrastive.images.watch import Watch
from debiased_contrastive.negatives.bank import drawn_places
from debiased_contrastive.numerics import generator_of, seed_of
from debiased_contrastive.runs import Run
from debiased_contrastive.training.fit import Course, Identity, Update, to_the_end
from debiased_contrastive.training.memory import physical_memory
from debiased_contrastive.training.order import steps_per_epoch
from debiased_contrastive.training.settings import as_json
from debiased_contrastive.training.weights import save_encoder


def trained(
    settings: Settings, run: Run, fabric: Fabric, images: Images | FolderImages, *, tensorboard: bool = False
) -> Generator[Update, None, None]:
    """Train to the end from the newest checkpoint, or from the start; yields after every step.

    Metrics, checkpoints and at the end the encoder go to the run directory. Whoever stops between two
    steps loses nothing: closing the generator writes a checkpoint.
    """
    batch, world = settings.training.batch, fabric.world_size
    epoch = steps_per_epoch(len(images), batch)
    torch.manual_seed(seed_of(settings.seed, "weights"))
    method = method_of(settings, gather=world > 1, images=len(images))
    if world > 1:
        synchronised(method, fabric.device)
    watch = Watch(settings, fabric, method, epoch, images)

    def given(wanted: range) -> Iterator[dict[str, Any]]:
        return inputs(settings, images, fabric, wanted)

    identity = Identity(as_json(settings), len(images), images.digest)
    course = Course(
        method, settings.training, settings.seed, epoch, given, "images", identity, watch.measured, watch.is_due
    )
    yield from to_the_end(course, run, fabric, tensorboard=tensorboard)
    if fabric.is_global_zero:
        save_encoder(run.folder, method.encoder, as_json(settings))


def inputs(
    settings: Settings, images: Images | FolderImages, fabric: Fabric, wanted: range
) -> Iterator[dict[str, Any]]:
    """What the method is given at each step: this process's part of the batch.

    Order and views are drawn for the whole batch, so that they do not depend on the number of processes.
    """
    batch, seed, objective = settings.training.batch, settings.seed, settings.objective
    share = batch // fabric.world_size
    part = slice(fabric.global_rank * share, (fabric.global_rank + 1) * share)
    known = _codes(settings, images)
    for step, (ids, pixels) in zip(wanted, _pixels(settings, images, wanted, part), strict=True):
        views = settings.views
        height, width = pixels.shape[2:]
        generator = generator_of(seed, "views", step)
        count = 1 if objective.negatives == "bank" else objective.num_positives + 1
        drawn = views.drawn(count, batch, height, width, generator)
        given = {"views": views.applied(pixels.to(fabric.device), drawn.of(part))}
        given |= {name: codes[ids].to(fabric.device) for name, codes in known.items()}
        if objective.negatives != "batch":
            given["ids"] = ids.to(fabric.device)
        if objective.negatives == "bank":
            generator = generator_of(seed, "bank", "places", step)
            places = drawn_places(batch, len(images), objective.bank_negatives, generator)
            given["places"] = places[part].to(fabric.device)
        yield given


def _pixels(
    settings: Settings, images: Images | FolderImages, wanted: range, part: slice
) -> Iterable[tuple[Tensor, Tensor]]:
    """Indices and pixels of each step; those of a folder are decoded ahead."""

    def chosen() -> Iterator[Tensor]:
        return (batch_of(settings, step, len(images))[part] for step in wanted)

    return zip(chosen(), images.prefetched(chosen()), strict=True)


def _codes(settings: Settings, images: Images | FolderImages) -> dict[str, Tensor]:
    """The labels that the objective may read, by the name of the argument that takes them."""
    objective = settings.objective
    if objective.kind == "unbiased":
        assert images.labels is not None
        return {"labels": images.labels}
    if objective.known_labels:
        assert images.labels is not None
        return {"positive_labels": known_labels(images.labels, objective.known_labels, settings.seed)}
    return {}


def checked_images(settings: Settings, fabric: Fabric) -> Images | FolderImages:
    """The images to train on; raise where these settings cannot."""
    images = training_images(settings.data)
    check_images(settings, images, fabric)
    return images


def check_images(settings: Settings, images: Images | FolderImages, fabric: Fabric) -> None:
    """Raise unless the images suit the settings: their number, and their labels where those are read."""
    batch, world = settings.training.batch, fabric.world_size
    steps_per_epoch(len(images), batch)
    if batch % world:
        raise ValueError(f"batch must be a multiple of the number of processes, {world}; got {batch}")
    _check_memory(settings, images, fabric)
    labels, objective = images.labels, settings.objective
    if objective.kind == "unbiased" and (labels is None or bool((labels < 0).any())):
        raise ValueError(
            f"kind=unbiased reads every label; {settings.data.name} has images without one: use biased or debiased"
        )
    if (
        settings.training.knn_every
        and settings.data.name == "folder"
        and (settings.data.test_root is None or labels is None)
    ):
        raise ValueError("knn_every needs class folders and --data.test-root DIR: give them, or set knn_every to 0")
    channels = images.pixels.shape[1] if isinstance(images, Images) else 3
    if channels != len(settings.views.mean):
        raise ValueError(
            f"views.mean and views.std must have one value per channel, {channels} here; got "
            f"{len(settings.views.mean)}: set both for these images"
        )
    if objective.known_labels and labels is None:
        raise ValueError("known_labels needs class folders; the images are in one folder: set known_labels to 0")


def _check_memory(settings: Settings, images: Images | FolderImages, fabric: Fabric) -> None:
    """Raise where the views of one batch, or its images, are more than the machine holds, whatever the network."""
    batch, side = settings.training.batch, settings.views.size
    count = 1 if settings.objective.negatives == "bank" else settings.objective.num_positives + 1
    pixels = 3 * images.size**2 if isinstance(images, FolderImages) else images.pixels[0].numel()
    needed = batch * (pixels + 4 * count * len(settings.views.mean) * side**2) / fabric.world_size
    if fabric.device.type == "cpu" and needed > (memory := physical_memory()):
        raise ValueError(
            f"a batch of {batch} images with {count:,} views of {side} x {side} pixels takes "
            f"{needed / 2**30:,.0f} GiB; this machine has {memory / 2**30:,.0f} GiB: use a smaller batch, fewer "
            "positives or smaller images"
        )
