"""One tile in one node: losses and gradients of loops and of the dense kernel, at its limits, too."""

import pytest
import torch

import debiased_contrastive as dc
from debiased_contrastive.kernels import two_views
from debiased_contrastive.kernels.two_views import fits_one_tile
from debiased_contrastive.losses import nt_xent
from tests.losses.cases import views
from tests.reference.batches import nt_xent as slow_nt_xent


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of pairs of each call that one tile was enough for."""
    found = []

    def spy(z0: torch.Tensor, *args: object, **rest: object) -> object:
        found.append(len(z0))
        return kernel(z0, *args, **rest)  # type: ignore[arg-type]

    kernel = two_views.losses_of_views
    monkeypatch.setattr(nt_xent, "losses_of_views", spy)
    return found


@pytest.mark.parametrize("temperature", [0.5, 0.1])
@pytest.mark.parametrize("tau_plus", [0.0, 0.02, 0.1, 0.9])
def test_losses_are_those_of_loops(tau_plus: float, temperature: float, taken: list[int]) -> None:
    z = views(7, 3, 2)
    loss = dc.DebiasedNTXentLoss(temperature, tau_plus, kernel="tiled", reduction="none")
    want = slow_nt_xent([view.tolist() for view in z], temperature, [tau_plus] * 7)
    assert loss(*z).tolist() == pytest.approx(want, rel=1e-12)
    assert taken == [7]


@pytest.mark.parametrize("tau_plus", [0.0, 0.02, 0.9])
def test_gradcheck(tau_plus: float, taken: list[int]) -> None:
    loss = dc.DebiasedNTXentLoss(0.5, tau_plus, kernel="tiled", reduction="none")
    assert torch.autograd.gradcheck(loss, views(4, 3, 2))
    assert taken


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("tau_plus", [0.0, 0.1, 0.9])
def test_value_gradient_and_diagnostics_are_those_of_dense(
    tau_plus: float, reduction: str, taken: list[int]
) -> None:
    z = views(6, 4, 2)
    made = {k: dc.DebiasedNTXentLoss(0.5, tau_plus, kernel=k, reduction=reduction) for k in ("dense", "tiled")}  # type: ignore[arg-type]
    found = {}
    for name, loss in made.items():
        value = loss(*z)
        weights = torch.linspace(-1, 2, value.numel(), dtype=value.dtype).view_as(value)
        found[name] = (value.detach(), *torch.autograd.grad((weights * value).sum(), z))
    for got, want in zip(found["tiled"], found["dense"], strict=True):
        torch.testing.assert_close(got, want, rtol=1e-12, atol=1e-14)
    assert made["tiled"].diagnostics.as_dict() == pytest.approx(made["dense"].diagnostics.as_dict(), rel=1e-10)
    assert made["tiled"].biased_loss == pytest.approx(made["dense"].biased_loss, rel=1e-12)
    assert taken == [6]


def test_what_is_not_usual_goes_another_way(taken: list[int]) -> None:
    z = views(6, 4, 2)
    for settings in (
        {"decoupled": True},
        {"beta": 0.5},
        {"on_floor": "biased"},
        {"normalize": False},
        {"temperature": torch.tensor(0.5)},
        {"tau_plus": torch.full((6,), 0.1)},
        {"tau_plus": "auto"},
        {"temperature": 1e-3},
    ):
        dc.DebiasedNTXentLoss(kernel="tiled", **settings)(*z)
    dc.DebiasedNTXentLoss(kernel="tiled")(*views(6, 4, 3))
    dc.DebiasedNTXentLoss(kernel="tiled")(*z, labels=torch.arange(6))
    assert not taken
    assert fits_one_tile(512, torch.float32, 2.0)
    assert not fits_one_tile(513, torch.float32, 2.0)
    assert fits_one_tile(9, torch.float64, 300.0)
    assert not fits_one_tile(9, torch.float32, 41.0)


def test_a_view_that_needs_no_gradient_may_be_of_inference_mode(taken: list[int]) -> None:
    z0, z1 = views(5, 4, 2)
    with torch.inference_mode():
        constant = z1.detach().clone()
    loss = dc.DebiasedNTXentLoss(kernel="tiled")
    got, want = (torch.autograd.grad(loss(z0, z), z0) for z in (constant, z1.detach()))
    torch.testing.assert_close(got, want, rtol=0, atol=0)
    assert taken == [5, 5]


def test_rows_without_a_direction_and_of_any_size(taken: list[int]) -> None:
    """A zero row, and rows whose squares leave float32."""
    z0, z1 = (view.detach().float() for view in views(5, 4, 2))
    z0[1] = 0.0
    z1[2] *= 1e30
    z0[3] *= 1e-30
    z = z0.requires_grad_(), z1.requires_grad_()
    found = []
    for kernel in ("tiled", "dense"):
        loss = dc.DebiasedNTXentLoss(kernel=kernel)(*z)
        found.append((loss.detach(), *torch.autograd.grad(loss, z)))
    for got, want in zip(*found, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-7)
    assert taken == [5]
