"""What each process of the distributed tests does: the full batch alone, its share with others, compare."""

import copy
import math
import pickle
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

import debiased_contrastive as dc
from debiased_contrastive.kernels.gather import gather_detached
from tests.group import in_group

D, T = 6, 0.3
TOLERANCE = {torch.float32: 1e-6, torch.float64: 1e-12}

Call = Callable[[nn.Module, nn.Module, slice], Tensor]
"""Loss and encoder in, loss of the inputs in the slice out."""


class Table(nn.Module):
    """Embeddings that are parameters: their gradient is a sum over nothing, so no rounding hides in it."""

    def __init__(self, views: Tensor) -> None:
        super().__init__()
        self.views = nn.Parameter(views.clone())

    def forward(self, part: slice) -> Tensor:
        return self.views[:, part]


class Projection(nn.Module):
    """A layer over fixed inputs, as encoders are."""

    def __init__(self, views: Tensor) -> None:
        super().__init__()
        self.register_buffer("views", views)
        torch.manual_seed(0)
        self.layer = nn.Linear(D, D, bias=False).to(views.dtype)

    def forward(self, part: slice) -> Tensor:
        assert isinstance(self.views, Tensor)
        result: Tensor = self.layer(self.views[:, part])
        return result


def inputs(b: int, dtype: torch.dtype) -> Tensor:
    """(3, b, D) views that resemble each other."""
    generator = torch.Generator().manual_seed(b)
    x = torch.randn(b, D, generator=generator, dtype=torch.float64)
    return (x + 0.5 * torch.randn(3, b, D, generator=generator, dtype=torch.float64)).to(dtype)


def calls(b: int, dtype: torch.dtype) -> Iterator[tuple[str, Callable[..., nn.Module], dict[str, Any], Call]]:
    generator = torch.Generator().manual_seed(b)

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)

    queue, bank = draw(9, D), draw(b, 4, D)
    labels = torch.arange(b) % 3
    partly = torch.where(torch.arange(b) % 4 == 3, -1, labels)
    taus = torch.linspace(0, 0.3, b, dtype=dtype)
    nt_xent, info_nce = dc.DebiasedNTXentLoss, dc.DebiasedInfoNCELoss

    def of_views(count: int, **codes: Tensor) -> Call:
        def call(loss: nn.Module, encoder: nn.Module, part: slice) -> Tensor:
            z = encoder(part)[:count]
            result: Tensor = loss(*z, **{name: code[part] for name, code in codes.items()})
            return result

        return call

    def of_features(**told: Tensor) -> Call:
        def call(loss: nn.Module, encoder: nn.Module, part: slice) -> Tensor:
            result: Tensor = loss(encoder(part).movedim(0, 1), **{name: code[part] for name, code in told.items()})
            return result

        return call

    def with_hard_negatives(with_log_q: bool) -> Call:
        """Columns of a mask are the keys of all, then the hard negatives of all, which are the third views."""

        def call(loss: nn.Module, encoder: nn.Module, part: slice) -> Tensor:
            query, key, hard = encoder(part)
            popularity = [log_q[part], more_log_q[part]]
            rest = {"log_q": torch.cat(popularity)} if with_log_q else {"exclude": exclude[part]}
            result: Tensor = loss(query, key, hard_negatives=hard.unsqueeze(1), ids=labels[part], **rest)
            return result

        return call

    def of_negatives(negatives: Callable[[slice], Tensor]) -> Call:
        def call(loss: nn.Module, encoder: nn.Module, part: slice) -> Tensor:
            query, key, _ = encoder(part)
            result: Tensor = loss(query, key, negatives(part))
            return result

        return call

    yield "nt_xent", nt_xent, {}, of_views(2)
    yield "nt_xent, 3 views", nt_xent, {"tau_plus": 0.3}, of_views(3)
    yield "nt_xent, labels", nt_xent, {}, of_views(2, labels=labels)
    yield "nt_xent, known positives", nt_xent, {}, of_views(2, positive_labels=partly)
    yield "nt_xent, tau per input", nt_xent, {}, of_views(2, tau_plus=taus)
    yield "nt_xent, hard, sum", nt_xent, {"beta": 1.0, "reduction": "sum"}, of_views(2)
    yield "nt_xent, all on the floor", nt_xent, {"tau_plus": 0.9}, of_views(2)
    yield "nt_xent, decoupled", nt_xent, {"decoupled": True}, of_views(2)
    yield "info_nce", info_nce, {}, of_views(2)
    yield "info_nce, symmetric", info_nce, {"symmetric": True}, of_views(2)
    yield "info_nce, symmetric, labels", info_nce, {"symmetric": True}, of_views(2, labels=labels)
    yield "info_nce, ids", info_nce, {}, of_views(2, ids=labels)
    p = torch.softmax(2 * draw(b, 3), 1) * 0.9
    groups = torch.arange(2 * b).view(b, 2) % 5 - 1
    w = draw(b, b).sigmoid()
    yield "nt_xent, membership", nt_xent, {"attraction": 0.5}, of_views(2, membership=p)
    yield (
        "nt_xent, partitions",
        nt_xent,
        {"attraction": 0.5, "attraction_above": 0.2},
        of_views(2, partitions=groups),
    )
    yield "nt_xent, weights, strength", nt_xent, {"attraction": 0.5}, of_views(2, weights=w, strength=taus)
    yield "info_nce, membership", info_nce, {"attraction": 0.5}, of_views(2, membership=p)
    yield "info_nce, symmetric, weights", info_nce, {"symmetric": True, "attraction": 0.5}, of_views(2, weights=w)
    yield "info_nce, symmetric, partitions", info_nce, {"symmetric": True}, of_views(2, partitions=groups)
    exclude = draw(b, 2 * b) > 0.8
    log_q, more_log_q = draw(b).sigmoid().log(), draw(b).sigmoid().log()
    yield "info_nce, hard negatives, exclude", info_nce, {}, with_hard_negatives(False)
    yield "info_nce, hard negatives, log_q", info_nce, {"symmetric": True}, with_hard_negatives(True)
    supcon = dc.DebiasedSupConLoss
    yield "supcon", supcon, {}, of_features()
    yield "supcon, labels", supcon, {}, of_features(labels=partly)
    yield "supcon, mask", supcon, {"tau_plus": 0.0}, of_features(mask=w.clamp(max=1))
    yield "info_nce, queue", info_nce, {}, of_negatives(lambda _: queue)
    yield "info_nce, bank", info_nce, {}, of_negatives(lambda part: bank[part])


