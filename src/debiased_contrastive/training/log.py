"""What a training writes down on its way: one line of metrics every few steps."""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

from lightning_fabric import Fabric
from torch import Tensor

from debiased_contrastive.runs import Run
from debiased_contrastive.training.settings import Training


class Board:
    """Curves for TensorBoard; steps after `start` are forgotten."""

    def __init__(self, folder: Path, start: int) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self.writer = SummaryWriter(str(folder / "tensorboard"), purge_step=start + 1)

    def write(self, step: int, values: Mapping[str, Any]) -> None:
        """Add those values that are numbers."""
        for name, value in values.items():
            if isinstance(value, int | float):
                self.writer.add_scalar(name, value, step)
        self.writer.flush()


class Log:
    """Lines of metrics at their steps, with the time between them."""

    def __init__(
        self,
        run: Run,
        fabric: Fabric,
        training: Training,
        *,
        epoch: int,
        start: int,
        unit: str,
        measured: Callable[[int], dict[str, Any]],
        also: Callable[[int], bool],
        tensorboard: bool,
    ) -> None:
        """Epoch: its steps; unit: what a batch consists of; measured: more values; also: further steps to log."""
        self.run, self.fabric, self.training, self.epoch, self.unit = run, fabric, training, epoch, unit
        self.measured, self.also = measured, also
        self.board = Board(run.folder, start) if tensorboard and fabric.is_global_zero else None
        self.seen, self.time = 0, time.perf_counter()

    def after(self, step: int, loss: Tensor, rate: float) -> None:
        """Log if it is time to."""
        self.seen += self.training.batch
        if step % self.training.log_every and not self.also(step) and step > 1:
            return
        values = {
            "epoch": step / self.epoch,
            "loss": float(cast(Tensor, self.fabric.all_reduce(loss.float(), reduce_op="mean"))),
            "learning_rate": rate,
            f"{self.unit}_per_second": self.seen / (time.perf_counter() - self.time),
            **self.measured(step),
        }
        if self.fabric.is_global_zero:
            self.run.log(step, values)
            if self.board is not None:
                self.board.write(step, values)
        self.seen, self.time = 0, time.perf_counter()
