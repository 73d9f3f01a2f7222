"""Tutorial: several processes. Run it alone, and as `torchrun --nproc-per-node 2 examples/several_processes.py`."""

import gc
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import debiased_contrastive as dc

BATCH = 64


def main() -> None:
    together = int(os.environ.get("WORLD_SIZE", "1")) > 1
    if together:
        dist.init_process_group("gloo")  # "nccl" on GPUs
    rank, world = (dist.get_rank(), dist.get_world_size()) if together else (0, 1)

    torch.manual_seed(0)  # the same weights on every process
    encoder: nn.Module = nn.Linear(32, 16)
    if together:
        encoder = DistributedDataParallel(encoder)
    loss = dc.DebiasedNTXentLoss(temperature=0.5, tau_plus=0.1, gather_distributed=together)

    x = torch.randn(BATCH, 32)  # the whole batch; each process takes its part
    x0, x1 = (part.chunk(world)[rank] for part in (x + 0.1 * torch.randn_like(x), x + 0.1 * torch.randn_like(x)))
    value = loss(encoder(x0), encoder(x1))
    value.backward()

    mean = value.detach().clone()
    if together:
        dist.all_reduce(mean)
        mean /= world
    gradient = next(encoder.parameters()).grad
    assert gradient is not None
    if rank == 0:
        seen = loss.diagnostics.num_unlabeled
        print(f"loss {mean.item():.5f}, gradient {gradient.norm().item():.5f}, {seen:.0f} unlabeled samples")
    if together:
        dist.barrier()  # nobody leaves while others still send
        del encoder, value  # they hold on to the group, whose threads must end before Python does
        gc.collect()
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
