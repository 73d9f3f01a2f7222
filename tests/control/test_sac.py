"""Soft actor-critic: densities against torch's distributions, update rules against numbers worked out by hand."""

import math

import pytest
import torch
from torch.distributions import Independent, Normal, TanhTransform, TransformedDistribution

from debiased_contrastive.control.sac import (
    LOG_STD_BOUNDS,
    Critics,
    Policy,
    actor_loss,
    alpha_loss,
    critic_loss,
    critic_target,
    squash,
)


def test_densities_are_those_of_a_gaussian_through_a_tangent() -> None:
    torch.manual_seed(0)
    mean, log_std, noise = torch.randn(3, 50, 2, dtype=torch.float64)
    x = mean + noise * log_std.exp()
    action, log_density = squash(x, noise, log_std)
    base = TransformedDistribution(Normal(mean, log_std.exp()), [TanhTransform(cache_size=1)])
    inside = action.abs().amax(1) < 0.999
    torch.testing.assert_close(
        log_density[inside], Independent(base, 1).log_prob(action)[inside], rtol=1e-6, atol=1e-6
    )


def test_actions_at_the_edge_have_finite_densities() -> None:
    x = torch.tensor([[40.0, -40.0]], requires_grad=True)
    action, log_density = squash(x, torch.zeros(1, 2), torch.zeros(1, 2))
    log_density.sum().backward()
    assert action.abs().max() <= 1
    # log (1 - tanh^2 x) tends to 2 log 2 - 2 |x|.
    assert log_density.item() == pytest.approx(-math.log(2 * math.pi) - 2 * (2 * math.log(2) - 80), rel=1e-6)
    assert x.grad is not None
    assert x.grad.isfinite().all()


def test_the_policy_keeps_within_its_bounds() -> None:
    torch.manual_seed(0)
    policy = Policy(3, 2, 8)
    features = 100 * torch.randn(64, 3)
    mean, log_std = policy(features)
    assert mean.shape == log_std.shape == (64, 2)
    assert LOG_STD_BOUNDS[0] <= log_std.min() <= log_std.max() <= LOG_STD_BOUNDS[1]
    action, log_density = policy.sample(features)
    assert action.abs().max() <= 1
    assert log_density.shape == (64,)


def test_two_critics_differ_and_see_the_action() -> None:
    torch.manual_seed(0)
    critics = Critics(3, 2, 8)
    values = critics(torch.ones(4, 3), torch.randn(4, 2))
    assert values.shape == (2, 4)
    assert len(values.unique()) == 8


def test_the_rules_by_hand() -> None:
    values = torch.tensor([[1.0, 5.0], [2.0, 4.0]])
    log_densities, alpha = torch.tensor([-1.0, 2.0]), torch.tensor(0.5)
    found = critic_target(torch.tensor([10.0, 20.0]), torch.tensor([1.0, 0.0]), values, log_densities, alpha, 0.9)
    # 10 + 0.9 (1 + 0.5) and, where the task is over, the reward alone.
    torch.testing.assert_close(found, torch.tensor([11.35, 20.0]))
    # Means of (1, 9) and (4, 4).
    assert critic_loss(values, torch.tensor([0.0, 2.0])).item() == pytest.approx((1 + 9) / 2 + (4 + 4) / 2)
    # Mean of -0.5 - 1 and 1 - 4.
    assert actor_loss(values, log_densities, alpha).item() == pytest.approx((-1.5 - 3.0) / 2)
    # e^log 0.5 times the mean of (1 + 1) and (-2 + 1).
    log_alpha = torch.tensor(math.log(0.5), requires_grad=True)
    loss = alpha_loss(log_alpha, log_densities, -1.0)
    loss.backward()
    assert loss.item() == pytest.approx(0.5 * (2 - 1) / 2)
    assert log_alpha.grad is not None
    assert log_alpha.grad.item() > 0, "more entropy than wanted: its weight falls"
