"""Learning by gradient steps: a module whose call gives a loss, an optimiser, a schedule of the learning rate."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, cast

import torch
from lightning_fabric import Fabric
from torch import Tensor, nn

from debiased_contrastive.numerics import derive_seed, make_generator
from debiased_contrastive.training.settings import Order, Schedule, Training


class GradientLearner:
    """A method that `fit` trains by gradient steps."""

    def __init__(
        self,
        method: nn.Module,
        training: Training,
        fabric: Fabric,
        *,
        seed: int,
        epoch: int,
        unit: str,
        inputs: Callable[[range], Iterator[Mapping[str, Any]]],
        measure: Callable[[int], dict[str, Any]],
        is_due: Callable[[int], bool] = lambda _step: False,
    ) -> None:
        """Set up modules and optimiser on the devices of `fabric`.

        Args:
            method: The module that is trained; its call returns the loss.
            training: How long and how fast to train.
            fabric: Launched devices.
            seed: Determines the random numbers of every step.
            epoch: Number of steps in an epoch.
            unit: What a batch consists of, such as images.
            inputs: Yields the arguments of the method at the given steps, one after the other.
            measure: Returns more values to log after a step; it is called on every process.
            is_due: Tells whether a step is logged beside every `log_every`-th.
        """
        self.module, self.training, self.fabric, self.seed, self.epoch = method, training, fabric, seed, epoch
        self.unit, self.samples = unit, training.batch
        self.step, self.steps = 0, epoch * training.epochs
        self.log_every, self.checkpoint_every = training.log_every, training.checkpoint_every or epoch
        self.optimiser = make_optimiser(training, method)
        self.wrapped, self.wrapped_optimiser = fabric.setup(method, self.optimiser)
        self.rate = learning_rate(
            training.schedule, training.learning_rate, steps=self.steps, warm_up=epoch * training.warm_up
        )
        self._inputs, self._measure, self._is_due = inputs, measure, is_due
        self._steps: Iterator[tuple[int, Tensor]] | None = None
        self.loss: Tensor | None = None

    def learn(self) -> None:
        if self._steps is None:
            inputs = self._inputs(range(self.step, self.steps))
            self._steps = gradient_steps(
                self.fabric, self.wrapped, self.wrapped_optimiser, inputs,
                rate=self.rate, seed=self.seed, start=self.step, clip=self.training.clip,
            )  # fmt: skip
        self.step, self.loss = next(self._steps)

    def is_due(self) -> bool:
        return self.step == 1 or self._is_due(self.step)

    def measure(self, steps: int, seconds: float) -> dict[str, Any]:
        assert self.loss is not None
        loss = cast(Tensor, self.fabric.all_reduce(self.loss.float(), reduce_op="mean"))
        return {
            "epoch": self.step / self.epoch,
            "loss": float(loss),
            "learning_rate": self.rate(self.step - 1),
            f"{self.unit}_per_second": steps * self.samples / seconds,
            **self._measure(self.step),
        }

    def note(self) -> str:
        return "" if self.loss is None else f"loss {float(self.loss):.3f}"

    def state(self, _folder: Path) -> dict[str, Any]:
        return gradient_state(self.fabric, self.module, self.optimiser)

    def restore(self, _folder: Path, state: Mapping[str, Any]) -> None:
        restore_gradient_state(state, self.fabric, self.module, self.optimiser)
        self.step = int(state["step"])

    def forget(self, _folder: Path) -> None:
        """Do nothing: all of the state is in the checkpoints."""


def gradient_steps(
    fabric: Fabric,
    module: Callable[..., Tensor],
    optimiser: torch.optim.Optimizer,
    inputs: Iterable[Mapping[str, Any]],
    *,
    rate: Callable[[int], float],
    seed: int,
    start: int = 0,
    clip: float = 0.0,
) -> Iterator[tuple[int, Tensor]]:
    """Train on one input after the other, and yield the number of steps done with the loss before each.

    `module` and `optimiser` come from `fabric.setup`. Whatever the module draws from torch's generator depends on
    seed, step and process alone. `clip` is the largest norm of each parameter's gradient; 0 sets no limit.
    """
    for step, given in enumerate(inputs, start):
        torch.manual_seed(derive_seed(seed, "step", step, fabric.global_rank))
        for group in optimiser.param_groups:
            group["lr"] = rate(step)
        loss = module(**given)
        fabric.backward(loss)
        if clip:
            # Half precision scales gradients up.
            fabric.strategy.precision.unscale_gradients(getattr(optimiser, "optimizer", optimiser))
            _clip(optimiser, clip)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        yield step + 1, loss.detach()


def _clip(optimiser: torch.optim.Optimizer, max_norm: float) -> None:
    # Each parameter is clipped by itself, not all of them together.
    for weight in (weight for group in optimiser.param_groups for weight in group["params"]):
        if weight.grad is not None:
            torch.nn.utils.clip_grad_norm_([weight], max_norm)


def gradient_state(fabric: Fabric, module: nn.Module, optimiser: torch.optim.Optimizer) -> dict[str, Any]:
    """Return everything that the next step depends on, but seed and step."""
    return {
        "module": module.state_dict(),
        "optimiser": optimiser.state_dict(),
        "precision": fabric.strategy.precision.state_dict(),
    }


def restore_gradient_state(
    state: Mapping[str, Any], fabric: Fabric, module: nn.Module, optimiser: torch.optim.Optimizer
) -> None:
    """Put back what `gradient_state` took."""
    module.load_state_dict(state["module"])
    optimiser.load_state_dict(state["optimiser"])
    fabric.strategy.precision.load_state_dict(state["precision"])


def make_optimiser(training: Training, method: nn.Module) -> torch.optim.Optimizer:
    make: Any = torch.optim.Adam if training.optimiser == "adam" else partial(torch.optim.SGD, momentum=0.9)
    optimiser: torch.optim.Optimizer = make(
        (weight for weight in method.parameters() if weight.requires_grad),
        lr=training.learning_rate,
        weight_decay=training.weight_decay,
        # One pass over memory is ten times as fast for tables of words. With scaled gradients it would also unscale
        # them, and there would be nothing to clip.
        fused=training.precision != "16-mixed",
    )
    return optimiser


def learning_rate(schedule: Schedule, base: float, *, steps: int, warm_up: int = 0) -> Callable[[int], float]:
    """The learning rate as a function of the step: linear up to `base`, then constant, a cosine to 0, or steps.

    A resumed run has nothing to restore. The schedule "steps" divides the rate by ten at 1/2, 2/3 and 5/6 of all
    steps.

    >>> rate = learning_rate("cosine", 1.0, steps=5, warm_up=1)
    >>> [round(rate(step), 2) for step in range(5)]
    [1.0, 1.0, 0.85, 0.5, 0.15]
    """

    def rate(step: int) -> float:
        if step < warm_up:
            return base * (step + 1) / warm_up
        if schedule == "constant":
            return base
        if schedule == "steps":
            return base * 0.1 ** sum(step >= share * steps for share in (1 / 2, 2 / 3, 5 / 6))
        return base * (1 + math.cos(math.pi * (step - warm_up) / max(1, steps - warm_up))) / 2

    return rate


def steps_per_epoch(num_samples: int, batch: int) -> int:
    """Number of whole batches in one pass over the data; the samples that remain are dropped."""
    if not 2 <= batch <= num_samples:
        raise ValueError(
            f"batch must lie between 2 and the number of samples, {num_samples}; got {batch}: a batch needs "
            "other inputs, and at least one must be whole"
        )
    return num_samples // batch


def draw_batch(step: int, num_samples: int, batch: int, seed: int, order: Order = "epochs") -> Tensor:
    """Draw (batch,) different samples for a step.

    With the order "epochs", every epoch is a fresh permutation, cut into whole batches. With "drawn", a batch does
    not depend on the others, so that nothing tells which samples come next.
    """
    epoch, place = divmod(step, steps_per_epoch(num_samples, batch))
    if order == "drawn":
        return torch.randperm(num_samples, generator=make_generator(seed, "batch", step))[:batch]
    return _permutation(epoch, num_samples, seed)[place * batch : (place + 1) * batch].clone()


# Two epochs are kept, since a prefetching reader is ahead of the one that trains.
@lru_cache(maxsize=2)
def _permutation(epoch: int, num_samples: int, seed: int) -> Tensor:
    return torch.randperm(num_samples, generator=make_generator(seed, "order", epoch))
