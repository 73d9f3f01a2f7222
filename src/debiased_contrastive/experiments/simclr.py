"""SimCLR on images (Section 5.1): a run directory in, a trained one out, however often it is interrupted."""

import os
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from lightning_fabric import Fabric
from lightning_fabric.utilities.exceptions import MisconfigurationException
from torch import Tensor

from debiased_contrastive.data.folder import FolderImages
from debiased_contrastive.data.images import Images
from debiased_contrastive.encoders.batch_norm import synchronised
from debiased_contrastive.encoders.export import save_encoder
from debiased_contrastive.encoders.state import state_difference
from debiased_contrastive.experiments.images import known_labels, training_images
from debiased_contrastive.experiments.log import Log
from debiased_contrastive.experiments.networks import method_of
from debiased_contrastive.experiments.settings import Settings, Training, as_json
from debiased_contrastive.methods.simclr import QueueSimCLR, SimCLR
from debiased_contrastive.runs import Run
from debiased_contrastive.training.checkpoint import latest_checkpoint, save_checkpoint
from debiased_contrastive.training.loop import restore_, state_of, steps
from debiased_contrastive.training.order import generator_of, indices_of, seed_of, steps_per_epoch
from debiased_contrastive.training.schedule import learning_rate


@dataclass(frozen=True)
class Update:
    """Where a training stands."""

    step: int
    steps: int
    """How many there will be."""
    images: int
    """In a step, over all processes."""
    loss: Tensor


def fabric_of(training: Training) -> Fabric:
    """Devices and precision, launched; the processes are those of torchrun, one where it is not used."""
    here = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    world = int(os.environ.get("WORLD_SIZE", "1"))
    try:
        fabric = Fabric(
            accelerator=training.accelerator,
            devices=here,
            num_nodes=world // here,
            precision=training.precision,
            strategy="ddp" if world > 1 else "auto",
        )
    except (RuntimeError, MisconfigurationException) as error:
        raise ValueError(
            f"accelerator={training.accelerator} does not work here ({error}): use auto or cpu"
        ) from None
    fabric.launch()
    return fabric


def trained(
    settings: Settings, run: Run, fabric: Fabric, images: Images | FolderImages, *, tensorboard: bool = False
) -> Generator[Update, None, None]:
    """Train to the end from the newest checkpoint, or from the start; yields after every step.

    Metrics, checkpoints and at the end the encoder go to the run directory. Whoever stops between two
    steps loses nothing: closing the generator writes a checkpoint.
    """
    batch, world = settings.training.batch, fabric.world_size
    epoch = steps_per_epoch(len(images), batch)
    total = epoch * settings.training.epochs
    torch.manual_seed(seed_of(settings.seed, "weights"))
    method = method_of(settings, gather=world > 1)
    if world > 1:
        synchronised(method, fabric.device)
    optimiser = torch.optim.Adam(
        (weight for weight in method.parameters() if weight.requires_grad),
        lr=settings.training.learning_rate,
        weight_decay=settings.training.weight_decay,
    )
    module, wrapped = fabric.setup(method, optimiser)
    start = _restored(run, fabric, method, optimiser)
    rate = learning_rate(
        settings.training.schedule,
        settings.training.learning_rate,
        steps=total,
        warm_up=epoch * settings.training.warm_up,
    )
    given = inputs(settings, images, fabric, range(start, total))
    log = Log(settings, run, fabric, method, epoch, images, start, tensorboard=tensorboard)
    step = start
    try:
        for step, loss in steps(fabric, module, wrapped, given, rate=rate, seed=settings.seed, start=start):
            log.after(step, loss, rate(step - 1))
            if step % (settings.training.checkpoint_every or epoch) == 0 or step == total:
                _save(run, fabric, method, optimiser, step)
            yield Update(step, total, batch, loss)
    except GeneratorExit:
        if world == 1:
            _save(run, fabric, method, optimiser, step)
        raise
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
    for step, (ids, pixels) in zip(wanted, _pixels(images, wanted, batch, seed, part), strict=True):
        views = settings.views
        height, width = pixels.shape[2:]
        generator = generator_of(seed, "views", step)
        drawn = views.drawn(objective.num_positives + 1, batch, height, width, generator)
        given = {"views": views.applied(pixels.to(fabric.device), drawn.of(part))}
        given |= {name: codes[ids].to(fabric.device) for name, codes in known.items()}
        if objective.negatives == "queue":
            given["ids"] = ids.to(fabric.device)
        yield given


def _pixels(
    images: Images | FolderImages, wanted: range, batch: int, seed: int, part: slice
) -> Iterable[tuple[Tensor, Tensor]]:
    """Indices and pixels of each step; those of a folder are decoded ahead."""

    def chosen() -> Iterator[Tensor]:
        return (indices_of(step, len(images), batch, seed)[part] for step in wanted)

    pixels = images.prefetched(chosen()) if isinstance(images, FolderImages) else map(images.batch, chosen())
    return zip(chosen(), pixels, strict=True)


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


def _restored(run: Run, fabric: Fabric, method: SimCLR | QueueSimCLR, optimiser: torch.optim.Optimizer) -> int:
    """The step that the newest whole checkpoint stands at, after putting it back; 0 without any."""
    state, refused = latest_checkpoint(run.folder)
    for path in refused:
        fabric.print(f"{path} is damaged and was passed over")
    if state is None and refused:
        raise ValueError(f"no checkpoint in {run.folder} is whole: restore one from a copy, or start a new run")
    start = 0 if state is None else int(state["step"])
    if state is not None:
        difference = state_difference(method.state_dict(), state["module"])
        if difference:
            raise ValueError(f"the checkpoint in {run.folder} is of other settings; {difference}: start a new run")
        restore_(state, fabric, method, optimiser)
    if fabric.broadcast(start) != start:
        raise ValueError(
            "processes see different checkpoints: the run directory must be on a file system they share"
        )
    if fabric.is_global_zero:
        run.forget_after(start)
        for path in refused:
            path.unlink()
    fabric.barrier()
    return start


def _save(
    run: Run, fabric: Fabric, method: SimCLR | QueueSimCLR, optimiser: torch.optim.Optimizer, step: int
) -> None:
    if fabric.is_global_zero:
        save_checkpoint(run.folder, step, state_of(fabric, method, optimiser))
    fabric.barrier()
