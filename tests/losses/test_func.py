"""torch.func and forward mode with the dense kernel."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd import forward_ad

import debiased_contrastive as dc
from tests.losses.calls import Call, calls
from tests.losses.cases import embeddings

CALLS = calls(kernel="dense")
# Forward mode of PyTorch loads what it calls deprecated itself.
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")


@pytest.mark.parametrize("name", CALLS)
def test_gradients_by_functions_and_forward_mode(name: str) -> None:
    call = CALLS[name]
    inputs = tuple(z.detach() for z in call.inputs)
    places = tuple(range(len(inputs)))
    wanted = torch.autograd.grad(call.value(), call.inputs)
    torch.testing.assert_close(torch.func.grad(call.value, places)(*inputs), wanted)
    directions = tuple(embeddings(*z.shape, seed=7).detach() for z in inputs)
    along = sum((gradient * direction).sum() for gradient, direction in zip(wanted, directions, strict=True))
    torch.testing.assert_close(torch.func.jvp(call.value, inputs, directions)[1], along)
    if isinstance(call.loss, dc.DebiasedBankLoss):
        return  # It has no dense kernel; under torch.func it does without its own.
    with forward_ad.dual_level():
        dual = (forward_ad.make_dual(*two) for two in zip(inputs, directions, strict=True))
        torch.testing.assert_close(forward_ad.unpack_dual(call.value(*dual)).tangent, along)


@pytest.mark.parametrize("name", CALLS)
def test_independent_batches_at_once(name: str) -> None:
    call = CALLS[name]
    batches = [tuple(embeddings(*z.shape, seed=20 + 5 * k).detach() for z in call.inputs) for k in range(3)]
    stacked = tuple(torch.stack(views) for views in zip(*batches, strict=True))
    wanted = torch.stack([call.value(*batch) for batch in batches])
    torch.testing.assert_close(torch.vmap(call.value)(*stacked), wanted)
    gradients = torch.vmap(torch.func.grad(call.value))(*stacked)
    torch.testing.assert_close(gradients[1], torch.func.grad(call.value)(*batches[1]))


@pytest.mark.parametrize("name", [name for name, call in CALLS.items() if set(call.rest) - {"banks"}])
def test_batches_with_annotations_of_their_own(name: str) -> None:
    """Labels, ids, masks and knowledge; the embeddings are the same in all."""
    call = CALLS[name]
    told = {key: value for key, value in call.rest.items() if isinstance(value, Tensor)}
    orders = torch.stack([torch.arange(8), torch.arange(8).flip(0), torch.arange(8).roll(3)])
    batches = {key: torch.stack([_shuffled(value, order) for order in orders]) for key, value in told.items()}

    def value(of_batch: dict[str, Tensor]) -> Tensor:
        return Call(call.loss, call.inputs, {**call.rest, **of_batch}).value(*(z.detach() for z in call.inputs))

    wanted = torch.stack([value({key: each[k] for key, each in batches.items()}) for k in range(3)])
    torch.testing.assert_close(torch.vmap(value)(batches), wanted)


def _shuffled(told: Tensor, order: Tensor) -> Tensor:
    """The rows in another order, where they are those of the batch."""
    return told[order] if len(told) == len(order) else told


def test_what_follows_training_says_what_to_pass() -> None:
    z = embeddings(2, 8, 5, seed=0).detach()
    with pytest.raises(ValueError, match="under vmap pass a number"):
        torch.vmap(dc.DebiasedNTXentLoss(tau_plus="auto", kernel="dense"))(z, z)


@pytest.mark.parametrize("make", [dc.DebiasedNTXentLoss, dc.DebiasedInfoNCELoss])
def test_tiles_say_what_to_pass(make: Any) -> None:
    z = embeddings(300, 5, seed=0).detach()
    with pytest.raises(ValueError, match=r"under torch\.func pass kernel='dense'"):
        torch.func.grad(make(kernel="tiled"))(z, z.flip(0))
    wanted = torch.func.grad(make(kernel="dense"))(z, z.flip(0))
    torch.testing.assert_close(torch.func.grad(make(kernel="auto"))(z, z.flip(0)), wanted)


@pytest.mark.parametrize(
    "loss", [dc.DebiasedNTXentLoss(kernel="tiled"), dc.DebiasedNTXentLoss(beta=0.5, kernel="tiled")]
)
def test_forward_mode_of_tiles_is_one_clear_line(loss: dc.DebiasedNTXentLoss) -> None:
    z0, z1 = (z.detach() for z in (embeddings(6, 4, seed=1), embeddings(6, 4, seed=2)))
    with (
        forward_ad.dual_level(),
        pytest.raises(RuntimeError, match="forward mode was asked for: pass kernel='dense'"),
    ):
        loss(forward_ad.make_dual(z0, z1), z1)


def test_forward_mode_against_a_bank_says_what_serves() -> None:
    call = CALLS["bank"]
    z0, z1 = (z.detach() for z in call.inputs)
    with (
        forward_ad.dual_level(),
        pytest.raises(RuntimeError, match=r"or use torch\.func\.jvp, as DebiasedBankLoss"),
    ):
        call.value(forward_ad.make_dual(z0, z1), z1)
    assert torch.func.jvp(call.value, (z0, z1), (z1, z0))[1] != 0
