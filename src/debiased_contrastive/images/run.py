"""SimCLR and CMC on images (Section 5.1): a run directory in, a trained one out, however often interrupted."""

import math
import os
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import torch
from lightning_fabric import Fabric
from torch import Tensor

from debiased_contrastive.domain import Progress
from debiased_contrastive.evaluation.geometry import knn_accuracy
from debiased_contrastive.images.augment import apply_views, draw_views
from debiased_contrastive.images.batch_norm import synchronise_batch_norm
from debiased_contrastive.images.cmc import CMC
from debiased_contrastive.images.domain import ImageFlags
from debiased_contrastive.images.download import fetch
from debiased_contrastive.images.evaluate import compute_features
from debiased_contrastive.images.images import ImageSet
from debiased_contrastive.images.knowledge import Source, check_knowledge
from debiased_contrastive.images.networks import make_encoder, make_method
from debiased_contrastive.images.settings import CMCSettings, Data, ImageSettings, SimCLRObjective
from debiased_contrastive.images.simclr import QueueSimCLR, SimCLR, bank_false_negative_rate, false_negative_rate
from debiased_contrastive.images.sources import (
    batch_indices,
    draw_known_labels,
    find_archive,
    find_root,
    read_probe_images,
    read_training_images,
)
from debiased_contrastive.images.timm_encoders import PREFIX
from debiased_contrastive.membership.files import join_digest
from debiased_contrastive.negatives.bank import draw_places
from debiased_contrastive.numerics import derive_seed, make_generator
from debiased_contrastive.runs import Run, existing_run, open_run
from debiased_contrastive.training.gradient import GradientLearner, steps_per_epoch
from debiased_contrastive.training.loggers import LogName
from debiased_contrastive.training.loop import Identity, Update, fit
from debiased_contrastive.training.machine import physical_memory, start_fabric
from debiased_contrastive.training.settings import as_json
from debiased_contrastive.training.weights import save_encoder


def train(
    settings: ImageSettings, run: Run, fabric: Fabric, images: ImageSet, *, log: Sequence[LogName] = ()
) -> Generator[Update, None, None]:
    """Train to the end of the run, as `fit` does; the encoder is written at the end."""
    batch, world = settings.training.batch, fabric.world_size
    epoch = steps_per_epoch(len(images), batch)
    torch.manual_seed(derive_seed(settings.seed, "weights"))
    method = make_method(settings, gather=world > 1, images=len(images))
    if world > 1:
        synchronise_batch_norm(method, fabric.device)
    source = Source(settings, images, fabric, method, epoch)
    metrics = ImageMetrics(settings, fabric, method, epoch, images, source)
    learner = GradientLearner(
        method,
        settings.training,
        fabric,
        seed=settings.seed,
        epoch=epoch,
        unit="images",
        inputs=partial(make_inputs, settings, images, fabric, prepare=source.refresh),
        measure=metrics.measure,
        is_due=metrics.is_due,
    )
    identity = Identity(as_json(settings), len(images), join_digest(images.digest, source.rows))
    yield from fit(learner, run, fabric, identity, log=log)
    if fabric.is_global_zero:
        save_encoder(run.folder, method.encoder, as_json(settings))


def train_images(
    settings: ImageSettings,
    images: ImageSet,
    folder: "str | os.PathLike[str]",
    *,
    on_update: Callable[[Update], None] = lambda _update: None,
    log: Sequence[LogName] = (),
) -> Run:
    """Train on images that Python holds, to the end of a run; a run that was stopped goes on, bit for bit.

    Args:
        settings: What to train, such as those of a preset. Of their `data`, only the order is used.
        images: What to train on, as `images_from_dataset` gives it; the same ones when a run goes on.
        folder: The run directory; it is made if it is not there.
        on_update: Called after every step, with how far the training is.
        log: Where metrics go beside metrics.jsonl: csv, tensorboard, wandb, mlflow.

    Returns:
        The finished run, for `images.evaluate.evaluate`, `load_encoder` and the report.
    """
    settings = replace(settings, data=Data("dataset", order=settings.data.order))
    fabric = start_fabric(settings.training.accelerator, settings.training.precision)
    check_images(settings, images, fabric)
    if fabric.is_global_zero:
        open_run(Path(folder), as_json(settings), "images")
    fabric.barrier()
    run = existing_run(Path(folder))
    if not run.is_finished:
        for update in train(settings, run, fabric, images, log=log):
            on_update(update)
    return run


