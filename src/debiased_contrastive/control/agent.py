"""An agent that learns from pixels: soft actor-critic, and a contrast between crops that shapes its encoder."""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from debiased_contrastive.control.curl import Contrast
from debiased_contrastive.control.networks import Convolutions, head, motion, shares
from debiased_contrastive.control.sac import Critics, Policy, actor_loss, alpha_loss, critic_loss, target
from debiased_contrastive.training.momentum import momentum_copy, momentum_update_


@dataclass(frozen=True)
class AgentSettings:
    """Sizes and rates; the defaults are the protocol's."""

    filters: int = 32
    layers: int = 4
    strided: int = 1
    """The first so many layers have a stride of 2."""
    motion: bool = False
    """See the newest frame, and of the others how they changed."""
    feature_dim: int = 50
    hidden_dim: int = 1024
    gamma: float = 0.99
    alpha: float = 0.1
    """The weight of entropy at the start."""
    alpha_learning_rate: float = 1e-4
    critic_rate: float = 0.01
    """Share of the way that the slow critics go towards the others."""
    encoder_rate: float = 0.05
    every: int = 2
    """Updates of the critics between two of the policy and of what is slow."""
    encoder_steps: int = 1
    """Steps of an optimiser on the encoder in one update of the contrast; the released code takes 2."""

    def __post_init__(self) -> None:
        sizes = (self.filters, self.layers, self.feature_dim, self.hidden_dim, self.every)
        if min(sizes) < 1 or self.encoder_steps not in (1, 2):
            raise ValueError(
                "filters, layers, feature_dim, hidden_dim and every must be at least 1, encoder_steps 1 or 2; got "
                f"{', '.join(map(str, sizes))} and {self.encoder_steps}"
            )
        if not 0 <= self.strided <= self.layers:
            raise ValueError(f"strided must lie between 0 and layers, {self.layers}; got {self.strided}")
        shares = (self.gamma, self.critic_rate, self.encoder_rate)
        if not all(0 <= share <= 1 for share in shares) or not self.alpha > 0 or not self.alpha_learning_rate > 0:
            raise ValueError(
                "gamma, critic_rate and encoder_rate must lie in [0, 1], alpha and its rate be positive; got "
                f"{', '.join(map(str, shares))}, {self.alpha} and {self.alpha_learning_rate}"
            )


class Eyes(nn.Module):
    """Frames to features: convolutions and a head."""

    def __init__(self, convolutions: Convolutions, dim: int) -> None:
        super().__init__()
        self.convolutions = convolutions
        self.head = head(convolutions, dim)

    def forward(self, frames: Tensor) -> Tensor:
        """(b, dim) of frames (b, c, s, s) as shares."""
        features: Tensor = self.head(self.convolutions(frames))
        return features


