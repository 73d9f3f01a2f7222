"""What each of two processes does: the adapters where their libraries gather, beside the peer and the full batch."""

import importlib
import importlib.util
import sys
import warnings
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from tests.group import in_group

EACH, D = 5, 4
"""Number of inputs on each process, and of features."""


def work(rank: int, world: int, rendezvous: str) -> None:
    in_group(rank, world, rendezvous, _compare)


def _compare() -> None:
    if importlib.util.find_spec("torchvision") is not None:
        importlib.import_module("benchmarks.contenders").load_torchvision()
    adapters = {"pytorch_metric_learning": _metric_learning, "open_clip": _open_clip, "lightly": _lightly}
    for name, compare in adapters.items():
        if importlib.util.find_spec(name) is not None:
            compare()
        else:
            print(f"{name} is not installed: not compared", file=sys.stderr)


def _inputs() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(EACH * dist.get_world_size(), D, generator=generator, dtype=torch.float64)
    first, second = (x + torch.randn(x.shape, generator=generator, dtype=x.dtype) for _ in range(2))
    return first.requires_grad_(), second.requires_grad_()


def _own(z: Tensor) -> Tensor:
    return z[EACH * dist.get_rank() :][:EACH]


def _results(call: Callable[..., Tensor], *inputs: Tensor) -> list[Tensor]:
    value = call(*inputs)
    return [value.detach(), *torch.autograd.grad(value, inputs)]


def _mean(results: list[Tensor]) -> list[Tensor]:
    """Over processes, as DDP does with gradients."""
    for each in results:
        dist.all_reduce(each)
        each /= dist.get_world_size()
    return results


def _assert_same(ours: list[Tensor], others: list[Tensor]) -> None:
    for one, other in zip(ours, others, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)


def _metric_learning() -> None:
    from pytorch_metric_learning.losses import CrossBatchMemory
    from pytorch_metric_learning.losses import NTXentLoss as Peer
    from pytorch_metric_learning.utils.distributed import DistributedLossWrapper

    from debiased_contrastive.integrations.pytorch_metric_learning import NTXentLoss

    z, _ = _inputs()
    labels = torch.arange(len(z)) % 3
    for efficient in (False, True):
        ours, theirs = (
            DistributedLossWrapper(loss, efficient=efficient) for loss in (NTXentLoss(0.2, tau_plus=0.0), Peer(0.2))
        )
        _assert_same(*(_results(lambda z, loss=loss: loss(_own(z), _own(labels)), z) for loss in (ours, theirs)))
    debiased = NTXentLoss(0.2, tau_plus=0.1)
    here = _mean(_results(lambda z: DistributedLossWrapper(debiased)(_own(z), _own(labels)), z))
    # The wrapper multiplies by the number of processes, so that DDP's mean is the gradient of the full batch.
    full = _results(lambda z: debiased(z, labels), z)
    _assert_same(here, [len(z) // EACH * full[0], full[1]])
    memories = [DistributedLossWrapper(CrossBatchMemory(loss, D, 64)) for loss in (NTXentLoss(0.2, 0.0), Peer(0.2))]
    for _ in range(2):
        _assert_same(*(_results(lambda z, loss=loss: loss(_own(z), _own(labels)), z) for loss in memories))


def _open_clip() -> None:
    from open_clip.loss import ClipLoss

    from debiased_contrastive.integrations.open_clip import DebiasedClipLoss

    group: Any = {"rank": dist.get_rank(), "world_size": dist.get_world_size()}
    inputs = (*_inputs(), torch.tensor(10.0, dtype=torch.float64, requires_grad=True))

    def call(loss: Callable[..., Tensor]) -> Callable[..., Tensor]:
        return lambda image, text, scale: loss(_own(image), _own(text), scale)

    theirs = ClipLoss(local_loss=True, gather_with_grad=True, **group)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "torch.distributed.nn.functional.all_gather is deprecated", FutureWarning)
        mine, peers = (_results(call(loss), *inputs) for loss in (DebiasedClipLoss(0.0, **group), theirs))
    # Here the scale also receives its part in the anchors of other processes; DDP's mean is the same.
    _assert_same(mine[:3] + _mean(mine[3:]), peers[:3] + _mean(peers[3:]))
    for known in ({}, {"ids": torch.arange(len(inputs[0])) % 7}):
        here = _mean(
            _results(
                lambda image, text, scale, known=known: DebiasedClipLoss(0.05, **group)(
                    _own(image), _own(text), scale, **{name: _own(each) for name, each in known.items()}
                ),
                *inputs,
            )
        )
        _assert_same(here, _results(lambda *z, known=known: DebiasedClipLoss(0.05)(*z, **known), *inputs))


def _lightly() -> None:
    from lightly.loss import NTXentLoss as Peer

    from debiased_contrastive.integrations.lightly import NTXentLoss

    views = _inputs()
    for size in (0, (16, D)):
        torch.manual_seed(dist.get_rank())  # Banks begin differently.
        theirs = Peer(0.3, size, gather_distributed=True).double()
        ours = NTXentLoss(0.3, size, gather_distributed=True, tau_plus=0.0).double()
        if size:
            theirs.memory_bank.bank = torch.nn.functional.normalize(theirs.memory_bank.bank, dim=1)
        ours.memory_bank.bank = theirs.memory_bank.bank.clone()
        for _ in range(3):
            _assert_same(
                *(_results(lambda z, w, loss=loss: loss(_own(z), _own(w)), *views) for loss in (ours, theirs))
            )
        _assert_same([ours.memory_bank.bank], [theirs.memory_bank.bank])
    here = NTXentLoss(0.3, gather_distributed=True, tau_plus=0.05)
    _assert_same(
        _mean(_results(lambda z, w: here(_own(z), _own(w)), *views)),
        _results(NTXentLoss(0.3, tau_plus=0.05), *views),
    )
