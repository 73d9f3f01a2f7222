"""Behaviour as modules: diagnostics, temperature as a parameter, printing."""

import copy
import inspect
import math
import warnings
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch

import debiased_contrastive as dc
from debiased_contrastive.objectives.checks import OnFloor
from tests.losses.cases import embeddings, views


def test_diagnostics_of_a_batch_computed_by_hand() -> None:
    z0, z1 = views(8, 5, 2)
    loss = dc.DebiasedNTXentLoss(temperature=0.2, tau_plus=0.1)
    loss(z0, z1)
    z = torch.nn.functional.normalize(torch.stack([z0, z1], 1).flatten(0, 1).detach(), dim=1)
    e = (z @ z.T / 0.2).exp()
    image = torch.arange(16) // 2
    mean_u = (e * (image[:, None] != image)).sum(1) / 14
    e_plus = e[torch.arange(16), torch.arange(16) ^ 1]
    floor = math.exp(-5)
    tau_cap = torch.where(e_plus > mean_u, (mean_u - floor) / (e_plus - floor), 1.0).sort().values
    g = ((mean_u - 0.1 * e_plus) / 0.9).clamp(min=floor)
    seen = loss.diagnostics
    assert seen.floored == pytest.approx((g == floor).double().mean().item())
    assert 0 < seen.floored < 1
    assert seen.tau_cap_median == pytest.approx(tau_cap[7].item(), rel=1e-9)
    assert seen.tau_cap_low == pytest.approx(tau_cap[0].item(), rel=1e-9)
    assert seen.mean_log_g == pytest.approx(g.log().mean().item(), rel=1e-9)
    assert (seen.num_unlabeled, seen.num_positives) == (14, 1)


def test_loggers_get_plain_floats_under_plain_names() -> None:
    """W&B and MLflow refuse None and tensors; MLflow and CSV headers allow few signs in a name."""
    z, loss = views(4, 3, 2), dc.DebiasedNTXentLoss()
    loss(*z)
    without = loss.diagnostics.as_dict()
    loss(*z, membership=torch.eye(4, dtype=torch.float64))
    known = loss.diagnostics.as_dict()
    assert known.keys() - without.keys() == {"mean_q", "effective_number", "covariance", "entropy"}
    for name, value in known.items():
        assert type(value) is float
        assert name.isidentifier()
    assert without["num_unlabeled"] == 6


@pytest.mark.parametrize("on_floor", ["clamp", "biased", "cap_tau"])
def test_the_biased_loss_of_a_call_is_the_loss_without_correction(on_floor: OnFloor) -> None:
    z = views(8, 5, 3)
    loss, biased = dc.DebiasedNTXentLoss(0.2, 0.3, on_floor=on_floor), dc.DebiasedNTXentLoss(0.2, 0.0)
    with pytest.raises(RuntimeError, match="there was none yet"):
        _ = loss.biased_loss
    assert loss(*z) < biased(*z)
    assert loss.biased_loss == biased(*z).item() == biased.biased_loss


def test_tau_cap_is_where_the_floor_begins() -> None:
    """Just below the reported quantile at most 5 % of the anchors are floored; above the median, half."""
    z = views(200, 16, 2)
    loss = dc.DebiasedNTXentLoss(temperature=0.1, tau_plus=0.1)
    loss(*z)
    low, median = loss.diagnostics.tau_cap_low, loss.diagnostics.tau_cap_median
    loss(*z, tau_plus=0.999 * low)
    assert 0.03 < loss.diagnostics.floored <= 0.05
    loss(*z, tau_plus=1.001 * median)
    assert loss.diagnostics.floored == pytest.approx(0.5, abs=0.02)


def test_diagnostics_count_and_hold_no_graph() -> None:
    query, key = views(5, 4, 2)
    loss = dc.DebiasedInfoNCELoss(0.5, 0.1)
    with pytest.raises(RuntimeError, match="there was none yet"):
        _ = loss.diagnostics
    loss(query, key, embeddings(9, 4, seed=1), extra_keys=embeddings(5, 3, 4, seed=2))
    assert (loss.diagnostics.num_unlabeled, loss.diagnostics.num_positives) == (9, 4)
    loss(query, key, labels=torch.arange(5))
    assert (loss.diagnostics.num_unlabeled, loss.diagnostics.floored) == (4, 0)
    assert loss._record is not None
    kept = [value for value in vars(loss._record.statistics).values() if isinstance(value, torch.Tensor)]
    assert len(kept) >= 4
    assert not any(value.requires_grad for value in kept)
    copy.deepcopy(loss)  # as EMA and checkpoint tools do


def test_a_parameter_as_temperature_is_learnt_and_saved() -> None:
    loss = dc.DebiasedInfoNCELoss(torch.nn.Parameter(torch.tensor(0.3)), 0.05, symmetric=True, checks="always")
    assert [name for name, _ in loss.named_parameters()] == ["temperature"]
    assert loss.state_dict()["temperature"] == pytest.approx(0.3)
    query, key = (z.detach().float() for z in views(6, 4, 2))
    loss(query, key).backward()
    assert loss.temperature.grad is not None  # type: ignore[union-attr]
    with torch.no_grad():
        loss.temperature.fill_(-1.0)  # type: ignore[union-attr]
    with pytest.raises(ValueError, match=r"got -1.0: a learnt one is kept positive by learning its logarithm"):
        loss(query, key)


def test_temperature_and_tau_plus_of_the_call_take_precedence() -> None:
    query, key = views(6, 4, 2)
    scale = torch.tensor(math.log(5.0), dtype=torch.float64, requires_grad=True)
    for make in (dc.DebiasedNTXentLoss, dc.DebiasedInfoNCELoss):
        got = make(0.9, 0.0)(query, key, tau_plus=0.1, temperature=(-scale).exp())
        torch.testing.assert_close(got, make(0.2, 0.1)(query, key))
        (grad,) = torch.autograd.grad(got, scale)
        assert grad != 0