class Agent(nn.Module):
    """Networks, their slow copies and optimisers; `update` is one step of learning.

    Critics and contrast train the convolutions; the policy sees through them with a head of its own and does not.
    """

    def __init__(
        self,
        channels: int,
        size: int,
        action_dim: int,
        settings: AgentSettings,
        contrast: Contrast | None,
        *,
        stack: int = 1,
        learning_rate: float = 1e-3,
    ) -> None:
        """Of frames of that many pixels a side, with the channels of a whole stack.

        learning_rate: of all but the weight of entropy.
        """
        super().__init__()
        self.settings, self.learning_rate, self.frame_channels = settings, learning_rate, channels // stack
        self.target_entropy = -float(action_dim)
        dim, hidden = settings.feature_dim, settings.hidden_dim
        self.eyes = Eyes(Convolutions(channels, size, settings.filters, settings.layers, settings.strided), dim)
        self.actor_head = head(self.eyes.convolutions, dim)
        self.policy = Policy(dim, action_dim, hidden)
        self.critics = Critics(dim, action_dim, hidden)
        self.contrast = contrast
        self.slow_eyes, self.slow_critics = momentum_copy(self.eyes), momentum_copy(self.critics)
        self.log_alpha = nn.Parameter(torch.tensor(settings.alpha).log())
        self.optimisers = self._optimisers()

    def _optimisers(self) -> dict[str, torch.optim.Adam]:
        def adam(*modules: nn.Module) -> torch.optim.Adam:
            weights = [weight for module in modules for weight in module.parameters()]
            return torch.optim.Adam(weights, self.learning_rate, fused=True)

        made = {
            "critic": adam(self.eyes, self.critics),
            "actor": adam(self.actor_head, self.policy),
            "alpha": torch.optim.Adam([self.log_alpha], self.settings.alpha_learning_rate, betas=(0.5, 0.999)),
        }
        if self.contrast is not None:
            made["encoder"] = adam(self.eyes)
            made["contrast"] = adam(self.contrast, *([self.eyes] if self.settings.encoder_steps == 2 else []))
        return made

    @torch.no_grad()
    def act(self, frames: Tensor, *, explore: bool) -> Tensor:
        """(a,) what to do at one stack of frames (c, s, s), on the CPU: the most likely, or drawn."""
        features = self._seen_by_actor(self._input(frames.unsqueeze(0).to(self.log_alpha.device)))
        action = self.policy.drawn(features)[0] if explore else self.policy(features)[0].tanh()
        return action.squeeze(0).cpu()

    def update(
        self,
        step: int,
        views: tuple[Tensor, ...],
        actions: Tensor,
        rewards: Tensor,
        discounts: Tensor,
        following: Tensor,
    ) -> dict[str, float]:
        """Learn from transitions; what was measured on the way.

        views: crops (b, c, s, s) uint8 of what was seen, the first for the agent and queries, others for keys.
        """
        seen, *others = map(self._input, views)
        found = self._update_critics(seen, actions, rewards, discounts, self._input(following))
        if step % self.settings.every == 0:
            found |= self._update_policy(seen)
            self._follow()
        if self.contrast is not None:
            found |= self._update_contrast(self.contrast, seen, others)
        return found

    def _input(self, frames: Tensor) -> Tensor:
        x = shares(frames)
        return motion(x, self.frame_channels) if self.settings.motion else x

    def _update_critics(
        self, seen: Tensor, actions: Tensor, rewards: Tensor, discounts: Tensor, following: Tensor
    ) -> dict[str, float]:
        with torch.no_grad():
            action, log_density = self.policy.drawn(self._seen_by_actor(following))
            values = self.slow_critics(self.slow_eyes(following), action)
            wanted = target(rewards, discounts, values, log_density, self.log_alpha.exp(), self.settings.gamma)
        loss = critic_loss(self.critics(self.eyes(seen), actions), wanted)
        self._step(loss, "critic")
        return {"critic_loss": loss.item()}

    def _update_policy(self, seen: Tensor) -> dict[str, float]:
        with torch.no_grad():
            shared = self.eyes.convolutions(seen)
            features = self.eyes.head(shared)
        action, log_density = self.policy.drawn(self.actor_head(shared))
        loss = actor_loss(self.critics(features, action), log_density, self.log_alpha.exp())
        self._step(loss, "actor")
        self._step(alpha_loss(self.log_alpha, log_density, self.target_entropy), "alpha")
        alpha, entropy = self.log_alpha.exp().item(), -log_density.mean().item()
        return {"actor_loss": loss.item(), "entropy": entropy, "alpha": alpha}

    def _update_contrast(self, contrast: Contrast, seen: Tensor, others: Iterable[Tensor]) -> dict[str, float]:
        with torch.no_grad():
            keys = torch.stack([self.slow_eyes(other) for other in others])
        loss = contrast(self.eyes(seen), keys)
        self._step(loss, "encoder", "contrast")
        floored, tau_cap = contrast.floored, contrast.tau_cap
        return {"contrast_loss": loss.item(), "floored": floored, "tau_cap_median": tau_cap}

    def _step(self, loss: Tensor, *names: str) -> None:
        # Of what is trained alone: a loss also passes through networks that it does not train.
        chosen = [self.optimisers[name] for name in names]
        weights = list(dict.fromkeys(weight for one in chosen for weight in one.param_groups[0]["params"]))
        for weight, gradient in zip(weights, torch.autograd.grad(loss, weights), strict=True):
            weight.grad = gradient
        for one in chosen:
            one.step()

    def _follow(self) -> None:
        momentum_update_(self.slow_critics, self.critics, 1 - self.settings.critic_rate)
        momentum_update_(self.slow_eyes, self.eyes, 1 - self.settings.encoder_rate)

    def _seen_by_actor(self, frames: Tensor) -> Tensor:
        """Where nothing is learnt: gradients of the policy must not reach the convolutions."""
        features: Tensor = self.actor_head(self.eyes.convolutions(frames))
        return features
