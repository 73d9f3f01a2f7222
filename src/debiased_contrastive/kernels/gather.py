"""Rows of all processes, with a backward that gives the gradient of the full batch.

Each process computes its own anchors against everybody's columns. The backward of the gather sums the
gradients of all processes before it takes the own rows; together with DDP's averaging this is the
gradient of the full batch, with no factor for the number of processes.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeGuard, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from debiased_contrastive.numerics import first_derivative

T = TypeVar("T")

# As words, since a torch that was built without processes has no such class.
Gather: TypeAlias = "bool | dist.ProcessGroup"
"""Whether samples of other processes are gathered: of all of them, or of those of a group."""

_NO_SECOND_DERIVATIVE = (
    "gather_distributed has first derivatives only, a derivative of its gradient was asked for: "
    "use one process for gradients of gradients"
)


@dataclass(frozen=True)
class Share:
    """This process's part of the batch."""

    sizes: tuple[int, ...]
    """Number of inputs on each process."""
    rank: int
    """Place of this process among them."""
    group: "dist.ProcessGroup | None" = None
    """The processes that share the batch; None is all."""

    @property
    def is_alone(self) -> bool:
        """Whether this process holds the whole batch."""
        return len(self.sizes) == 1

    @property
    def total(self) -> int:
        """Number of inputs on all processes."""
        return sum(self.sizes)

    @property
    def offset(self) -> int:
        """Number of inputs on the processes before this one."""
        return sum(self.sizes[: self.rank])

    @property
    def weight(self) -> float:
        """The factor of a local mean that makes the mean over processes the mean of the full batch."""
        return len(self.sizes) * self.sizes[self.rank] / self.total


def check_everywhere(
    check: Callable[[], tuple[dict[str, int], T]], names: tuple[str, ...], device: torch.device, *, gather: Gather
) -> tuple[Share, T]:
    """Every process's batch size, and what `check` made of this one's input; if one fails, all raise.

    check: the input's numbers by name, "batch size" first, and anything else. All but the batch size
    must be the same everywhere; `names` lists them, so that a process whose check fails knows how many
    the others send. One that raised alone would leave the others waiting for it.
    """
    if gather is False:
        numbers, result = check()
        return Share((numbers["batch size"],), 0), result
    group = _group(gather)
    problem: Exception | None = None
    try:
        numbers, result = check()
        mine = [0, *(numbers[name] for name in names)]
    except Exception as error:  # whatever it is, the others must hear of it before it is raised
        problem, mine = error, [1] + [0] * len(names)
    header = torch.tensor(mine, device=device)
    headers = [torch.empty_like(header) for _ in range(dist.get_world_size(group))]
    dist.all_gather(headers, header, group)
    if problem is not None:
        raise problem
    rows = [row.tolist() for row in headers]
    _check_headers(rows, names)
    return Share(tuple(row[1] for row in rows), dist.get_rank(group), group), result


def is_group(value: object) -> "TypeGuard[dist.ProcessGroup]":
    """Whether it is a process group."""
    return dist.is_available() and isinstance(value, dist.ProcessGroup)


def _group(gather: Gather) -> "dist.ProcessGroup | None":
    """The processes to gather from, None for all; raise unless this one is among them."""
    if not (dist.is_available() and dist.is_initialized()):
        raise RuntimeError(
            "gather_distributed=True needs an initialised process group, there is none: call "
            "torch.distributed.init_process_group first (torchrun sets its variables), or pass "
            "gather_distributed=False"
        )
    if gather is True:
        return None
    # Where a process is not in a new group, torch gives it a number instead.
    if not is_group(gather) or dist.get_rank(gather) < 0:
        raise ValueError(
            f"gather_distributed must be True, False or a process group that this process is in; got {gather!r}: "
            "torch.distributed.new_group, called on all processes, makes one of some"
        )
    return gather


def _check_headers(rows: list[list[int]], names: tuple[str, ...]) -> None:
    refusing = [rank for rank, row in enumerate(rows) if row[0]]
    if refusing:
        raise ValueError(
            f"every process must pass valid input; process {refusing} refused its own: see its message"
        )
    for k, name in enumerate(names[1:], 2):
        values = [row[k] for row in rows]
        if len(set(values)) > 1:
            raise ValueError(
                f"{name} must be the same on every process; got {values}, by rank: call the loss with the "
                "same arguments and kinds of tensors everywhere"
            )


@torch.no_grad()
def gather_detached(local: Tensor, group: "dist.ProcessGroup | None" = None) -> Tensor:
    """The rows of all processes of a group, as many on each, in the order of their ranks, without a gradient."""
    if not (dist.is_available() and dist.is_initialized()) or dist.get_world_size(group) == 1:
        return local.detach()
    parts = [torch.empty_like(local) for _ in range(dist.get_world_size(group))]
    dist.all_gather(parts, local.contiguous(), group)
    return torch.cat(parts)


def mean_over_processes(value: float, share: Share, device: torch.device) -> float:
    """The mean of a number that every process of the batch has."""
    if share.is_alone:
        return value
    total = torch.tensor(value, dtype=torch.float64, device=device)
    dist.all_reduce(total, group=share.group)
    return float(total) / len(share.sizes)


def is_anywhere(here: bool, share: Share, device: torch.device) -> bool:
    """Whether something is so on any process of the batch; all of them must ask."""
    return here if share.is_alone else mean_over_processes(float(here), share, device) > 0


def gather_rows(local: Tensor, share: Share, *, rows_per_input: int = 1) -> Tensor:
    """The rows of all processes in the order of their ranks."""
    if share.is_alone:
        return local
    result: Tensor = _Gather.apply(local, share, rows_per_input)  # type: ignore[no-untyped-call]
    return result


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, local: Tensor, share: Share, rows_per_input: int) -> Tensor:
        ctx.start, ctx.stop = share.offset * rows_per_input, share.offset * rows_per_input + local.shape[0]
        ctx.group = share.group
        # Not every backend takes tensors of different sizes, so the shorter ones are padded.
        padded = local.new_zeros((max(share.sizes) * rows_per_input, *local.shape[1:]))
        padded[: local.shape[0]] = local
        parts = [torch.empty_like(padded) for _ in share.sizes]
        dist.all_gather(parts, padded, share.group)
        return torch.cat([part[: size * rows_per_input] for part, size in zip(parts, share.sizes, strict=True)])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        total = grad.detach().clone(memory_format=torch.contiguous_format)
        dist.all_reduce(total, group=ctx.group)
        return first_derivative(total[ctx.start : ctx.stop], grad, _NO_SECOND_DERIVATIVE), None, None
