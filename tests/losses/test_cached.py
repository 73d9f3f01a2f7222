"""Gradients in chunks are those of a plain backward."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.multiprocessing.spawn import spawn
from torch.nn.parallel import DistributedDataParallel

import debiased_contrastive as dc
from tests.group import in_group

B, D = 11, 6


def encoder(*, dropout: float = 0.3) -> nn.Sequential:
    torch.manual_seed(0)
    layers = nn.Sequential(nn.Linear(D, 8), nn.Tanh(), nn.Dropout(dropout), nn.Linear(8, 4))
    return layers.double()


def batch(seed: int) -> Tensor:
    return torch.randn(B, D, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def gradients(model: nn.Module) -> list[Tensor]:
    return [weight.grad for weight in model.parameters() if weight.grad is not None]


P = torch.softmax(torch.randn(B, 3, generator=torch.Generator().manual_seed(5), dtype=torch.float64), 1)
CALLS: list[tuple[Callable[[], nn.Module], dict[str, Any]]] = [
    (lambda: dc.DebiasedNTXentLoss(0.3, 0.05), {}),
    (lambda: dc.DebiasedNTXentLoss(0.3, attraction=0.5), {"membership": P}),
    (lambda: dc.DebiasedNTXentLoss(0.3), {"labels": torch.arange(B) % 3}),
    (lambda: dc.DebiasedInfoNCELoss(0.2, 0.02, symmetric=True), {}),
]


@pytest.mark.parametrize("chunk", [1, 4, 100])
@pytest.mark.parametrize(("make", "rest"), CALLS)
def test_it_is_the_plain_gradient(make: Callable[[], nn.Module], rest: dict[str, Any], chunk: int) -> None:
    x, y = batch(1), batch(2)
    plain, cached = encoder(dropout=0.0), encoder(dropout=0.0)
    want = make()(plain(x), plain(y), **rest)
    want.backward()
    got = dc.cached_backward(make(), cached, x, y, chunk=chunk, **rest)
    assert not got.requires_grad
    torch.testing.assert_close(got, want.detach(), rtol=1e-13, atol=0)
    for g, w in zip(gradients(cached), gradients(plain), strict=True):
        assert (g - w).norm() <= 1e-12 * w.norm()


def test_dropout_is_replayed_and_the_generator_goes_on() -> None:
    """Chunks as large as the batch draw what a plain pass draws."""
    x, y, loss = batch(1), batch(2), dc.DebiasedNTXentLoss(0.3, 0.05)
    plain, cached = encoder(), encoder()
    torch.manual_seed(7)
    want = loss(plain(x), plain(y))
    want.backward()
    after = torch.rand(1)
    torch.manual_seed(7)
    got = dc.cached_backward(loss, cached, x, y, chunk=B)
    assert torch.equal(torch.rand(1), after)
    torch.testing.assert_close(got, want.detach(), rtol=1e-13, atol=0)
    for g, w in zip(gradients(cached), gradients(plain), strict=True):
        assert (g - w).norm() <= 1e-12 * w.norm()
    # Smaller chunks draw other numbers, but the same ones twice: the gradient is that of the value.
    small = encoder()
    torch.manual_seed(7)
    dc.cached_backward(loss, small, x, y, chunk=3)
    again = encoder()
    torch.manual_seed(7)
    parts = [torch.cat([again(part) for part in given.split(3)]) for given in (x, y)]
    loss(*parts).backward()
    for g, w in zip(gradients(small), gradients(again), strict=True):
        assert (g - w).norm() <= 1e-12 * w.norm()


def test_two_encoders_dicts_and_a_learnt_temperature() -> None:
    class Masked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(D, 4).double()

        def forward(self, given: dict[str, Tensor]) -> Tensor:
            result: Tensor = self.layer(given["x"] * given["mask"])
            return result

    def run(cached: bool) -> list[Tensor]:
        torch.manual_seed(3)
        image, text = encoder(dropout=0.0), Masked()
        loss = dc.DebiasedInfoNCELoss(nn.Parameter(torch.tensor(0.3, dtype=torch.float64)), 0.02, symmetric=True)
        tokens = {"x": batch(2), "mask": (batch(3) > 0).double()}
        if cached:
            dc.cached_backward(loss, [image, text], batch(1), tokens, chunk=4)
        else:
            loss(image(batch(1)), text(tokens)).backward()
        return [*gradients(image), *gradients(text), *gradients(loss)]

    for g, w in zip(run(True), run(False), strict=True):
        assert (g - w).norm() <= 1e-12 * w.norm()


def test_mixed_precision_and_a_scaled_loss() -> None:
    x, y, loss = batch(1).float(), batch(2).float(), dc.DebiasedNTXentLoss(0.3, 0.05)
    plain, cached = encoder(dropout=0.0).float(), encoder(dropout=0.0).float()
    with torch.autocast("cpu", torch.bfloat16):
        (1024.0 * loss(plain(x), plain(y))).backward()
        dc.cached_backward(loss, cached, x, y, chunk=4, backward=lambda value: (1024.0 * value).backward())
    for g, w in zip(gradients(cached), gradients(plain), strict=True):
        assert (g - w).norm() <= 2e-2 * w.norm()
        assert w.norm() > 1


def test_a_frozen_encoder_has_nothing_to_learn() -> None:
    loss = dc.DebiasedInfoNCELoss(0.3, 0.05)
    learning, frozen = encoder(dropout=0.0), encoder(dropout=0.0).requires_grad_(False)
    plain = encoder(dropout=0.0)
    loss(plain(batch(1)), frozen(batch(2))).backward()
    dc.cached_backward(loss, [learning, frozen], batch(1), batch(2), chunk=4)
    assert not gradients(frozen)
    for g, w in zip(gradients(learning), gradients(plain), strict=True):
        assert (g - w).norm() <= 1e-12 * w.norm()


def work(rank: int, world: int, rendezvous: str) -> None:
    def compare() -> None:
        x, y = batch(1)[:10], batch(2)[:10]
        alone = encoder(dropout=0.0)
        dc.DebiasedNTXentLoss(0.3, 0.05)(alone(x), alone(y)).backward()
        share = slice(rank * 5, rank * 5 + 5)
        together = DistributedDataParallel(encoder(dropout=0.0))
        loss = dc.DebiasedNTXentLoss(0.3, 0.05, gather_distributed=True)
        dc.cached_backward(loss, together, x[share], y[share], chunk=2)
        for g, w in zip(gradients(together), gradients(alone), strict=True):
            assert (g - w).norm() <= 1e-12 * w.norm()
        assert dist.get_world_size() == world

    in_group(rank, world, rendezvous, compare)


def test_under_ddp_it_is_the_gradient_of_the_full_batch(tmp_path: Path) -> None:
    spawn(work, args=(2, str(tmp_path / "rendezvous")), nprocs=2)


@pytest.mark.parametrize(
    ("inputs", "chunk", "message"),
    [
        ((batch(1),), 0, "chunk must be a whole number of at least 1; got 0"),
        ((), 4, "needs the inputs to encode; got none"),
        (([1.0],), 4, r"inputs\[0\] must be a torch.Tensor; got list"),
        (({"x": batch(1), "mask": batch(1)[:3]},), 4, "an input must have tensors of one length, at least 1"),
    ],
)
def test_wrong_calls_are_one_line(inputs: tuple[Any, ...], chunk: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        dc.cached_backward(dc.DebiasedNTXentLoss(), encoder(), *inputs, chunk=chunk)
    with pytest.raises(ValueError, match="one encoder, or one for each input; got 2 and 1"):
        dc.cached_backward(dc.DebiasedNTXentLoss(), [encoder(), encoder()], batch(1), chunk=4)


def test_gradients_must_be_on() -> None:
    with torch.no_grad(), pytest.raises(ValueError, match="computes gradients; it got torch"):
        dc.cached_backward(lambda z: z.sum(), torch.nn.Identity(), torch.ones(2, 2), chunk=1)


@pytest.mark.parametrize(
    ("encode", "got"),
    [
        (lambda x: (x, x), "tuple"),
        (lambda x: x[:1], r"torch.float64 \(1, 6\)"),
        (lambda x: x.sum(), r"torch.float64 \(\)"),
        (lambda x: x.long(), "torch.int64"),
    ],
)
def test_what_is_no_embedding_is_one_line(encode: Callable[[Tensor], Any], got: str) -> None:
    with pytest.raises(ValueError, match=f"a row for each of the 4 samples of a chunk; got {got}"):
        dc.cached_backward(dc.DebiasedNTXentLoss(), encode, batch(1), batch(2), chunk=4)
