"""Logits against drawn rows of a bank are those of the rows looked up, either way, and need little memory."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from debiased_contrastive.kernels import bank as bank_kernel
from debiased_contrastive.kernels.bank import bank_logits


def looked_up(anchors: torch.Tensor, bank: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    return torch.einsum("ad,akd->ak", anchors, bank[places])


@settings(max_examples=60, deadline=None)
@given(
    a=st.integers(1, 7),
    n=st.integers(2, 40),
    k=st.integers(1, 9),
    d=st.integers(1, 5),
    worth=st.sampled_from([0, 10**6]),
    at_once=st.sampled_from([1, 50, 10**6]),
    seed=st.integers(0, 99),
)
def test_values_and_gradients(a: int, n: int, k: int, d: int, worth: int, at_once: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    bank = torch.randn(n, d, generator=generator, dtype=torch.float64)
    anchors = torch.randn(a, d, generator=generator, dtype=torch.float64).requires_grad_()
    places = torch.randint(n, (a, k), generator=generator)
    weights = torch.randn(a, k, generator=generator, dtype=torch.float64)
    expected = looked_up(anchors, bank, places)
    (d_expected,) = torch.autograd.grad((expected * weights).sum(), anchors)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bank_kernel, "COST_OF_A_ROW", worth)
        patch.setattr(bank_kernel, "NUMBERS_AT_ONCE", at_once)
        found = bank_logits(anchors, bank, places)
        (d_found,) = torch.autograd.grad((found * weights).sum(), anchors)
    assert torch.allclose(found, expected, atol=1e-12)
    assert torch.allclose(d_found, d_expected, atol=1e-12)


@pytest.mark.parametrize("worth", [0, 10**6])
def test_gradcheck(worth: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bank_kernel, "COST_OF_A_ROW", worth)
    bank, places = torch.randn(9, 3, dtype=torch.float64), torch.randint(9, (4, 6))
    anchors = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: bank_logits(x, bank, places), (anchors,))


def test_there_is_no_second_derivative() -> None:
    anchors = torch.randn(2, 3, requires_grad=True)
    value = bank_logits(anchors, torch.randn(5, 3), torch.randint(5, (2, 4))).square().sum()
    (gradient,) = torch.autograd.grad(value, anchors, create_graph=True)
    with pytest.raises(RuntimeError, match="first derivatives only"):
        gradient.sum().backward()


def test_autocast_has_no_say() -> None:
    anchors, bank, places = torch.randn(3, 64), torch.randn(30, 64), torch.randint(30, (3, 5))
    with torch.autocast("cpu", torch.bfloat16):
        found = bank_logits(anchors.requires_grad_(), bank, places)
    assert found.dtype == torch.float32
    assert torch.allclose(found, looked_up(anchors, bank, places), atol=1e-4)


def test_a_bank_that_changed_before_the_backward_is_refused() -> None:
    anchors, bank = torch.randn(3, 4, requires_grad=True), torch.randn(6, 4)
    found = bank_logits(anchors, bank, torch.randint(6, (3, 5)))
    bank[0] = 0
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        found.sum().backward()
