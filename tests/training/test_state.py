"""The momentum copy is apart from its source and follows it; old names of weights become those of today."""

import pytest
import torch
from torch import nn

from debiased_contrastive.training.weights import momentum_copy, momentum_update_, with_current_names


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))


def step(source: nn.Sequential) -> None:
    """Other parameters and other batch statistics."""
    source(torch.randn(8, 3) + 5)
    with torch.no_grad():
        for value in source.parameters():
            value.add_(torch.randn_like(value))


def test_the_copy_is_apart_and_takes_no_gradient() -> None:
    source = network()
    source(torch.randn(8, 3)).sum().backward()
    target = momentum_copy(source)
    assert isinstance(target, nn.Sequential)
    assert target.training
    assert not momentum_copy(source.eval()).training
    assert all(value.requires_grad for value in source.parameters())
    assert not any(value.requires_grad or value.grad is not None for value in target.parameters())
    before = {name: value.clone() for name, value in target.state_dict().items()}
    step(source.train())
    for name, value in target.state_dict().items():
        assert torch.equal(value, before[name]), name
    assert not target(torch.randn(8, 3)).requires_grad


def test_it_is_the_moving_average_of_the_parameters() -> None:
    source = network()
    target = momentum_copy(source)
    expected = {name: value.detach().double() for name, value in source.named_parameters()}
    for _ in range(5):
        step(source)
        momentum_update_(target, source, 0.9)
        for name, value in source.named_parameters():
            expected[name] = 0.9 * expected[name] + 0.1 * value.detach().double()
    for name, value in target.named_parameters():
        torch.testing.assert_close(value.double(), expected[name], rtol=1e-5, atol=1e-6)
        assert not value.requires_grad
    for name, buffer in target.named_buffers():
        assert torch.equal(buffer, source.get_buffer(name)), name
    assert target.get_buffer("1.num_batches_tracked") == 5


@pytest.mark.parametrize("momentum", [0.0, 1.0])
def test_the_ends_are_exact(momentum: float) -> None:
    source = network()
    target, start = momentum_copy(source), momentum_copy(source)
    step(source)
    momentum_update_(target, source, momentum)
    wanted = source if momentum == 0 else start
    for name, value in target.named_parameters():
        assert torch.equal(value, wanted.get_parameter(name)), name


def test_buffers_outside_the_state_dict_follow_too() -> None:
    source = nn.Linear(2, 2)
    source.register_buffer("mask", torch.zeros(2), persistent=False)
    target = momentum_copy(source)
    source.get_buffer("mask").fill_(1)
    momentum_update_(target, source, 0.5)
    assert target.get_buffer("mask").eq(1).all()


def test_another_module_or_momentum_is_refused_and_changes_nothing() -> None:
    source = network()
    target = momentum_copy(source)
    before = {name: value.clone() for name, value in target.state_dict().items()}
    step(source)
    with pytest.raises(ValueError, match=r"unexpected: 0.0.weight, .*without wrappers"):
        momentum_update_(target, nn.Sequential(source), 0.9)
    other = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 3))
    with pytest.raises(ValueError, match=r"other shapes: 2.weight \(3, 4\) instead of \(2, 4\), 2.bias"):
        momentum_update_(target, other, 0.9)
    for momentum in (-0.1, 1.5, float("nan")):
        with pytest.raises(ValueError, match=r"momentum must lie in \[0, 1\]; got"):
            momentum_update_(target, source, momentum)
    for name, value in target.state_dict().items():
        assert torch.equal(value, before[name]), name


def test_only_whole_parts_of_a_module_that_says_so_are_renamed() -> None:
    old = {"eyes.head.weight": 1, "eyes": 2, "eyesight.weight": 3, "critics.eyes.weight": 4}
    assert with_current_names(network(), old) == old
    module = network()
    module.renamed = {"eyes": "encoder"}  # type: ignore[assignment]
    assert with_current_names(module, old) == {
        "encoder.head.weight": 1, "encoder": 2, "eyesight.weight": 3, "critics.eyes.weight": 4
    }  # fmt: skip
    assert with_current_names(module, with_current_names(module, old)) == with_current_names(module, old)
