"""The loop on Lightning Fabric, for any module whose call gives a loss; and all that a resume needs."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import torch
from lightning_fabric import Fabric
from torch import Tensor, nn

from debiased_contrastive.numerics import seed_of


def steps(
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

    `module` and `optimiser` come from `fabric.setup`. It is a generator: logs, checkpoints and the end are
    plain code around it. Whatever the module draws from torch's generator depends on seed, step and
    process alone. clip: largest length of the gradient of each parameter, 0 is no limit.
    """
    for step, given in enumerate(inputs, start):
        torch.manual_seed(seed_of(seed, "step", step, fabric.global_rank))
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


def _clip(optimiser: torch.optim.Optimizer, most: float) -> None:
    """Each parameter by itself, unlike the length of all together."""
    for group in optimiser.param_groups:
        for parameter in group["params"]:
            if parameter.grad is not None:
                torch.nn.utils.clip_grad_norm_([parameter], most)


def state_of(fabric: Fabric, module: nn.Module, optimiser: torch.optim.Optimizer) -> dict[str, Any]:
    """Everything that the next step depends on, but seed and step."""
    return {
        "module": module.state_dict(),
        "optimiser": optimiser.state_dict(),
        "precision": fabric.strategy.precision.state_dict(),
    }


def restore_(state: Mapping[str, Any], fabric: Fabric, module: nn.Module, optimiser: torch.optim.Optimizer) -> None:
    """Put back what `state_of` took."""
    module.load_state_dict(state["module"])
    optimiser.load_state_dict(state["optimiser"])
    fabric.strategy.precision.load_state_dict(state["precision"])
