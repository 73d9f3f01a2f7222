"""An agent that learns from pixels: soft actor-critic, and a contrast between crops that shapes its encoder."""

from collections.abc import Iterable, Sequence
from typing import ClassVar

import torch
from torch import Tensor, nn

from debiased_contrastive.control.curl import Contrast
from debiased_contrastive.control.networks import (
    Convolutions,
    PixelEncoder,
    frame_differences,
    make_head,
    to_unit_range,
)
from debiased_contrastive.control.sac import Critics, Policy, actor_loss, alpha_loss, critic_loss, critic_target
from debiased_contrastive.control.settings import AgentSettings
from debiased_contrastive.training.weights import momentum_copy, momentum_update_


class Agent(nn.Module):
    """Networks, their target networks and optimisers; `update` is one step of learning.

    Critics and contrast train the convolutions; the policy has a head of its own on them and does not.

    Args:
        channels: Channels of a whole stack of frames.
        size: Side of the frames in pixels.
        action_dim: Numbers that an action consists of.
        settings: Sizes and rates.
        contrast: The contrastive loss between crops, None for soft actor-critic alone.
        stack: Frames in a stack.
        learning_rate: Learning rate of all but the weight of entropy.
    """

    renamed: ClassVar[dict[str, str]] = {
        "eyes": "encoder",
        "slow_eyes": "target_encoder",
        "slow_critics": "target_critics",
    }
    """Names that runs of earlier versions have, see `with_current_names`."""

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
        super().__init__()
        self.settings, self.learning_rate, self.frame_channels = settings, learning_rate, channels // stack
        self.target_entropy = -float(action_dim)
        dim, hidden = settings.feature_dim, settings.hidden_dim
        convolutions = Convolutions(channels, size, settings.filters, settings.layers, settings.strided)
        self.encoder = PixelEncoder(convolutions, dim)
        self.actor_head = make_head(convolutions, dim)
        self.policy = Policy(dim, action_dim, hidden)
        self.critics = Critics(dim, action_dim, hidden)
        self.contrast = contrast
        self.target_encoder, self.target_critics = momentum_copy(self.encoder), momentum_copy(self.critics)
        self.log_alpha = nn.Parameter(torch.tensor(settings.alpha).log())
        self.optimisers = self._optimisers()

    def _optimisers(self) -> dict[str, torch.optim.Adam]:
        def adam(*modules: nn.Module) -> torch.optim.Adam:
            weights = [weight for module in modules for weight in module.parameters()]
            return torch.optim.Adam(weights, self.learning_rate, fused=True)

        made = {
            "critic": adam(self.encoder, self.critics),
            "actor": adam(self.actor_head, self.policy),
            "alpha": torch.optim.Adam([self.log_alpha], self.settings.alpha_learning_rate, betas=(0.5, 0.999)),
        }
        if self.contrast is not None:
            made["encoder"] = adam(self.encoder)
            made["contrast"] = adam(self.contrast, *([self.encoder] if self.settings.encoder_steps == 2 else []))
        return made

    @torch.no_grad()
    def act(self, frames: Tensor, *, explore: bool) -> Tensor:
        """Choose an action (a,) at a stack of frames (c, s, s): the most likely one, or a random one to explore."""
        features = self._actor_features(self._input(frames.unsqueeze(0).to(self.log_alpha.device)))
        action = self.policy.sample(features)[0] if explore else self.policy(features)[0].tanh()
        return action.squeeze(0).cpu()

    def update(
        self,
        step: int,
        views: Sequence[Tensor],
        actions: Tensor,
        rewards: Tensor,
        discounts: Tensor,
        following: Tensor,
    ) -> dict[str, float]:
        """Learn from transitions, and return the metrics of this update.

        `views` are crops (b, c, s, s) uint8 of the observations: the first for agent and queries, others for keys.
        """
        seen, *others = map(self._input, views)
        metrics = self._update_critics(seen, actions, rewards, discounts, self._input(following))
        if step % self.settings.every == 0:
            metrics |= self._update_policy(seen)
            self.update_targets()
        if self.contrast is not None:
            metrics |= self._update_contrast(self.contrast, seen, others)
        return metrics

    def _input(self, frames: Tensor) -> Tensor:
        x = to_unit_range(frames)
        return frame_differences(x, self.frame_channels) if self.settings.motion else x

    def _update_critics(
        self, seen: Tensor, actions: Tensor, rewards: Tensor, discounts: Tensor, following: Tensor
    ) -> dict[str, float]:
        with torch.no_grad():
            action, log_density = self.policy.sample(self._actor_features(following))
            values = self.target_critics(self.target_encoder(following), action)
            alpha, gamma = self.log_alpha.exp(), self.settings.gamma
            target = critic_target(rewards, discounts, values, log_density, alpha, gamma)
        loss = critic_loss(self.critics(self.encoder(seen), actions), target)
        self._step(loss, "critic")
        return {"critic_loss": loss.item()}

    def _update_policy(self, seen: Tensor) -> dict[str, float]:
        with torch.no_grad():
            shared = self.encoder.convolutions(seen)
            features = self.encoder.head(shared)
        action, log_density = self.policy.sample(self.actor_head(shared))
        loss = actor_loss(self.critics(features, action), log_density, self.log_alpha.exp())
        self._step(loss, "actor")
        self._step(alpha_loss(self.log_alpha, log_density, self.target_entropy), "alpha")
        alpha, entropy = self.log_alpha.exp().item(), -log_density.mean().item()
        return {"actor_loss": loss.item(), "entropy": entropy, "alpha": alpha}

    def _update_contrast(self, contrast: Contrast, seen: Tensor, others: Iterable[Tensor]) -> dict[str, float]:
        with torch.no_grad():
            keys = torch.stack([self.target_encoder(other) for other in others])
        loss = contrast(self.encoder(seen), keys)
        self._step(loss, "encoder", "contrast")
        info = contrast.diagnostics
        return {"contrast_loss": loss.item(), "floored": info.floored, "tau_cap_median": info.tau_cap_median}

    def _step(self, loss: Tensor, *names: str) -> None:
        # A loss also passes through networks that it does not train: these must get no gradient.
        chosen = [self.optimisers[name] for name in names]
        weights = list(dict.fromkeys(weight for one in chosen for weight in one.param_groups[0]["params"]))
        for weight, gradient in zip(weights, torch.autograd.grad(loss, weights), strict=True):
            weight.grad = gradient
        for one in chosen:
            one.step()

    def update_targets(self) -> None:
        momentum_update_(self.target_critics, self.critics, 1 - self.settings.critic_rate)
        momentum_update_(self.target_encoder, self.encoder, 1 - self.settings.encoder_rate)

    def _actor_features(self, frames: Tensor) -> Tensor:
        # Call it without gradients: those of the policy must not reach the convolutions.
        features: Tensor = self.actor_head(self.encoder.convolutions(frames))
        return features
