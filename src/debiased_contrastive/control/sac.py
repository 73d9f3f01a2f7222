"""Soft actor-critic: a policy, two critics, and the four rules by which they learn."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from debiased_contrastive.control.networks import orthogonal_

LOG_STD_BOUNDS = (-10.0, 2.0)


class Policy(nn.Module):
    """Features to actions in (-1, 1): a Gaussian through a hyperbolic tangent."""

    def __init__(self, feature_dim: int, action_dim: int, hidden_dim: int) -> None:
        super().__init__()
        self.layers = _perceptron(feature_dim, hidden_dim, 2 * action_dim)

    def forward(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and logarithm of the standard deviation, (b, a) each, before the tangent."""
        mean, log_std = self.layers(features).chunk(2, -1)
        low, high = LOG_STD_BOUNDS
        return mean, low + (high - low) / 2 * (log_std.tanh() + 1)

    def sample(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Draw an action (b, a); also the logarithm of its density (b,)."""
        mean, log_std = self(features)
        noise = torch.randn_like(mean)
        return squash(mean + noise * log_std.exp(), noise, log_std)


def squash(x: Tensor, noise: Tensor, log_std: Tensor) -> tuple[Tensor, Tensor]:
    """tanh x and the logarithm of its density, x being Gaussian with that noise in units of its deviation."""
    log_density = -noise.square() / 2 - log_std - math.log(2 * math.pi) / 2
    # log (1 - tanh^2 x), which rounds to the logarithm of 0 where it is taken as it stands.
    slope = 2 * (math.log(2) - x - F.softplus(-2 * x))
    return x.tanh(), (log_density - slope).sum(-1)


class Critics(nn.Module):
    """Two estimates of the value of an action."""

    def __init__(self, feature_dim: int, action_dim: int, hidden_dim: int) -> None:
        super().__init__()
        self.both = nn.ModuleList(_perceptron(feature_dim + action_dim, hidden_dim, 1) for _ in range(2))

    def forward(self, features: Tensor, actions: Tensor) -> Tensor:
        """(2, b) values of actions (b, a)."""
        joined = torch.cat([features, actions], -1)
        return torch.stack([critic(joined).squeeze(-1) for critic in self.both])


def critic_target(
    rewards: Tensor, discounts: Tensor, values: Tensor, log_densities: Tensor, alpha: Tensor, gamma: float
) -> Tensor:
    """The target (b,) of the critics: the reward, and the smaller value (2, b) of what follows with its entropy."""
    return rewards + gamma * discounts * (values.amin(0) - alpha * log_densities)


def critic_loss(values: Tensor, targets: Tensor) -> Tensor:
    """The mean squared error of both critics' values (2, b), summed."""
    return (values - targets).square().mean(1).sum()


def actor_loss(values: Tensor, log_densities: Tensor, alpha: Tensor) -> Tensor:
    """The loss of a policy whose actions have these values (2, b): large values and entropy are wanted."""
    return (alpha.detach() * log_densities - values.amin(0)).mean()


def alpha_loss(log_alpha: Tensor, log_densities: Tensor, target_entropy: float) -> Tensor:
    """The loss of the weight of entropy, which grows where there is less entropy than wanted."""
    return (log_alpha.exp() * (-log_densities - target_entropy).detach()).mean()


def _perceptron(inputs: int, hidden: int, outputs: int) -> nn.Sequential:
    first, middle, last = nn.Linear(inputs, hidden), nn.Linear(hidden, hidden), nn.Linear(hidden, outputs)
    return nn.Sequential(first, nn.ReLU(), middle, nn.ReLU(), last).apply(orthogonal_)
