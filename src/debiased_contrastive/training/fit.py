"""A method trained to the end of its run, however often that is interrupted; whatever it is trained on."""

import os
import sys
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from inspect import signature
from pathlib import Path
from typing import Any, cast

import torch
from lightning_fabric import Fabric
from lightning_fabric.strategies.ddp import DDPStrategy
from lightning_fabric.utilities.exceptions import MisconfigurationException
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from debiased_contrastive.runs import (
    ENCODER,
    METRICS,
    SETTINGS,
    Run,
    existing_run,
    is_run,
    new_run,
    settings_difference,
)
from debiased_contrastive.training.checkpoint import check_places, latest_checkpoint, save_checkpoint
from debiased_contrastive.training.log import Log
from debiased_contrastive.training.loop import restore_, state_of, steps
from debiased_contrastive.training.schedule import learning_rate
from debiased_contrastive.training.settings import Training, as_json
from debiased_contrastive.training.state import check_finite, state_difference
from debiased_contrastive.training.weights import load_encoder_weights

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
class Identity:
    """What a checkpoint knows of its run, so that it is continued by the same settings on the same data."""

    settings: dict[str, Any]
    """As JSON holds them."""
    samples: int = 0
    """How many there are to train on; 0 where nothing is read."""
    digest: str = ""
    """Of the data: the same wherever they lie."""

    def check(self, state: Mapping[str, Any], folder: Path, tell: Callable[[str], None]) -> None:
        """Raise where a checkpoint is of another run."""
        if "settings" not in state:
            tell(f"the checkpoint in {folder} does not say which run it is of: an older version wrote it")
            return
        if difference := settings_difference(self.settings, state["settings"]):
            raise ValueError(
                f"the checkpoint in {folder} is of another run, whose {difference}: remove it, or start a new run"
            )
        if (state["samples"], state["digest"]) != (self.samples, self.digest):
            raise ValueError(
                f"{folder} must go on with the data that it began with, {state['samples']:,} samples with digest "
                f"{state['digest'][:8]}; got {self.samples:,} with {self.digest[:8]}: restore them, give their new "
                "place with --data-root, or start a new run"
            )


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
    identity: "Identity"
    """Which run its checkpoints are of."""
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

    Metrics and checkpoints go to the run directory, which nobody else can train in meanwhile. Whoever stops between
    two steps loses nothing: closing the generator writes a checkpoint.
    """
    _check_same_data(course.identity, fabric)
    with _sole_writer(run, fabric):
        yield from _to_the_end(course, run, fabric, tensorboard=tensorboard)


def _to_the_end(course: Course, run: Run, fabric: Fabric, *, tensorboard: bool) -> Generator[Update, None, None]:
    training, method = course.training, course.method
    total = course.epoch * training.epochs
    optimiser = optimiser_of(training, method)
    module, wrapped = fabric.setup(method, optimiser)
    start = _restored(course, run, fabric, optimiser)
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
                _save(course, run, fabric, optimiser, step)
            yield Update(step, total, training.batch, loss)
    except GeneratorExit:
        if fabric.world_size == 1:
            _save(course, run, fabric, optimiser, step)
        raise


@contextmanager
def _sole_writer(run: Run, fabric: Fabric) -> Iterator[None]:
    """Hold the run; where somebody else does, every process raises."""
    with ExitStack() as stack:
        problem = ""
        if fabric.is_global_zero:
            try:
                stack.enter_context(run.hold(_tell(fabric)))
            except (ValueError, OSError) as error:
                problem = str(error)
        if problem := fabric.broadcast(problem):
            raise ValueError(problem)
        yield


def _check_same_data(identity: Identity, fabric: Fabric) -> None:
    """Raise in every process unless all of them read the same data."""
    own = (identity.samples, identity.digest)
    differs = torch.tensor(float(fabric.broadcast(own) != own), device=fabric.device)
    if float(cast(Tensor, fabric.all_reduce(differs, reduce_op="sum"))):
        raise ValueError(
            f"all processes must read the same data; process {fabric.global_rank} reads {identity.samples:,} "
            f"samples with digest {identity.digest[:8]}, another process others: give all of them the same files"
        )


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


def _restored(course: Course, run: Run, fabric: Fabric, optimiser: torch.optim.Optimizer) -> int:
    """The step that the newest whole checkpoint stands at, after putting it back; 0 without any."""
    total = course.epoch * course.training.epochs
    state, refused = newest_state(run, course.method, course.identity, total, _tell(fabric))
    start = 0 if state is None else int(state["step"])
    if fabric.broadcast(start) != start:
        raise ValueError(
            "processes see different checkpoints: the run directory must be on a file system they share"
        )
    if state is not None:
        with putting_back(run):
            restore_(state, fabric, course.method, optimiser)
    if fabric.is_global_zero:
        run.forget_after(start)
        remove_refused(refused)
    fabric.barrier()
    return start


def _tell(fabric: Fabric) -> Callable[[str], None]:
    """One line to the terminal, from one process."""
    return partial(fabric.print, file=sys.stderr)


def remove_refused(paths: Sequence[Path]) -> None:
    """Remove damaged checkpoints, which would otherwise be the newest; what is no file stays where it is."""
    for path in paths:
        if path.is_file():
            path.unlink()


def newest_state(
    run: Run, module: nn.Module, identity: Identity, steps: int, tell: Callable[[str], None]
) -> tuple[dict[str, Any] | None, list[Path]]:
    """The newest whole checkpoint, which must be of this run, None without any; and what was passed over."""
    check_places(run.folder, steps)
    state, refused = latest_checkpoint(run.folder)
    for path in refused:
        tell(f"{path} is no whole checkpoint and was passed over")
    if damaged := run.count_damaged_lines():
        tell(f"{run.folder / METRICS} has {damaged} damaged lines, which were left out")
    if state is None and refused:
        raise ValueError(f"no checkpoint in {run.folder} is whole: restore one from a copy, or start a new run")
    if state is None:
        return None, refused
    identity.check(state, run.folder, tell)
    if state["step"] > steps:
        raise ValueError(f"the checkpoint in {run.folder} stands at step {state['step']} of {steps}: remove it")
    if difference := state_difference(module.state_dict(), state["module"]):
        raise ValueError(f"the checkpoint in {run.folder} is of other settings; {difference}: start a new run")
    return state, refused


@contextmanager
def putting_back(run: Run) -> Iterator[None]:
    """One line where a checkpoint lacks what a training of this kind puts back."""
    try:
        yield
    except (KeyError, TypeError, AttributeError, RuntimeError) as error:
        raise ValueError(
            f"the newest checkpoint in {run.folder} lacks a part of its training ({error!r}): remove it, and the "
            "one before it is used"
        ) from None


def trained_run(folder: Path) -> Run:
    """The run in a folder, which must have come to its end."""
    run = existing_run(folder)
    if not run.is_finished:
        raise FileNotFoundError(f"{folder} is not trained yet: finish it with `debiased resume {folder}`")
    return run


def same_run(folder: Path, settings: Any) -> Run:
    """The run with these settings in a folder, begun if there is none; one with other settings is an error."""
    if not is_run(folder):
        return new_run(folder, as_json(settings))
    run = existing_run(folder)
    if run.settings != as_json(settings):
        raise ValueError(f"{folder} holds a run with other settings: choose another --out, or remove it")
    return run


def load_trained(run: Run, module: nn.Module) -> None:
    """Put the weights of a finished run into a module that was built from its settings."""
    if difference := settings_difference(load_encoder_weights(run.folder, module), run.settings):
        raise ValueError(
            f"{run.folder / SETTINGS} was changed after training, {difference}: restore it from {ENCODER}"
        )


def _save(course: Course, run: Run, fabric: Fabric, optimiser: torch.optim.Optimizer, step: int) -> None:
    # In every process, since all have the same weights; and before a write that would push out a sound checkpoint.
    check_finite(course.method.state_dict(), f"at step {step}")
    if fabric.is_global_zero:
        state = state_of(fabric, course.method, optimiser)
        save_checkpoint(run.folder, step, {**state, **asdict(course.identity)})
    fabric.barrier()
