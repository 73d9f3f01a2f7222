"""When values are checked, what a result that is not finite does, and that a usual call waits for no device."""

import copy
import math
import pickle
from collections.abc import Iterable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

import debiased_contrastive as dc
from tests.losses.calls import calls

CALLS, TILED = calls(), calls(kernel="tiled")
Z = torch.randn(4, 3, generator=torch.Generator().manual_seed(0))
NAN = torch.full_like(Z, math.nan)


class OneDevice(TorchDispatchMode):
    """Raises where numbers go from one device to another, as `torch.as_tensor(1.0, device=...)` makes them."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        places = {each.device for each in _tensors((*args, result)) if each.dim() or func.namespace != "aten"}
        assert func != torch.ops.aten._to_copy.default or args[0].device == result.device, "a copy between devices"
        assert len(places) <= 1, f"{func} sees {places}"
        return result


def _tensors(values: Iterable[Any]) -> list[Tensor]:
    return [each for each in values if isinstance(each, Tensor)]


@pytest.mark.parametrize("kernel", ["dense", "tiled"])
@pytest.mark.parametrize("name", CALLS)
def test_a_usual_call_and_its_backward_wait_for_no_device(name: str, kernel: str) -> None:
    """Tensors on `meta` stand for those of a GPU: they have no numbers, so that whoever asks for one fails."""
    first = (CALLS if kernel == "dense" else TILED)[name]
    first.value()
    second = first.on("meta")
    with OneDevice():  # type: ignore[no-untyped-call]
        second.value().backward()
    assert all(z.grad is not None for z in second.inputs)


def test_an_automatic_tau_plus_waits_at_each_tenth_call() -> None:
    loss = dc.DebiasedNTXentLoss(0.5, dc.AutoTauPlus(0.2, warm_up=0))
    z = Z.clone().requires_grad_()
    loss(z, z)
    far = z.detach().to("meta").requires_grad_()
    for _ in range(8):
        loss(far, far)
    loss.checks = "never"
    loss(far, far)
    with pytest.raises(RuntimeError, match="meta"):
        loss(far, far)


def raises(loss: nn.Module, z: Tensor) -> bool:
    """Whether a call with z and something sound raises; if not, it returns what comes of it."""
    try:
        value = loss(z, Z)
    except ValueError:
        return True
    assert value.isfinite() == z.isfinite().all()
    return False


@pytest.mark.parametrize(
    ("checks", "wanted"), [("first", {1, 10, 100}), ("always", set(range(1, 121))), ("never", set())]
)
def test_bad_values_raise_at_these_calls(checks: Any, wanted: set[int]) -> None:
    found = set()
    for number in range(1, 121):
        loss = dc.DebiasedNTXentLoss(checks=checks)
        loss._calls.number = number
        if raises(loss, NAN):
            found.add(number)
    assert found == wanted


def test_one_bad_batch_is_skipped_and_a_second_one_raises() -> None:
    """As a GradScaler wants it: it sees a loss that is not finite, leaves its step out, and goes on."""
    loss = dc.DebiasedNTXentLoss()
    assert [raises(loss, z) for z in (Z, NAN, Z, Z, NAN, NAN, Z)] == [
        False,
        False,
        False,
        False,
        False,
        True,
        False,
    ]


def test_a_call_that_raised_does_not_count() -> None:
    loss = dc.DebiasedNTXentLoss()
    assert [raises(loss, z) for z in (NAN, NAN, Z, NAN)] == [True, True, False, False]


def test_a_scaler_skips_the_step_of_a_bad_batch() -> None:
    layer, loss = nn.Linear(3, 3), dc.DebiasedNTXentLoss()
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    weights = []
    for z in (Z, NAN, Z):
        optimizer.zero_grad()
        scaler.scale(loss(layer(z), layer(Z))).backward()
        scaler.step(optimizer)
        scaler.update()
        weights.append(layer.weight.detach().clone())
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[1], weights[2])


@pytest.mark.parametrize("checks", ["first", "never"])
@pytest.mark.parametrize(
    "wrong",
    [
        {"labels": torch.tensor([0, 1, -1, 1])}, {"tau_plus": torch.full((4,), 1.5)}, {"temperature": torch.tensor(-1.0)},
        {"membership": 2 * torch.ones(4, 2)}, {"weights": 2 * torch.ones(4, 4)},
        {"partitions": torch.ones(4, 1).long(), "strength": torch.tensor([-1.0, 1, 1, 1])},
    ],
    ids=lambda rest: next(iter(rest)),
)  # fmt: skip
def test_wrong_values_are_named_where_a_call_looks(checks: Any, wrong: dict[str, Tensor]) -> None:
    loss = dc.DebiasedNTXentLoss(checks=checks)
    if checks == "never":
        assert loss(Z, Z.flip(0), **wrong).shape == ()
    else:
        with pytest.raises(ValueError, match="must"):
            loss(Z, Z.flip(0), **wrong)


def test_shapes_and_types_are_always_checked() -> None:
    loss = dc.DebiasedInfoNCELoss(checks="never")
    for wrong in ({"key": Z[:3]}, {"key": Z.long()}, {"labels": torch.ones(4)}, {"tau_plus": torch.ones(3)}):
        with pytest.raises(ValueError, match="must"):
            loss(**{"query": Z, "key": Z, **wrong})


def test_a_copy_of_a_loss_goes_on_counting_and_waits_for_nothing() -> None:
    loss = dc.DebiasedNTXentLoss()
    loss(Z, Z.flip(0))
    loss(NAN, Z)
    for other in (copy.deepcopy(loss), pickle.loads(pickle.dumps(loss))):
        assert not raises(other, NAN), "the bad result was not its own"
        assert other._calls.number == 4
