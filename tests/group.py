"""One process of several, joined by gloo."""

import gc
import os
import sys
from collections.abc import Callable

import torch
import torch.distributed as dist


def in_group(rank: int, world: int, rendezvous: str, body: Callable[[], None]) -> None:
    """Run the body in this process of a group, and end the process after it; for `spawn`."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", f"file://{rendezvous}", rank=rank, world_size=world)
    try:
        body()
        # Nobody leaves while another still listens.
        dist.barrier()
    finally:
        # What an expected error still refers to must go first, else gloo's threads end the process.
        gc.collect()
        dist.destroy_process_group()
    # Nor may gloo's threads be met by the end of the interpreter: now and then a process would abort there, after
    # everything was compared.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
