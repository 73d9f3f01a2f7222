"""Compiled losses have the values and gradients of plain ones, in one graph, and are compiled once."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch._dynamo as dynamo
from torch import nn
from torch._dynamo.utils import counters

import debiased_contrastive as dc
from tests.losses.calls import calls
from tests.losses.cases import embeddings

CALLS = calls(kernel="dense")
# The compiler makes an instance of what must have none, and says so itself.
pytestmark = pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """Nothing is compiled before, and nothing stays for others."""
    dynamo.reset()
    counters.clear()
    yield
    dynamo.reset()


@pytest.mark.parametrize("name", CALLS)
def test_one_graph_with_the_values_and_gradients_of_a_plain_call(name: str) -> None:
    call = CALLS[name]
    inputs = (*call.inputs, *call.loss.parameters())
    wanted = call.value()
    figures = call.loss.diagnostics
    compiled = torch.compile(call.loss, fullgraph=True, backend="aot_eager")
    with dynamo.config.patch(error_on_recompile=True):
        for _ in range(3):
            found = call.value(loss=compiled)
            torch.testing.assert_close(found, wanted, rtol=1e-13, atol=0)
            gradients = (torch.autograd.grad(value, inputs, retain_graph=True) for value in (found, wanted))
            torch.testing.assert_close(*gradients, rtol=1e-12, atol=1e-15)
    assert vars(call.loss.diagnostics) == pytest.approx(vars(figures)), "those of the last call, compiled or not"


@pytest.mark.parametrize(
    "name",
    [
        "nt_xent", "nt_xent, labels", "nt_xent, partitions", "info_nce, symmetric",
        "info_nce, queue, labels and ids", "info_nce, hard negatives, exclude, log_q", "bank",
    ],
)  # fmt: skip
def test_other_batch_sizes_are_compiled_once_more(name: str) -> None:
    sizes = (8, 12, 14, 9)
    compiled = torch.compile(calls(kernel="dense")[name].loss, fullgraph=True, backend="eager")
    for b in sizes:
        call = calls(b, kernel="dense")[name]
        torch.testing.assert_close(call.value(loss=compiled), call.value())
    assert counters["stats"]["unique_graphs"] <= 2


@pytest.mark.parametrize("make", [dc.DebiasedNTXentLoss, dc.DebiasedInfoNCELoss])
@pytest.mark.parametrize(
    ("b", "settings"),
    [(8, {"tau_plus": 0.1}), (300, {"tau_plus": 0.1}), (8, {"tau_plus": "auto", "kernel": "dense"})],
)
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning")
def test_tiles_and_what_follows_training_break_the_graph_of_a_step_once(
    make: Any, b: int, settings: dict[str, Any]
) -> None:
    layer, loss = nn.Linear(5, 5).double(), make(0.5, **settings)
    z = embeddings(b, 5, seed=0).detach()

    def step() -> torch.Tensor:
        value: torch.Tensor = loss(layer(z), layer(z.flip(0)))
        return 2 * value

    assert dynamo.explain(step)().graph_break_count == 1
    dynamo.reset()
    torch.testing.assert_close(torch.compile(step, backend="aot_eager")(), step(), rtol=1e-13, atol=0)


def test_mixed_precision_ends_at_the_loss() -> None:
    """A backward that is called under autocast would else round its products."""
    z0, z1 = (z.detach().float().requires_grad_() for z in CALLS["nt_xent"].inputs)
    loss = dc.DebiasedNTXentLoss(0.1, 0.01, kernel="dense")
    wanted = torch.autograd.grad(loss(z0, z1), (z0, z1))
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    with torch.autocast("cpu", torch.bfloat16):
        found = torch.autograd.grad(compiled(z0, z1), (z0, z1))
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-7)


def test_a_schedule_of_tau_plus_is_compiled_once_more() -> None:
    z = embeddings(8, 4, seed=1), embeddings(8, 4, seed=2)
    loss = dc.DebiasedNTXentLoss(kernel="dense")
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    for step in range(12):
        loss.tau_plus = 0.01 * (step + 1)
        torch.testing.assert_close(compiled(*z), loss(*z), rtol=1e-13, atol=0)
        assert loss.diagnostics.tau_plus == pytest.approx(loss.tau_plus)
        torch.testing.assert_close(compiled(*z, tau_plus=0.02), loss(*z, tau_plus=0.02), rtol=1e-13, atol=0)
    assert counters["stats"]["unique_graphs"] <= 4


@pytest.mark.parametrize("setting", ["temperature", "beta", "strength", "attraction"])
def test_a_schedule_of_other_settings_is_compiled_once_more(setting: str) -> None:
    z = embeddings(8, 4, seed=1), embeddings(8, 4, seed=2)
    known = {} if setting in ("temperature", "beta") else {"partitions": (torch.arange(8) % 3).unsqueeze(1)}
    loss = dc.DebiasedNTXentLoss(kernel="dense")
    compiled = torch.compile(loss, fullgraph=True, backend="eager")
    for step in range(10):
        setattr(loss, setting, 0.1 * (step + 1))
        torch.testing.assert_close(compiled(*z, **known), loss(*z, **known), rtol=1e-13, atol=0)
    assert counters["stats"]["unique_graphs"] <= 2


@pytest.mark.parametrize("make", [dc.DebiasedNTXentLoss, dc.DebiasedInfoNCELoss])
def test_a_batch_of_one_is_part_of_a_graph(make: Any) -> None:
    z = embeddings(1, 4, seed=1), embeddings(1, 4, seed=2)
    loss: Callable[..., torch.Tensor] = torch.compile(make(kernel="dense"), fullgraph=True, backend="aot_eager")
    assert loss(*z) == 0


def test_a_graph_looks_at_no_values() -> None:
    loss = dc.DebiasedNTXentLoss(kernel="dense")
    z = torch.full((4, 3), torch.nan)
    assert torch.compile(loss, fullgraph=True, backend="eager")(z, z).isnan()
    assert loss._calls.number == 1
    loss.checks = "always"
    with pytest.raises(ValueError, match="view 0 has NaN or inf in 4 of 4 rows"):
        torch.compile(loss, backend="eager")(z, z)
