"""What the commands that train share: the bar, the polite end."""

import time
from collections.abc import Generator
from importlib.util import find_spec
from typing import Protocol

from lightning_fabric import Fabric

from debiased_contrastive.cli.terminal import polite_stop, progress, say
from debiased_contrastive.runs import Run


class Step(Protocol):
    """Where a training stands."""

    @property
    def step(self) -> int:
        """How many are done."""

    @property
    def steps(self) -> int:
        """How many there will be."""

    @property
    def samples(self) -> int:
        """Of one step, of whatever speed is counted in."""

    @property
    def said(self) -> str:
        """What else is worth knowing."""


def train_to_the_end(
    updates: Generator[Step, None, None], run: Run, fabric: Fabric, what: str, unit: str, *, quiet: bool
) -> None:
    """Follow a training with a bar; Ctrl-C ends it between two steps, and nothing is lost."""
    if run.is_finished:
        say(f"{run.folder} is finished")
        return
    stopped = False
    # Several processes would have to agree where to stop; there, the last checkpoint stands.
    with (
        polite_stop(fabric.world_size == 1) as stop,
        progress(what, quiet=quiet or not fabric.is_global_zero) as bar,
    ):
        seen, start = 0, time.perf_counter()
        for update in updates:
            seen += update.samples
            if fabric.is_global_zero:
                speed = seen / (time.perf_counter() - start)
                bar.at(update.step, update.steps, ", ".join(filter(None, (f"{speed:,.0f} {unit}/s", update.said))))
            if stop.asked and update.step < update.steps:
                # Between two steps: closing writes a checkpoint.
                updates.close()
                stopped = True
                break
    if stopped:
        say(f"stopped at step {update.step}; go on with: debiased resume {run.folder}")
        raise KeyboardInterrupt
    if fabric.is_global_zero:
        say(f"trained; next: debiased evaluate {run.folder}")


def check_tensorboard(wanted: bool) -> None:
    """Raise where curves for TensorBoard are wanted and it is not there."""
    if wanted and find_spec("tensorboard") is None:
        raise ValueError(
            "--tensorboard needs the package tensorboard: pip install 'debiased-contrastive[tensorboard]'"
        )
