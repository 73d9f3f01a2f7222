"""The one loop that trains every domain, to the end of a run, however often that is interrupted."""

import sys
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol, cast

import torch
from lightning_fabric import Fabric
from torch import Tensor, nn

from debiased_contrastive.runs import METRICS, Run, settings_difference
from debiased_contrastive.training.checkpoint import check_places, latest_checkpoint, save_checkpoint
from debiased_contrastive.training.loggers import Loggers, LogName
from debiased_contrastive.training.weights import check_finite, state_difference, with_current_names


class Learner(Protocol):
    """Whatever learns step by step, and can be put back to where it stood."""

    step: int
    """Steps that are done."""
    steps: int
    """Steps of the whole training."""
    samples: int
    """Samples of a step, over all processes."""
    unit: str
    """What a sample is, such as images."""
    log_every: int
    checkpoint_every: int

    @property
    def module(self) -> nn.Module:
        """Its weights are in every checkpoint, and must be finite there."""

    def learn(self) -> None:
        """Do one step."""

    def is_due(self) -> bool:
        """Tell whether the step that was just done is logged in any case."""

    def measure(self, steps: int, seconds: float) -> dict[str, Any]:
        """Return what is logged after so many steps and seconds; it is called on every process."""

    def note(self) -> str:
        """Return a few words for a progress bar."""

    def state(self, folder: Path) -> dict[str, Any]:
        """Return all that the next step depends on, with a `module`; more may be written to files of the folder."""

    def restore(self, folder: Path, state: Mapping[str, Any]) -> None:
        """Put back what `state` returned."""

    def forget(self, folder: Path) -> None:
        """Remove what `state` wrote to files of the folder."""


@dataclass(frozen=True)
class Update:
    """Where a training stands after a step."""

    step: int
    steps: int
    """Steps of the whole training."""
    samples: int
    """Samples of a step, over all processes."""
    note: Callable[[], str]
    """A few words for a progress bar; to ask for them may wait for the device."""


@dataclass(frozen=True)
class Identity:
    """The settings and data of a run; a checkpoint holds them, so that no other run continues from it."""

    settings: dict[str, Any]
    """As JSON holds them."""
    samples: int = 0
    """Number of samples to train on; 0 where nothing is read."""
    digest: str = ""
    """A digest of the data: the same wherever they lie."""

    def check(self, state: Mapping[str, Any], folder: Path, tell: Callable[[str], None]) -> None:
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


def fit(
    learner: Learner, run: Run, fabric: Fabric, identity: Identity, *, log: Sequence[LogName] = ()
) -> Generator[Update, None, None]:
    """Train from the newest checkpoint, or from the start, and yield after every step.

    Metrics and checkpoints go to the run directory, which nobody else can train in meanwhile. Whoever stops between
    two steps loses nothing: closing the generator writes a checkpoint.

    Args:
        learner: What is trained.
        run: The run directory.
        fabric: Launched devices.
        identity: The settings and data that the checkpoints must have.
        log: Where metrics go beside metrics.jsonl.
    """
    _check_same_data(identity, fabric)
    with _sole_writer(run, fabric):
        _restore(learner, run, fabric, identity)
        lines, status = Log(learner, run, fabric, log), "failed"
        try:
            while learner.step < learner.steps:
                learner.learn()
                lines.write_if_due()
                if learner.step % learner.checkpoint_every == 0 or learner.step == learner.steps:
                    _save(learner, run, fabric, identity)
                yield Update(learner.step, learner.steps, learner.samples, learner.note)
            status = "success"
        except GeneratorExit:
            # Several processes would have to agree where to stop; there, the last checkpoint stands.
            if fabric.world_size == 1:
                _save(learner, run, fabric, identity)
            raise
        finally:
            lines.close(status)


class Log:
    """Lines of metrics every few steps, with the time between them."""

    def __init__(self, learner: Learner, run: Run, fabric: Fabric, log: Sequence[LogName] = ()) -> None:
        self.learner, self.run, self.is_first = learner, run, fabric.is_global_zero
        self.loggers = Loggers(log if self.is_first else (), run, learner.step)
        self._restart_clock()

    def close(self, status: str) -> None:
        self.loggers.close(status)

    def _restart_clock(self) -> None:
        self.step, self.start = self.learner.step, time.perf_counter()

    def write_if_due(self) -> None:
        step = self.learner.step
        if step % self.learner.log_every and not self.learner.is_due():
            return
        # Before measuring, which may take longer than the steps.
        seconds = time.perf_counter() - self.start
        values = self.learner.measure(step - self.step, seconds)
        if self.is_first:
            self.run.log(step, values)
        self.loggers.write(step, values)
        self._restart_clock()


@contextmanager
def _sole_writer(run: Run, fabric: Fabric) -> Iterator[None]:
    """Hold the lock of the run; where somebody else holds it, every process raises."""
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


def _restore(learner: Learner, run: Run, fabric: Fabric, identity: Identity) -> None:
    """Put back the newest whole checkpoint, if there is any, and forget what was logged after it."""
    state, refused = _newest_state(learner, run, identity, _tell(fabric))
    start = 0 if state is None else int(state["step"])
    if fabric.broadcast(start) != start:
        raise ValueError(
            "processes see different checkpoints: the run directory must be on a file system they share"
        )
    if state is None:
        # A crash before the first checkpoint may have left files.
        learner.forget(run.folder)
    else:
        with _explain_missing_parts(run):
            learner.restore(run.folder, state)
    if fabric.is_global_zero:
        run.forget_after(start)
        for path in refused:
            # Damaged checkpoints would be the newest; what is no file stays where it is.
            if path.is_file():
                path.unlink()
    fabric.barrier()


def _newest_state(
    learner: Learner, run: Run, identity: Identity, tell: Callable[[str], None]
) -> tuple[dict[str, Any] | None, list[Path]]:
    """Load the newest whole checkpoint, which must be of this run, None without any; and list what was refused."""
    check_places(run.folder, learner.steps)
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
    if state["step"] > learner.steps:
        raise ValueError(
            f"the checkpoint in {run.folder} stands at step {state['step']} of {learner.steps}: remove it"
        )
    state["module"] = with_current_names(learner.module, state["module"])
    if difference := state_difference(learner.module.state_dict(), state["module"]):
        raise ValueError(f"the checkpoint in {run.folder} is of other settings; {difference}: start a new run")
    return state, refused


@contextmanager
def _explain_missing_parts(run: Run) -> Iterator[None]:
    """Raise one line where a checkpoint lacks what the learner restores."""
    try:
        yield
    except (KeyError, TypeError, AttributeError, RuntimeError) as error:
        raise ValueError(
            f"the newest checkpoint in {run.folder} lacks a part of its training ({error!r}): remove it, and the "
            "one before it is used"
        ) from None


def _save(learner: Learner, run: Run, fabric: Fabric, identity: Identity) -> None:
    # Every process checks, since all have the same weights, and before a write that would push out a sound one.
    check_finite(learner.module.state_dict(), f"at step {learner.step}")
    if fabric.is_global_zero:
        save_checkpoint(run.folder, learner.step, {**learner.state(run.folder), **asdict(identity)})
    fabric.barrier()


def _tell(fabric: Fabric) -> Callable[[str], None]:
    return partial(fabric.print, file=sys.stderr)
