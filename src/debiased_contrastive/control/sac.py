"""Soft actor-critic: a policy, two critics, and the four rules by which they learn."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from debiased_contrastive.control.networks import orthogonal_

LOG_STD = (-10.0, 2.0)


class Policy(nn.Module):
    """Features to actions in (-1, 1): a Gaussian through a hyperbolic tangent."""

    def __init__(self, feature_dim: int, action_dim: int, hidden_dim: int) -> None:
        super().__init__()
        self.layers = _perceptron(feature_dim, hidden_dim, 2 * action_dim)

    def forward(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and logarithm of the standard deviation, (b, a) each, before the tangent."""
        mean, log_std = self.layers(features).chunk(2, -1)
        low, high = LOG_STD
        return mean, low + (high - low) / 2 * (log_std.tanh() + 1)

    def drawn(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """An action (b, a) and the logarithm of its density (b,)."""
        mean, log_std = self(features)
        noise = torch.randn_like(mean)
        return squashed(mean + noise * log_std.exp(), noise, log_std)


def squashed(x: Tensor, noise: Tensor, log_std: Tensor) -> tuple[Tensor, Tensor]:
    """tanh x and the logarithm of its density, x being Gaussian with that noise in units of its deviation."""
    of_x = -noise.square() / 2 - log_std - math.log(2 * math.pi) / 2
    # log (1 - tanh^2 x), which rounds to the logarithm of 0 where it is taken as it stands.
    slope = 2 * (math.log(2) - x - F.softplus(-2 * x))
    return x.tanh(), (of_x - slope).sum(-1)


class Critics(nn.Module):
    """Two estimates of what an action is worth."""

    def __init__(self, feature_dim: int, action_dim: int, hidden_dim: int) -> None:
        super().__init__()
        self.both = nn.ModuleList(_perceptron(feature_dim + action_dim, hidden_dim, 1) for _ in range(2))

    def forward(self, features: Tensor, actions: Tensor) -> Tensor:
        """(2, b) values of actions (b, a)."""
        joined = torch.cat([features, actions], -1)
        return torch.stack([critic(joined).squeeze(-1) for critic in self.both])


def target(
    rewards: Tensor, discounts: Tensor, values: Tensor, log_densities: Tensor, alpha: Tensor, gamma: float
) -> Tensor:
    """(b,) what critics should say: reward, and the smaller value (2, b) of what follows with its entropy."""
    return rewards + gamma * discounts * (values.amin(0) - alpha * log_densities)


def critic_loss(values: Tensor, targets: Tensor) -> Tensor:
    """Of both critics, (2, b)."""
    return (values - targets).square().mean(1).sum()


def actor_loss(values: Tensor, log_densities: Tensor, alpha: Tensor) -> Tensor:
    """Of a policy whose actions have these values (2, b)."""
    return (alpha.detach() * log_densities - values.amin(0)).mean()


def alpha_loss(log_alpha: Tensor, log_densities: Tensor, target_entropy: float) -> Tensor:
    """Of the weight of entropy, which grows where there is less than wanted."""
    return (log_alpha.exp() * (-log_densities - target_entropy).detach()).mean()


def _perceptron(inputs: int, hidden: int, outputs: int) -> nn.Sequential:
    made = nn.Sequential(
        nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, outputs)
    )
    made.apply(orthogonal_)
    return made