def run(
    encoder: nn.Module, make: Callable[..., nn.Module], settings: dict[str, Any], call: Call, part: slice
) -> list[Tensor]:
    """Value, and the gradients of encoder and temperature."""
    dtype = next(encoder.parameters()).dtype
    temperature = nn.Parameter(torch.tensor(T, dtype=dtype))
    encoder.zero_grad()
    value = call(make(**{"temperature": temperature, "tau_plus": 0.05, **settings}), encoder, part)
    value.backward()
    assert temperature.grad is not None
    return [value.detach(), temperature.grad, *(p.grad for p in encoder.parameters() if p.grad is not None)]


def compare(sizes: tuple[int, ...], rank: int, dtype: torch.dtype, encoder: type[Table] | type[Projection]) -> None:
    b, start = sum(sizes), sum(sizes[:rank])
    alone = encoder(inputs(b, dtype))
    together = DistributedDataParallel(encoder(inputs(b, dtype)))
    for name, make, settings, call in calls(b, dtype):
        want = run(alone, make, settings, call, slice(0, b))
        gathering = {**settings, "gather_distributed": True, "kernel": "tiled" if "labels" in name else "auto"}
        got = run(together, make, gathering, call, slice(start, start + sizes[rank]))
        for shared in got[:2]:  # DDP averages the encoder's gradient, nobody else's
            dist.all_reduce(shared)
            shared /= len(sizes)
        for which, g, w in zip(("value", "temperature", "encoder"), got, want, strict=True):
            # The temperature's gradient is one sum of terms of both signs and of size 1 / t^2 times the
            # loss: its rounding is theirs.
            scale = max(w.norm(), want[0].norm() / T**2) if which == "temperature" else w.norm()
            # Decoupled losses have both signs: here their mean is 0.01 and their size 1, whose rounding it has.
            scale = max(scale, torch.ones(())) if which == "value" and settings.get("decoupled") else scale
            error = ((g - w).norm() / scale).item()
            assert error <= TOLERANCE[dtype], f"{name}, {which}, {sizes}, {dtype}: off by {error:.1e}"


