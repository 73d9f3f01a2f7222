"""What a training runs on: devices and processes by Lightning Fabric, and the memory of the machine."""

import contextlib
import ctypes
import math
import os
from collections.abc import Callable
from inspect import signature
from typing import Any, TypeVar, cast

import torch
from lightning_fabric import Fabric
from lightning_fabric.strategies.ddp import DDPStrategy
from lightning_fabric.utilities.exceptions import MisconfigurationException
from torch.nn.parallel import DistributedDataParallel

from debiased_contrastive.training.settings import Precision

T = TypeVar("T")

_IS_NEW = "forward_sync_buffers" in signature(DistributedDataParallel).parameters
_KEEP_BUFFERS: dict[str, Any] = {"forward_sync_buffers" if _IS_NEW else "broadcast_buffers": False}
"""Tell DDP, by an option whose name depends on its version, not to send buffers such as memory banks at every step.
They are equal anyway: batch norm is synchronised, and what queues and banks store is gathered first."""


def start_fabric(accelerator: str, precision: Precision = "32-true") -> Fabric:
    """Launch devices and precision; the processes are those of torchrun, one where it is not used."""
    here = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    world = int(os.environ.get("WORLD_SIZE", "1"))
    try:
        fabric = Fabric(
            accelerator=accelerator,
            devices=here,
            num_nodes=world // here,
            precision=precision,
            strategy=DDPStrategy(**_KEEP_BUFFERS) if world > 1 else "auto",
        )
    except (RuntimeError, MisconfigurationException) as error:
        raise ValueError(f"accelerator={accelerator} does not work here ({error}): use auto or cpu") from None
    fabric.launch()
    return fabric


def compute_once(fabric: Fabric, compute: Callable[[], T]) -> T:
    """Compute something on the first process, and send it to the others; if it is refused, all of them raise."""
    result, problem = None, ""
    if fabric.is_global_zero:
        try:
            result = compute()
        except ValueError as error:
            problem = str(error)
    result, problem = fabric.broadcast((result, problem))
    if problem:
        raise ValueError(problem)
    return cast(T, result)


def choose_device(accelerator: str) -> torch.device:
    """Choose where features are computed: the CPU if it was asked for, else the best device of this machine."""
    return Fabric(accelerator="cpu" if accelerator == "cpu" else "auto", devices=1).device


def keep_freed_memory() -> None:
    """Let glibc, where it is used, keep freed memory: on CPUs, to return it and ask again slows every step."""
    with contextlib.suppress(AttributeError, OSError):
        libc = ctypes.CDLL(None)
        for option in (-1, -3):  # M_TRIM_THRESHOLD, M_MMAP_THRESHOLD
            libc.mallopt(option, 2**30)


def physical_memory() -> float:
    """Bytes of memory that this machine has; infinite where it does not say."""
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, OSError, ValueError):
        return math.inf
