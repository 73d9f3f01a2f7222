"""Tensors that are spread over processes: DTensors are refused, what modules under FSDP2 give is used as it is."""

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed.fsdp
from torch import nn
from torch.multiprocessing.spawn import spawn

import debiased_contrastive as dc
from tests.group import in_group

WORLD, B, D = 2, 4, 6


def work(rank: int, rendezvous: str) -> None:
    in_group(rank, WORLD, rendezvous, lambda: check(rank))


def check(rank: int) -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    mesh = init_device_mesh("cpu", (WORLD,))
    x = torch.randn(2, WORLD * B, D, generator=torch.Generator().manual_seed(0))
    loss = dc.DebiasedNTXentLoss(gather_distributed=True)
    for placement in (Shard(0), Replicate()):
        views = [distribute_tensor(view, mesh, [placement]) for view in x]
        with pytest.raises(
            ValueError, match=r"view 0 must be a plain tensor; got a DTensor: pass its .to_local\(\)"
        ):
            loss(*views)
        with pytest.raises(ValueError, match="positive must be a plain tensor; got a DTensor"):
            dc.contrastive_loss(views[0][:, 0], views[1])
    want = dc.DebiasedNTXentLoss()(*x)
    views = [distribute_tensor(view, mesh, [Shard(0)]) for view in x]
    value = loss(*(view.to_local() for view in views))
    torch.distributed.all_reduce(value)
    torch.testing.assert_close(value / WORLD, want)
    check_fsdp(mesh, x, rank)


def check_fsdp(mesh: Any, x: torch.Tensor, rank: int) -> None:
    torch.manual_seed(1)
    alone = nn.Linear(D, D)
    together = nn.Linear(D, D)
    together.load_state_dict(alone.state_dict())
    torch.distributed.fsdp.fully_shard(together, mesh=mesh)
    want = dc.DebiasedNTXentLoss()(*alone(x))
    want.backward()
    value = dc.DebiasedNTXentLoss(gather_distributed=True)(*together(x[:, B * rank : B * (rank + 1)]))
    value.backward()
    for own, parameter in zip(together.parameters(), alone.parameters(), strict=True):
        torch.testing.assert_close(own.grad.full_tensor(), parameter.grad, rtol=1e-4, atol=1e-6)  # type: ignore[union-attr]
    total = value.detach()
    torch.distributed.all_reduce(total)
    torch.testing.assert_close(total / WORLD, want.detach())


@pytest.mark.skipif(not hasattr(torch.distributed.fsdp, "fully_shard"), reason="FSDP2 came with torch 2.6")
def test_dtensors_are_refused_and_sharded_encoders_are_right(tmp_path: Path) -> None:
    spawn(work, args=(str(tmp_path / "rendezvous"),), nprocs=WORLD)
