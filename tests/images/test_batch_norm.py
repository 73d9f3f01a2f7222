"""Batch norm over several processes is that of one process with the whole batch."""

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.multiprocessing.spawn import spawn

from debiased_contrastive.images.batch_norm import GlobalBatchNorm, synchronise_batch_norm
from debiased_contrastive.images.encoders import resnet18
from tests.group import in_group

CPU = torch.device("cpu")
CHANNELS = 4
SHAPES: dict[str, tuple[int, ...]] = {"2d": (3, 2), "1d": ()}
SETTINGS: tuple[dict[str, Any], ...] = (
    {},
    {"momentum": 0.3, "eps": 0.1},
    {"momentum": None},
    {"affine": False},
    {"track_running_stats": False},
)


def local(kind: str, **settings: Any) -> nn.BatchNorm1d | nn.BatchNorm2d:
    """A batch norm of torch's whose weights are not where they start."""
    norm = (nn.BatchNorm2d if kind == "2d" else nn.BatchNorm1d)(CHANNELS, **settings)
    generator = torch.Generator().manual_seed(1)
    for value in norm.parameters():
        value.data = 1 + 0.5 * torch.randn(value.shape, generator=generator)
    return norm


def draw(seed: int, *shape: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def test_names_and_tensors_stay() -> None:
    network = resnet18(stem="cifar", width=4)
    network.get_submodule("layer1.0.bn1").eval()
    before = network.state_dict(keep_vars=True)
    modes = {name: module.training for name, module in network.named_modules()}
    norms = [name for name, module in network.named_modules() if isinstance(module, nn.BatchNorm2d)]
    assert len(norms) == 20
    assert synchronise_batch_norm(network, CPU) is network
    after = network.state_dict(keep_vars=True)
    assert list(after) == list(before)
    assert all(after[name] is before[name] for name in before)
    assert {name: module.training for name, module in network.named_modules()} == modes
    for name in norms:
        assert isinstance(network.get_submodule(name), GlobalBatchNorm), name
    assert not any(isinstance(module, nn.BatchNorm2d) for module in network.modules())
    # An optimiser that has the weights already still has them.
    assert [id(value) for value in network.parameters()] == [
        id(value) for name, value in before.items() if isinstance(value, nn.Parameter)
    ]


def test_a_batch_norm_itself_is_replaced() -> None:
    norm = local("1d", eps=0.5, momentum=0.25)
    result = synchronise_batch_norm(norm, CPU)
    assert isinstance(result, GlobalBatchNorm)
    assert (result.eps, result.momentum) == (0.5, 0.25)
    assert result.weight is norm.weight


@pytest.mark.parametrize("kind", SHAPES)
@pytest.mark.parametrize("settings", SETTINGS)
def test_one_process_is_torchs_bit_for_bit(kind: str, settings: dict[str, Any]) -> None:
    mine, theirs = synchronise_batch_norm(local(kind, **settings), CPU), local(kind, **settings)
    for step in range(3):
        for mode in (True, False):
            x = draw(step, 6, CHANNELS, *SHAPES[kind]).float()
            of_mine, of_theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
            got, want = mine.train(mode)(of_mine), theirs.train(mode)(of_theirs)
            assert torch.equal(got, want)
            got.square().sum().backward()
            want.square().sum().backward()
            assert of_mine.grad is not None
            assert of_theirs.grad is not None
            assert torch.equal(of_mine.grad, of_theirs.grad)
    for name, value in theirs.state_dict().items():
        assert torch.equal(mine.state_dict()[name], value), name


def test_one_dimension_is_not_enough() -> None:
    with pytest.raises(ValueError, match=r"batch norm needs \(b, channels, ...\); got \(4,\)$"):
        synchronise_batch_norm(nn.BatchNorm1d(CHANNELS), CPU)(torch.randn(CHANNELS))


def test_two_processes_equal_one(tmp_path: Path) -> None:
    spawn(work, args=(str(tmp_path / "rendezvous"),), nprocs=2)


def work(rank: int, rendezvous: str) -> None:
    in_group(rank, 2, rendezvous, lambda: compare_all(rank))


def compare_all(rank: int) -> None:
    for sizes in ((3, 5), (1, 4)):
        part = slice(0, sizes[0]) if rank == 0 else slice(sizes[0], sum(sizes))
        for kind in SHAPES:
            for settings in SETTINGS:
                compare(kind, settings, sum(sizes), part)
        check_digits(sum(sizes), part)


def compare(kind: str, settings: dict[str, Any], b: int, part: slice) -> None:
    alone = local(kind, **settings).double()
    together = synchronise_batch_norm(copy.deepcopy(alone), CPU)
    where = f"{kind}, {settings}"
    for step in range(3):
        # Means and scales that differ between samples, so that no process has those of the batch.
        x = draw(step, b, CHANNELS, *SHAPES[kind]) * (1 + draw(step + 10, b, CHANNELS, *(1,) * len(SHAPES[kind])))
        direction = draw(step + 20, *x.shape)
        of_all, of_part = x.clone().requires_grad_(), x[part].clone().requires_grad_()
        want, got = alone(of_all), together(of_part)
        close(got, want[part], f"{where}: output")
        # Not linear, so that second derivatives of the loss play a part in the gradient.
        ((want * direction).sin().sum()).backward()
        ((got * direction[part]).sin().sum()).backward()
        assert of_all.grad is not None
        close(of_part.grad, of_all.grad[part], f"{where}: input's gradient")
    for name, value in together.named_parameters():
        assert value.grad is not None
        dist.all_reduce(value.grad)
        close(value.grad, alone.get_parameter(name).grad, f"{where}: {name}'s gradient")
    for name, buffer in together.named_buffers():
        close(buffer, alone.get_buffer(name), f"{where}: {name}")
    if settings.get("track_running_stats", True):
        close(together.eval()(x[part]), alone.eval()(x)[part], f"{where}: evaluation")


def close(got: Tensor | None, want: Tensor | None, what: str) -> None:
    assert got is not None
    assert want is not None
    torch.testing.assert_close(got, want, rtol=1e-10, atol=1e-10, msg=lambda text: f"{what}: {text}")


def check_digits(b: int, part: slice) -> None:
    """A mean of 3,000 standard deviations leaves a variance of three digits, not of none."""
    x = (3000 + draw(0, b, CHANNELS, 3, 2)).float()
    norm = synchronise_batch_norm(nn.BatchNorm2d(CHANNELS), CPU)
    torch.testing.assert_close(norm(x[part]), nn.BatchNorm2d(CHANNELS)(x)[part], rtol=0, atol=5e-3)
    half = synchronise_batch_norm(nn.BatchNorm2d(CHANNELS), CPU)(draw(0, b, CHANNELS, 3, 2)[part].bfloat16())
    assert half.dtype == torch.bfloat16
    want = nn.BatchNorm2d(CHANNELS)(draw(0, b, CHANNELS, 3, 2).bfloat16().float())[part]
    torch.testing.assert_close(half.float(), want, rtol=2**-7, atol=1e-3)