def make_inputs(
    settings: ImageSettings,
    images: ImageSet,
    fabric: Fabric,
    wanted: range,
    *,
    prepare: Callable[[int], None] = lambda _step: None,
) -> Iterator[dict[str, Any]]:
    """Yield the arguments of the method at each step: this process's part of the batch.

    Order and views are drawn for the whole batch, so that they do not depend on the number of processes.
    `prepare` is called before each step.
    """
    batch, seed = settings.training.batch, settings.seed
    share = batch // fabric.world_size
    part = slice(fabric.global_rank * share, (fabric.global_rank + 1) * share)
    known = _read_labels(settings, images)
    for step, (ids, pixels) in zip(wanted, _read_pixels(settings, images, wanted, part), strict=True):
        prepare(step)
        height, width = pixels.shape[2:]
        generator = make_generator(seed, "views", step)
        drawn = draw_views(settings.views, count_views(settings), batch, height, width, generator)
        given = {"views": apply_views(settings.views, pixels.to(fabric.device), drawn.select(part))}
        given |= {name: codes[ids].to(fabric.device) for name, codes in known.items()}
        if _needs_ids(settings):
            given["ids"] = ids.to(fabric.device)
        if isinstance(settings, CMCSettings):
            generator = make_generator(seed, "bank", "places", step)
            places = draw_places(batch, len(images), settings.objective.bank_negatives, generator)
            given["places"] = places[part].to(fabric.device)
        yield given


def _needs_ids(settings: ImageSettings) -> bool:
    if isinstance(settings, CMCSettings) or settings.membership.source != "none":
        return True
    return settings.objective.negatives == "queue"


def _read_pixels(
    settings: ImageSettings, images: ImageSet, wanted: range, part: slice
) -> Iterable[tuple[Tensor, Tensor]]:
    """Read indices and pixels of each step; those of a folder are decoded ahead."""

    def indices() -> Iterator[Tensor]:
        return (batch_indices(settings, step, len(images))[part] for step in wanted)

    return zip(indices(), images.prefetch(indices()), strict=True)


def _read_labels(settings: ImageSettings, images: ImageSet) -> dict[str, Tensor]:
    """Return the labels that the objective may read, by the name of the argument that takes them."""
    objective = settings.objective
    if objective.kind == "unbiased":
        assert images.labels is not None
        return {"labels": images.labels}
    if isinstance(objective, SimCLRObjective) and objective.known_labels:
        assert images.labels is not None
        return {"positive_labels": draw_known_labels(images.labels, objective.known_labels, settings.seed)}
    return {}


def open_images(settings: ImageSettings, fabric: Fabric, flags: ImageFlags | None, progress: Progress) -> ImageSet:
    """Read the images to train on, and download them if the flags say so; raise where they do not suit."""
    if flags is not None and flags.download and fabric.is_global_zero:
        archive, root = find_archive(settings.data), find_root(settings.data)
        with progress(f"download {settings.data.name}") as bar:
            fetch(archive, root, bar.at)
    fabric.barrier()
    images = read_training_images(settings.data)
    check_images(settings, images, fabric)
    return images


def count_views(settings: ImageSettings) -> int:
    return 1 if isinstance(settings, CMCSettings) else settings.objective.num_positives + 1


def check_images(settings: ImageSettings, images: ImageSet, fabric: Fabric) -> None:
    """Raise unless the images suit the settings: their number, and their labels where those are read."""
    batch, world = settings.training.batch, fabric.world_size
    steps_per_epoch(len(images), batch)
    if batch % world:
        raise ValueError(f"batch must be a multiple of the number of processes, {world}; got {batch}")
    _check_memory(settings, images, fabric)
    if settings.encoder.name.startswith(PREFIX):
        make_encoder(settings)  # raises where timm or the size of the views does not suit
    labels, objective = images.labels, settings.objective
    if objective.kind == "unbiased" and (labels is None or bool((labels < 0).any())):
        raise ValueError(
            f"kind=unbiased reads every label; {settings.data.name} has images without one: use biased or debiased"
        )
    if settings.training.knn_every and settings.data.name == "dataset":
        raise ValueError("knn_every needs test images, and a data set from Python has none: set knn_every to 0")
    if settings.training.knn_every and settings.data.name == "hf" and labels is None:
        raise ValueError("knn_every needs labels, which these images have not: set knn_every to 0")
    if (
        settings.training.knn_every
        and settings.data.name == "folder"
        and (settings.data.test_root is None or labels is None)
    ):
        raise ValueError("knn_every needs class folders and --data.test-root DIR: give them, or set knn_every to 0")
    channels = images.shape[0]
    if channels != len(settings.views.mean):
        raise ValueError(
            f"views.mean and views.std must have one value per channel, {channels} here; got "
            f"{len(settings.views.mean)}: set both for these images"
        )
    if isinstance(objective, SimCLRObjective) and objective.known_labels and labels is None:
        raise ValueError(
            "known_labels needs labels, such as class folders; these images have none: set known_labels to 0"
        )
    check_knowledge(settings, images)


