"""A method trained to the end of its run, however often that is interrupted; whatever it is trained on."""

import os
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from inspect import signature
from pathlib import Path
from typing import Any

import torch
from lightning_fabric import Fabric
from lightning_fabric.strategies.ddp import DDPStrategy
from lightning_fabric.utilities.exceptions import MisconfigurationException
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from debiased_contrastive.encoders.state import state_difference
from debiased_contrastive.experiments.log import Log
from debiased_contrastive.experiments.settings import Training
from debiased_contrastive.runs import Run
from debiased_contrastive.training.checkpoint import latest_checkpoint, save_checkpoint
from debiased_contrastive.training.loop import restore_, state_of, steps
from debiased_contrastive.training.schedule import learning_rate

_IS_NEW = "forward_sync_buffers" in signature(DistributedDataParallel).parameters
_NOT_SENT: dict[str, Any] = {"forward_sync_buffers" if _IS_NEW else "broadcast_buffers": False}
"""An option of DDP, by its version: buffers, of which banks are most, are not sent at every step. All processes
keep theirs the same: batch norm is synchronised, and what queues and banks store is gathered first."""


@dataclass(frozen=True)
class Update:
    """Where a training stands."""

    step: int
    steps: int
    """How many there will be."""
    samples: int
    """In a step, over all processes."""
    loss: Tensor

    @property
    def said(self) -> str:
        """For a bar."""
        return f"loss {float(self.loss):.3f}"


@dataclass(frozen=True)
class Course:
    """All that a training consists of."""

    method: nn.Module
    training: Training
    seed: int
    epoch: int
    """Its steps."""
    inputs: Callable[[range], Iterator[Mapping[str, Any]]]
    """What the method is given at these steps."""
    unit: str
    """What a batch consists of, for the log."""
    measured: Callable[[int], dict[str, Any]]
    """More values to log, by step."""
    also: Callable[[int], bool] = lambda _step: False
    """Further steps to log."""


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
            strategy=DDPStrategy(**_NOT_SENT) if world > 1 else "auto",
        )
    except (RuntimeError, MisconfigurationException) as error:
        raise ValueError(
            f"accelerator={training.accelerator} does not work here ({error}): use auto or cpu"
        ) from None
    fabric.launch()
    return fabric


def device_of(accelerator: str) -> torch.device:
    """Where features are computed: the CPU if the training was kept there, else the best that this machine has."""
    return Fabric(accelerator="cpu" if accelerator == "cpu" else "auto", devices=1).device


def to_the_end(course: Course, run: Run, fabric: Fabric, *, tensorboard: bool) -> Generator[Update, None, None]:
    """Train from the newest checkpoint, or from the start; yields after every step.

    Metrics and checkpoints go to the run directory. Whoever stops between two steps loses nothing: closing the
    generator writes a checkpoint.
    """
    training, method = course.training, course.method
    total = course.epoch * training.epochs
    optimiser = optimiser_of(training, method)
    module, wrapped = fabric.setup(method, optimiser)
    start = _restored(run, fabric, method, optimiser)
    warm_up = course.epoch * training.warm_up
    rate = learning_rate(training.schedule, training.learning_rate, steps=total, warm_up=warm_up)
    given = course.inputs(range(start, total))
    log = Log(
        run,
        fabric,
        training,
        epoch=course.epoch,
        start=start,
        unit=course.unit,
        measured=course.measured,
        also=course.also,
        tensorboard=tensorboard,
    )
    step = start
    try:
        for step, loss in steps(
            fabric, module, wrapped, given, rate=rate, seed=course.seed, start=start, clip=training.clip
        ):
            log.after(step, loss, rate(step - 1))
            if step % (training.checkpoint_every or course.epoch) == 0 or step == total:
                _save(run, fabric, method, optimiser, step)
            yield Update(step, total, training.batch, loss)
    except GeneratorExit:
        if fabric.world_size == 1:
            _save(run, fabric, method, optimiser, step)
        raise


def optimiser_of(training: Training, method: nn.Module) -> torch.optim.Optimizer:
    """Of all that is trained."""
    made: Any = torch.optim.Adam if training.optimiser == "adam" else partial(torch.optim.SGD, momentum=0.9)
    optimiser: torch.optim.Optimizer = made(
        (weight for weight in method.parameters() if weight.requires_grad),
        lr=training.learning_rate,
        weight_decay=training.weight_decay,
        # In one pass over memory, which for tables of words is ten times as fast; with scaled gradients it would do
        # the unscaling, and there would be nothing to clip.
        fused=training.precision != "16-mixed",
    )
    return optimiser


def _restored(run: Run, fabric: Fabric, method: nn.Module, optimiser: torch.optim.Optimizer) -> int:
    """The step that the newest whole checkpoint stands at, after putting it back; 0 without any."""
    state, refused = newest_state(run, method, fabric.print)
    start = 0 if state is None else int(state["step"])
    if state is not None:
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


def newest_state(
    run: Run, module: nn.Module, tell: Callable[[str], None]
) -> tuple[dict[str, Any] | None, list[Path]]:
    """The newest whole checkpoint, which must be of such a module, None without any; and damaged newer files."""
    state, refused = latest_checkpoint(run.folder)
    for path in refused:
        tell(f"{path} is damaged and was passed over")
    if state is None and refused:
        raise ValueError(f"no checkpoint in {run.folder} is whole: restore one from a copy, or start a new run")
    difference = "" if state is None else state_difference(module.state_dict(), state["module"])
    if difference:
        raise ValueError(f"the checkpoint in {run.folder} is of other settings; {difference}: start a new run")
    return state, refused


def _save(run: Run, fabric: Fabric, method: nn.Module, optimiser: torch.optim.Optimizer, step: int) -> None:
    if fabric.is_global_zero:
        save_checkpoint(run.folder, step, state_of(fabric, method, optimiser))
    fabric.barrier()