def test_the_order_of_unreduced_losses_is_view_0_then_view_1() -> None:
    z0, z1 = views(5, 4, 2)
    loss = dc.DebiasedNTXentLoss(reduction="none")
    each, swapped = loss(z0, z1), loss(z1, z0)
    torch.testing.assert_close(each, swapped.roll(5))
    torch.testing.assert_close(dc.DebiasedNTXentLoss(reduction="sum")(z0, z1), each.sum())


def test_settings_may_change_between_calls() -> None:
    z = views(6, 4, 2)
    loss = dc.DebiasedNTXentLoss(0.5, 0.1)
    loss.tau_plus, loss.temperature, loss.reduction = 0.05, 0.3, "sum"
    torch.testing.assert_close(loss(*z), dc.DebiasedNTXentLoss(0.3, 0.05, reduction="sum")(*z))
    loss.tau_plus = 2.0
    with pytest.raises(ValueError, match="tau_plus must lie in"):
        loss(*z)


def test_it_warns_when_nothing_can_be_learnt() -> None:
    z = views(20, 8, 2, noise=0.1)
    loss = dc.DebiasedInfoNCELoss()
    with pytest.warns(UserWarning, match=r"every anchor is on the floor \(call 1\).*lower tau_plus below"):
        loss(*z)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(8):
            loss(*z)  # calls 2 to 9 do not ask
        dc.DebiasedInfoNCELoss(on_floor="cap_tau")(*z)
        dc.DebiasedInfoNCELoss(tau_plus=0.0)(*z)
    with pytest.warns(UserWarning, match="call 10"):
        loss(*z)


def test_dtypes_of_temperature_tau_plus_and_codes_do_not_matter() -> None:
    z = views(8, 4, 2)
    labels = torch.arange(8) % 3
    want = dc.DebiasedNTXentLoss(0.25, 0.9)(*z)
    for dtype in (torch.bfloat16, torch.float16, torch.float32, torch.float64):
        got = dc.DebiasedNTXentLoss(torch.tensor([[0.25]], dtype=dtype), reduction="none")(*z, tau_plus=0.9)
        assert got.shape == (16,)
        torch.testing.assert_close(got.mean(), want, rtol=1e-14, atol=0)
    loss = dc.DebiasedInfoNCELoss(0.5, 0.1)
    for dtype in (torch.uint8, torch.int16, torch.int32):
        torch.testing.assert_close(loss(*z, ids=labels.to(dtype)), loss(*z, ids=labels))
        torch.testing.assert_close(loss(*z, labels=labels.to(dtype)), loss(*z, labels=labels))
    nearly_one = torch.full((8,), 1 - 1e-9, dtype=torch.float64)
    with pytest.raises(ValueError, match="got 8 of 8 outside"):
        dc.DebiasedNTXentLoss()(*(view.float() for view in z), tau_plus=nearly_one)


def test_mean_log_g_leaves_out_anchors_whose_g_is_zero() -> None:
    z = torch.tensor([[3.0, 0.0], [0.0, 3.0], [3.0, 3.0]])
    loss = dc.DebiasedNTXentLoss(1.0, 0.3, normalize=False)
    loss(z, z)
    assert 0 < loss.diagnostics.floored < 1
    assert math.isfinite(loss.diagnostics.mean_log_g)


def test_functional_transforms_work_on_the_dense_kernel() -> None:
    z0, z1 = (view.detach() for view in views(5, 4, 3)[:2])
    loss = dc.DebiasedNTXentLoss(kernel="dense")
    got = torch.func.grad(lambda z: loss(z, z1))(z0)
    (want,) = torch.autograd.grad(loss(z0.requires_grad_(), z1), z0)
    torch.testing.assert_close(got, want)


@pytest.mark.parametrize(
    "make", [dc.DebiasedNTXentLoss, dc.DebiasedInfoNCELoss, dc.DebiasedBankLoss, dc.DebiasedSupConLoss]
)
def test_every_setting_is_printed(make: Callable[..., torch.nn.Module]) -> None:
    loss = make()
    for name in inspect.signature(make).parameters:
        assert f"{name}={getattr(loss, name)}" in repr(loss)


def test_they_print_their_settings() -> None:
    text = repr(dc.DebiasedNTXentLoss(0.2, 0.05, on_floor="smooth"))
    assert "temperature=0.2" in text
    assert "on_floor=smooth" in text
    learnt = dc.DebiasedInfoNCELoss(torch.nn.Parameter(torch.tensor(0.3)), torch.full((9,), 0.1), symmetric=True)
    assert "symmetric=True, temperature=0.3, tau_plus=tensor of (9,)" in repr(learnt)
    assert "\n" not in repr(learnt)


@pytest.mark.parametrize("temperature", [1, np.float32(0.5), Fraction(1, 2)])
@pytest.mark.parametrize("kernel", ["dense", "tiled"])
def test_a_temperature_may_be_any_real_number(temperature: Any, kernel: Any) -> None:
    z = torch.randn(2, 6, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    found, wanted = (dc.DebiasedNTXentLoss(t, kernel=kernel)(*z) for t in (temperature, float(temperature)))
    assert float(found) == pytest.approx(float(wanted), rel=1e-12)


def test_a_module_can_be_made_without_memory() -> None:
    """As large models are: on the meta device, whose tensors have no values."""
    with torch.device("meta"):
        loss = dc.DebiasedNTXentLoss(torch.nn.Parameter(torch.tensor(0.5)), torch.full((4,), 0.1))
    assert "temperature=tensor of ()" in repr(loss)