def _check_memory(settings: ImageSettings, images: ImageSet, fabric: Fabric) -> None:
    """Raise where a batch of images and views exceeds the memory of the machine, whatever the network."""
    batch, side = settings.training.batch, settings.views.size
    count = count_views(settings)
    pixels = math.prod(images.shape)
    needed = batch * (pixels + 4 * count * len(settings.views.mean) * side**2) / fabric.world_size
    if fabric.device.type == "cpu" and needed > (memory := physical_memory()):
        raise ValueError(
            f"a batch of {batch} images with {count:,} views of {side} x {side} pixels takes "
            f"{needed / 2**30:,.0f} GiB; this machine has {memory / 2**30:,.0f} GiB: use a smaller batch, fewer "
            "positives or smaller images"
        )


class ImageMetrics:
    """What is logged: the loss's diagnostics, the share of false negatives, at times the kNN accuracy and worth."""

    def __init__(
        self,
        settings: ImageSettings,
        fabric: Fabric,
        method: SimCLR | QueueSimCLR | CMC,
        epoch: int,
        images: ImageSet,
        source: Source,
    ) -> None:
        self.source = source
        self.settings, self.fabric, self.method, self.epoch = settings, fabric, method, epoch
        self.labels, self.count = images.labels, len(images)
        self.probes: tuple[ImageSet, ImageSet] | None = None

    def is_due(self, step: int) -> bool:
        """Tell whether this step is logged in any case."""
        return self._is_knn_due(step) or self.source.is_measured(step)

    def _is_knn_due(self, step: int) -> bool:
        every = self.settings.training.knn_every
        return bool(every) and step % (every * self.epoch) == 0

    def measure(self, step: int) -> dict[str, Any]:
        """Return values by name; called on every process, since some are means over all."""
        # What only a membership has is None without one.
        seen = {name: value for name, value in asdict(self.method.loss.diagnostics).items() if value is not None}
        values = {"false_negative_rate": self._false_negative_rate(step), **seen}
        # The other diagnostics are quantiles, which have no mean over processes: those of the first are logged.
        floored = torch.tensor(values["floored"], device=self.fabric.device)
        values["floored"] = float(cast(Tensor, self.fabric.all_reduce(floored, reduce_op="mean")))
        if self.fabric.is_global_zero and self._is_knn_due(step):
            values["knn"] = self._knn()
        if self.fabric.is_global_zero and self.source.is_measured(step):
            values |= self.source.measure()
        return values

    def _false_negative_rate(self, step: int) -> float | None:
        if self.labels is None:
            return None
        ids = batch_indices(self.settings, step - 1, self.count)
        labels = self.labels[ids]
        if bool((self.labels < 0).any()):
            return None
        if isinstance(self.settings, CMCSettings):
            return bank_false_negative_rate(labels, self.labels, exclude_own=self.settings.objective.exclude_own)
        if not isinstance(self.method, QueueSimCLR):
            return false_negative_rate(labels)
        stored = self.method.queue.ids.cpu()
        return false_negative_rate(labels, self.labels[stored], ids.unsqueeze(1) == stored)

    def _knn(self) -> float:
        device, views = self.fabric.device, self.settings.views
        if self.probes is None:
            self.probes = read_probe_images(self.settings.data)
        train, test = self.probes
        assert train.labels is not None
        assert test.labels is not None
        sets = [compute_features(self.method.encoder, images, views, device) for images in (train, test)]
        return knn_accuracy(sets[0], train.labels, sets[1], test.labels)