def check_unreduced(sizes: tuple[int, ...], rank: int) -> None:
    torch.manual_seed(1)
    z0, z1 = torch.randn(2, sum(sizes), D)
    start = sum(sizes[:rank])
    part = slice(start, start + sizes[rank])
    want = dc.DebiasedNTXentLoss(reduction="none")(z0, z1).view(2, -1)[:, part].flatten()
    got = dc.DebiasedNTXentLoss(reduction="none", gather_distributed=True)(z0[part], z1[part])
    torch.testing.assert_close(got, want)


def check_groups(rank: int) -> None:
    """Four processes in two groups: each half is a batch of its own, of unequal shares, whatever the other does."""
    halves = [dist.new_group(ranks) for ranks in ([0, 1], [2, 3])]
    mine, other = halves[rank // 2], halves[1 - rank // 2]
    batches = [inputs(5, torch.float64), inputs(6, torch.float64)]
    views = batches[rank // 2]
    b = views.shape[1]
    part = slice(0, 2) if rank % 2 == 0 else slice(2, b)
    groups = torch.arange(3 * b).view(b, 3) % 5
    calls: list[tuple[Callable[..., nn.Module], dict[str, Any], dict[str, Tensor]]] = [
        (dc.DebiasedNTXentLoss, {}, {}),
        (dc.DebiasedNTXentLoss, {"decoupled": True}, {"partitions": groups}),
        (dc.DebiasedInfoNCELoss, {"symmetric": True}, {"ids": torch.arange(b) % 4}),
    ]
    for make, settings, codes in calls:
        whole, share = (views[:2].clone().requires_grad_() for _ in range(2))
        value = make(T, 0.05, **settings)(*whole, **codes)
        (want,) = torch.autograd.grad(value, whole)
        loss = make(T, 0.05, gather_distributed=mine, **settings)
        loss = copy.deepcopy(loss)
        assert "gather_distributed=ProcessGroup of 2" in repr(loss)
        own = loss(*share[:, part], **{name: code[part] for name, code in codes.items()})
        (got,) = torch.autograd.grad(own, share)
        for tensor in (own.detach(), got):
            dist.all_reduce(tensor, group=mine)
        torch.testing.assert_close(own.detach() / 2, value.detach(), rtol=1e-12, atol=0)
        torch.testing.assert_close(got / 2, want, rtol=1e-12, atol=1e-15)
        with pytest.raises(TypeError, match=r"cannot be pickled.*save its state_dict"):
            pickle.dumps(loss)
        assert not loss.state_dict()
    auto = dc.AutoTauPlus(0.2, warm_up=0)
    bank = nn.functional.normalize(views[0], dim=1)
    call = {"ids": torch.arange(b)[part], "places": torch.arange(4 * b).view(b, 4)[part] % b}
    query = views[1, part].clone().requires_grad_()
    dc.DebiasedBankLoss(T, auto, gather_distributed=mine)([query], [bank], **call)
    shares: list[Any] = [None] * 4
    dist.all_gather_object(shares, auto.of_cap)
    assert shares[0] == shares[1] != shares[2] == shares[3]
    assert gather_detached(torch.tensor([rank]), mine).tolist() == [2 * (rank // 2), 2 * (rank // 2) + 1]
    with pytest.raises(ValueError, match="a process group that this process is in; got -100"):
        dc.DebiasedNTXentLoss(gather_distributed=other)(*views[:2])


def check_auto(sizes: tuple[int, ...], rank: int) -> None:
    """Every process goes on with the same number, the mean of what they saw."""
    views = inputs(sum(sizes), torch.float64)
    start = sum(sizes[:rank])
    auto = dc.AutoTauPlus(0.2, warm_up=0)
    dc.DebiasedNTXentLoss(T, auto, gather_distributed=True)(*views[:2, start : start + sizes[rank]])
    assert auto.of_cap is not None
    shares = [torch.zeros((), dtype=torch.float64) for _ in sizes]
    dist.all_gather(shares, torch.tensor(auto.of_cap, dtype=torch.float64))
    assert len({float(share) for share in shares}) == 1
    assert 0 < auto.of_cap < 1


def check_errors(world: int, rank: int) -> None:
    """Bad input on one process stops all of them, with a reason."""
    loss = dc.DebiasedNTXentLoss(gather_distributed=True)
    z = torch.randn(3, D)
    bad = torch.full((3, D), math.nan)
    expect(loss, (bad if rank == 0 else z, z), "view 0 has NaN" if rank == 0 else "process [0] refused its own")
    expect(
        loss,
        (z, z),
        "tau_plus must lie" if rank == 0 else "process [0] refused its own",
        tau_plus=0.1 if rank else 1.0,
    )
    expect(loss, (0 if rank == 0 else z, z), "must be a torch.Tensor" if rank == 0 else "process [0] refused")
    if world > 1:
        mine = z.double() if rank == 0 else z
        expect(loss, (mine, mine), "bytes of the working dtype must be the same on every process")
        mine = z.clone().requires_grad_(rank == 0)
        expect(loss, (mine, mine), "need of a gradient must be the same on every process")
        check_second_derivative(z)
        known = {"membership": torch.zeros(3, 2)} if rank == 0 else {"partitions": torch.zeros(3, 2).long()}
        expect(loss, (z, z), "kind of knowledge must be the same on every process", **known)
        expect(loss, (z, z), f"for each of the {3 * world} samples", weights=torch.ones(3, 3))
        moco = dc.DebiasedInfoNCELoss(gather_distributed=True)
        with pytest.raises(ValueError, match="samples of one process alone go into hard_negatives"):
            moco(z, z, torch.randn(4, D, generator=torch.Generator().manual_seed(rank)))
        with pytest.raises(ValueError, match="samples of one process alone go into hard_negatives"):
            moco(z, z, torch.eye(4, D).roll(rank, 0))  # of the same sum everywhere
        in_batch = dc.DebiasedInfoNCELoss(gather_distributed=True)
        narrow = torch.zeros(3, 3 * world - (rank == 0), dtype=torch.bool)
        expect(in_batch, (z, z), "columns of exclude must be the same on every process", exclude=narrow)
        one_way = dc.DebiasedInfoNCELoss(gather_distributed=True, symmetric=rank == 0)
        expect(one_way, (z, z), "use of symmetric must be the same on every process")
        check_nothing_left(world, rank)
        other = torch.randn(3, D + 1)
        mine = other if rank == 0 else z
        expect(loss, (mine, mine), "number of features must be the same on every process")
    else:
        with pytest.warns(UserWarning, match="a batch of one"):
            assert loss(z[:1], z[:1]) == 0


def check_nothing_left(world: int, rank: int) -> None:
    """Nothing on one process is a warning there; nothing on all of them the same error on all."""
    z = torch.randn(3, D)
    moco = dc.DebiasedInfoNCELoss(gather_distributed=True, reduction="none")
    mine = torch.full((3, 3 * world), rank == 0)
    with pytest.warns(UserWarning, match="leave 3 of 3") if rank == 0 else nullcontext():
        assert bool((moco(z, z, exclude=mine) == 0).all()) == (rank == 0)
    expect(moco, (z, z), f"got {3 * world} of {3 * world} anchors without any", exclude=mine | True)
    expect(
        dc.DebiasedNTXentLoss(gather_distributed=True),
        (z, z),
        f"got {6 * world} of {6 * world} anchors without any",
        labels=torch.zeros(3).long(),
    )
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("default")
        for _ in range(3):
            assert dc.DebiasedNTXentLoss()(z[:1], z[:1]) == 0, "this process alone has one pair"
    assert [(warning.filename, "a batch of one" in str(warning.message)) for warning in seen] == [(__file__, True)]


def check_second_derivative(z: Tensor) -> None:
    z = z.clone().requires_grad_()
    value = dc.DebiasedNTXentLoss(gather_distributed=True, kernel="dense")(z, z.flip(0))
    (gradient,) = torch.autograd.grad(value, z, create_graph=True)
    with pytest.raises(RuntimeError, match="gather_distributed has first derivatives only"):
        gradient.square().sum().backward()


def expect(loss: nn.Module, views: tuple[Any, ...], message: str, **rest: Any) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        loss(*views, **rest)


def work(rank: int, world: int, rendezvous: str) -> None:
    in_group(rank, world, rendezvous, lambda: compare_all(rank, world))


def compare_all(rank: int, world: int) -> None:
    equal, unequal = (4,) * world, tuple(range(2, 2 + world))[::-1]
    for dtype in TOLERANCE:
        compare(equal, rank, dtype, Table)
        compare(unequal, rank, dtype, Table)
    compare(unequal, rank, torch.float64, Projection)
    if world > 1:
        compare((1,) * world, rank, torch.float64, Table)  # the unlabeled samples of each are elsewhere
    check_unreduced(unequal, rank)
    check_auto(unequal, rank)
    check_errors(world, rank)


def work_in_groups(rank: int, world: int, rendezvous: str) -> None:
    in_group(rank, world, rendezvous, lambda: check_groups(rank))
