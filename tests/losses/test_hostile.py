"""Legal input of the worst kind stays finite in value and gradient."""

import itertools
from typing import Any

import pytest
import torch

import debiased_contrastive as dc
from debiased_contrastive.kernels.log_mean import Kernel
from debiased_contrastive.objectives.checks import OnFloor

FLOORS: tuple[OnFloor, ...] = ("clamp", "biased", "smooth", "cap_tau")
DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]


def hostile_batches() -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
    generator = torch.Generator().manual_seed(0)
    z = torch.randn(6, 8, generator=generator)
    one = torch.ones(6, 8)
    return {
        "ordinary": (z, z + torch.randn(6, 8, generator=generator)),
        "all identical": (one, one),
        "all positives at cosine 1": (z, 3 * z),
        "all positives opposite": (z, -z),
        "unlabeled opposite": (one, one * torch.tensor([1.0, -1, 1, -1, 1, -1])[:, None]),
        "zero rows": (z * torch.tensor([0.0, 1, 1, 1, 0, 1])[:, None], z),
        "all zero": (0 * z, 0 * z),
        "small": (z * 1e-3, z * 1e-3),
        "two inputs": (z[:2], z[2:4]),
        "one feature": (z[:, :1], z[:, 1:2]),
    }


BATCHES = hostile_batches()


@pytest.mark.parametrize("kernel", ["dense", "tiled"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", BATCHES)
def test_values_and_gradients_stay_finite(name: str, dtype: torch.dtype, kernel: Kernel) -> None:
    z0, z1 = (z.to(dtype).clone().requires_grad_() for z in BATCHES[name])
    for temperature, tau_plus, on_floor in itertools.product((0.01, 0.5), (0.01, 0.9), FLOORS):
        settings: dict[str, Any] = {"on_floor": on_floor, "kernel": kernel, "temperature": temperature}
        for loss in (
            dc.DebiasedNTXentLoss(tau_plus=tau_plus, **settings),
            dc.DebiasedNTXentLoss(tau_plus=tau_plus, beta=1.0, **settings),
            dc.DebiasedInfoNCELoss(tau_plus=tau_plus, symmetric=True, **settings),
        ):
            value = loss(z0, z1)
            assert value.isfinite()
            for grad in torch.autograd.grad(value, (z0, z1)):
                assert grad.isfinite().all()


@pytest.mark.parametrize("kernel", ["dense", "tiled"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("relative_floor", [0.0, 0.05])
def test_raw_products_of_500_stay_finite(dtype: torch.dtype, kernel: Kernel, relative_floor: float) -> None:
    z = torch.tensor([[22.36, 0.0], [-22.36, 0.0], [0.0, 22.36], [22.36, 1.0]]).to(dtype)
    for tau_plus, on_floor in itertools.product((0.0, 0.1), FLOORS):
        z0, z1 = z.clone().requires_grad_(), z.flip(0).clone().requires_grad_()
        loss = dc.DebiasedNTXentLoss(
            1.0, tau_plus, on_floor=on_floor, normalize=False, relative_floor=relative_floor, kernel=kernel
        )(z0, z1)
        assert loss.isfinite()
        assert all(grad.isfinite().all() for grad in torch.autograd.grad(loss, (z0, z1)))


@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_the_scale_of_the_embeddings_does_not_matter(scale: float) -> None:
    """Squares of 1e30 overflow float32, squares of 1e-30 vanish."""
    z0, z1 = BATCHES["ordinary"]
    far = (z0 * scale).requires_grad_(), (z1 * scale).requires_grad_()
    near = z0.clone().requires_grad_(), z1.clone().requires_grad_()
    loss = dc.DebiasedNTXentLoss()
    torch.testing.assert_close(loss(*far), loss(*near))
    got, want = torch.autograd.grad(loss(*far), far), torch.autograd.grad(loss(*near), near)
    torch.testing.assert_close([g * scale for g in got], list(want))


def test_every_anchor_on_the_floor_still_pulls_its_positive() -> None:
    z0, z1 = (z.clone().requires_grad_() for z in BATCHES["ordinary"])
    loss = dc.DebiasedNTXentLoss(temperature=0.5, tau_plus=0.9)
    value = loss(z0, z1)
    assert loss.diagnostics.floored == 1
    (grad,) = torch.autograd.grad(value, z0)
    assert grad.norm() > 0
