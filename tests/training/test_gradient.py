"""The loop is a plain loop: the same numbers, with or without Fabric, in one go or in two."""

import io
import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from lightning_fabric import Fabric
from torch import Tensor, nn

from debiased_contrastive.numerics import derive_seed
from debiased_contrastive.training.gradient import gradient_state, gradient_steps, restore_gradient_state

SEED, STEPS = 3, 7


class Tiny(nn.Module):
    """A network with dropout and batch norm, whose call gives a loss."""

    def __init__(self) -> None:
        super().__init__()
        self.network = nn.Sequential(
            nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 2)
        )

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return F.mse_loss(self.network(x), y)


def tiny() -> Tiny:
    torch.manual_seed(0)
    return Tiny()


def adam(module: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.Adam(module.parameters(), lr=123.0, weight_decay=1e-2)


def inputs(wanted: range = range(STEPS)) -> Iterator[dict[str, Tensor]]:
    for step in wanted:
        generator = torch.Generator().manual_seed(step)
        yield {"x": torch.randn(6, 4, generator=generator), "y": torch.randn(6, 2, generator=generator)}


def rate(step: int) -> float:
    return 0.05 / (1 + step)


def fabric() -> Fabric:
    return Fabric(accelerator="cpu", devices=1)


def by_hand(make: Callable[[nn.Module], torch.optim.Optimizer] = adam) -> tuple[Tiny, list[float]]:
    """What a page of any tutorial would write."""
    module = tiny()
    optimiser = make(module)
    losses = []
    for step, given in enumerate(inputs()):
        torch.manual_seed(derive_seed(SEED, "step", step, 0))
        for group in optimiser.param_groups:
            group["lr"] = rate(step)
        optimiser.zero_grad()
        loss = module(**given)
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    return module, losses


def assert_same(got: nn.Module, want: nn.Module) -> None:
    for name, value in want.state_dict().items():
        assert torch.equal(got.state_dict()[name], value), name


@pytest.mark.parametrize("kind", ["adam", "sgd"])
def test_it_equals_a_plain_loop_bit_for_bit(kind: str) -> None:
    def make(module: nn.Module) -> torch.optim.Optimizer:
        return adam(module) if kind == "adam" else torch.optim.SGD(module.parameters(), lr=0.0, momentum=0.9)

    want, losses = by_hand(make)
    module, device = tiny(), fabric()
    wrapped, optimiser = device.setup(module, make(module))
    got = list(gradient_steps(device, wrapped, optimiser, inputs(), rate=rate, seed=SEED))
    assert [done for done, _ in got] == list(range(1, STEPS + 1))
    assert [loss.item() for _, loss in got] == losses
    assert not any(loss.requires_grad for _, loss in got)
    assert_same(module, want)


def test_what_others_draw_between_two_steps_changes_nothing_but_the_seed_does() -> None:
    def losses(seed: int, disturbed: bool) -> list[float]:
        module, device = tiny(), fabric()
        wrapped, optimiser = device.setup(module, adam(module))
        result = []
        for _, loss in gradient_steps(device, wrapped, optimiser, inputs(), rate=rate, seed=seed):
            if disturbed:
                torch.rand(5)
            result.append(loss.item())
        return result

    assert losses(SEED, disturbed=True) == losses(SEED, disturbed=False) == by_hand()[1]
    assert all(
        a != b for a, b in zip(losses(SEED + 1, disturbed=False), losses(SEED, disturbed=False), strict=True)
    )


def test_each_step_has_its_own_random_numbers() -> None:
    drawn: list[Tensor] = []

    class Drawing(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(()))

        def forward(self) -> Tensor:
            drawn.append(torch.rand(100))
            return self.weight * 1.0

    device = fabric()
    module = Drawing()
    wrapped, optimiser = device.setup(module, torch.optim.SGD(module.parameters(), lr=0.1))
    given: list[dict[str, Any]] = [{}] * 3
    list(gradient_steps(device, wrapped, optimiser, given, rate=rate, seed=SEED))
    list(gradient_steps(device, wrapped, optimiser, given[:1], rate=rate, seed=SEED, start=2))
    assert len({tuple(values.tolist()) for values in drawn[:3]}) == 3
    assert torch.equal(drawn[3], drawn[2])


def test_the_rate_of_each_step_is_the_schedules() -> None:
    """Of a loss with the gradient 1, so that a step of plain descent is the rate."""

    class Sum(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = (nn.Parameter(torch.zeros((), dtype=torch.float64)) for _ in range(2))

        def forward(self) -> Tensor:
            return self.a + self.b

    module, device = Sum(), fabric()
    groups: list[dict[str, Any]] = [{"params": [module.a]}, {"params": [module.b], "lr": 9.0}]
    wrapped, optimiser = device.setup(module, torch.optim.SGD(groups, lr=7.0))
    rates = [0.5, 0.25, 2.0, 0.125]
    places = []
    for done, _ in gradient_steps(
        device, wrapped, optimiser, [{}] * 4, rate=lambda k: rates[k - 5], seed=0, start=5
    ):
        places.append((done, module.a.item(), module.b.item()))
    assert places == [(6, -0.5, -0.5), (7, -0.75, -0.75), (8, -2.75, -2.75), (9, -2.875, -2.875)]


def test_it_makes_one_step_at_a_time() -> None:
    module, device = tiny(), fabric()
    wrapped, optimiser = device.setup(module, adam(module))
    start = {name: value.clone() for name, value in module.state_dict().items()}
    running = gradient_steps(device, wrapped, optimiser, inputs(), rate=rate, seed=SEED)
    assert_same(module, nn_state(start))
    next(running)
    after = {name: value.clone() for name, value in module.state_dict().items()}
    assert not torch.equal(after["network.0.weight"], start["network.0.weight"])
    assert all(value.grad is None for value in module.parameters())
    running.close()  # type: ignore[attr-defined]
    assert_same(module, nn_state(after))


def nn_state(state: dict[str, Tensor]) -> Tiny:
    module = tiny()
    module.load_state_dict(state)
    return module


@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
@pytest.mark.parametrize("stop", [0, 1, 4])
def test_a_restored_state_continues_bit_for_bit(precision: Any, stop: int) -> None:
    def begun() -> tuple[Fabric, Tiny, torch.optim.Optimizer, Any, Any]:
        device = Fabric(accelerator="cpu", devices=1, precision=precision)
        module = tiny()
        plain = adam(module)
        wrapped, optimiser = device.setup(module, plain)
        return device, module, plain, wrapped, optimiser

    device, whole, _, wrapped, optimiser = begun()
    want = [loss.item() for _, loss in gradient_steps(device, wrapped, optimiser, inputs(), rate=rate, seed=SEED)]
    assert all(map(math.isfinite, want))

    device, module, plain, wrapped, optimiser = begun()
    first = gradient_steps(device, wrapped, optimiser, inputs(range(stop)), rate=rate, seed=SEED)
    got = [loss.item() for _, loss in first]
    file = io.BytesIO()
    torch.save(gradient_state(device, module, plain), file)
    file.seek(0)

    device, module, plain, wrapped, optimiser = begun()
    with torch.no_grad():
        for value in module.parameters():
            value.add_(1)
    restore_gradient_state(torch.load(file, weights_only=True), device, module, plain)
    rest = inputs(range(stop, STEPS))
    second = list(gradient_steps(device, wrapped, optimiser, rest, rate=rate, seed=SEED, start=stop))
    assert [done for done, _ in second] == list(range(stop + 1, STEPS + 1))
    assert got + [loss.item() for _, loss in second] == want
    assert_same(module, whole)


def test_each_gradient_is_clipped_by_itself() -> None:
    fabric = Fabric(accelerator="cpu", devices=1)
    torch.manual_seed(0)
    model = nn.Linear(3, 2)
    module, optimiser = fabric.setup(model, torch.optim.SGD(model.parameters(), lr=1.0))

    def loss(x: Tensor) -> Tensor:
        result: Tensor = 100 * module(x)[:, 0].sum() + 0.001 * module(x)[:, 1].sum()
        return result

    before = [parameter.detach().clone() for parameter in model.parameters()]
    list(gradient_steps(fabric, loss, optimiser, [{"x": torch.ones(4, 3)}], rate=lambda _: 1.0, seed=0, clip=0.5))
    for old, new in zip(before, model.parameters(), strict=True):
        assert float((old - new.detach()).norm()) == pytest.approx(0.5, rel=1e-4)
