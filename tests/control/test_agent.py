"""Which update moves which network, by how much, and that the whole learns."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from debiased_contrastive.control.agent import Agent
from debiased_contrastive.control.curl import Contrast
from debiased_contrastive.control.networks import frame_differences, to_unit_range
from debiased_contrastive.control.sac import LOG_STD_BOUNDS
from debiased_contrastive.control.settings import AgentSettings

SMALL = {"filters": 4, "layers": 2, "feature_dim": 8, "hidden_dim": 32}


def agent_of(tau_plus: float | None = 0.0, learning_rate: float = 1e-3, **settings: Any) -> Agent:
    torch.manual_seed(0)
    contrast = None if tau_plus is None else Contrast(SMALL["feature_dim"], tau_plus=tau_plus)
    return Agent(3, 12, 2, AgentSettings(**{**SMALL, **settings}), contrast, learning_rate=learning_rate)


def contrast_of(agent: Agent) -> Contrast:
    assert agent.contrast is not None
    return agent.contrast


def batch(views: int = 2, b: int = 6) -> tuple[tuple[Tensor, ...], Tensor, Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    frames = torch.randint(256, (views + 1, b, 3, 12, 12), dtype=torch.uint8, generator=generator)
    actions, rewards = torch.rand(b, 2, generator=generator), torch.rand(b, generator=generator)
    return tuple(frames[:views]), actions, rewards, torch.ones(b), frames[-1]


def weights(module: nn.Module) -> list[Tensor]:
    return [weight.detach().clone() for weight in module.parameters()]


def moved(agent: Agent, names: list[str], update: object) -> set[str]:
    before = {name: weights(getattr(agent, name)) for name in names}
    update()  # type: ignore[operator]
    return {
        name
        for name in names
        if any(
            not torch.equal(old, new) for old, new in zip(before[name], weights(getattr(agent, name)), strict=True)
        )
    }


PARTS = ["encoder", "actor_head", "policy", "critics", "contrast", "target_encoder", "target_critics"]


def test_every_loss_moves_its_own_networks_and_no_others() -> None:
    agent, (given, actions, rewards, discounts, given_next) = agent_of(tau_plus=0.05), batch()
    views, following = [to_unit_range(view) for view in given], to_unit_range(given_next)
    critics = moved(agent, PARTS, lambda: agent._update_critics(views[0], actions, rewards, discounts, following))
    assert critics == {"encoder", "critics"}
    alpha = agent.log_alpha.item()
    assert moved(agent, PARTS, lambda: agent._update_policy(views[0])) == {"actor_head", "policy"}
    assert agent.log_alpha.item() != alpha
    contrast = contrast_of(agent)
    assert moved(agent, PARTS, lambda: agent._update_contrast(contrast, views[0], views[1:])) == {
        "encoder",
        "contrast",
    }
    assert moved(agent, PARTS, agent.update_targets) == {"target_encoder", "target_critics"}


def test_target_networks_go_their_share_of_the_way() -> None:
    agent = agent_of(critic_rate=0.25, encoder_rate=0.5)
    for slow, fast, rate in (
        (agent.target_critics, agent.critics, 0.25),
        (agent.target_encoder, agent.encoder, 0.5),
    ):
        with torch.no_grad():
            for weight in fast.parameters():
                weight.add_(1.0)
        before = weights(slow)
        agent.update_targets()
        for old, new, goal in zip(before, weights(slow), weights(fast), strict=True):
            torch.testing.assert_close(new, old + rate * (goal - old))


def apart() -> Agent:
    """An agent whose target networks are far from the others."""
    agent = agent_of(tau_plus=0.0)
    with torch.no_grad():
        for module in (agent.target_encoder, agent.target_critics):
            for weight in module.parameters():
                weight.add_(0.1 * torch.randn_like(weight))
    return agent


def test_keys_come_from_the_target_encoder() -> None:
    agent, (views, *_) = apart(), batch()
    seen, other = map(to_unit_range, views)
    with torch.no_grad():
        scores = agent.encoder(seen) @ contrast_of(agent).weight @ agent.target_encoder(other).T
        wanted = torch.nn.functional.cross_entropy(scores, torch.arange(len(scores)))
    found = agent._update_contrast(contrast_of(agent), seen, [other])
    assert found["contrast_loss"] == pytest.approx(wanted.item(), rel=1e-5)


def test_critics_learn_what_the_target_critics_say_of_the_next_action() -> None:
    agent, (views, actions, rewards, _, following) = apart(), batch()
    seen, discounts = to_unit_range(views[0]), torch.tensor([1.0, 0.0, 1.0, 1.0, 0.0, 1.0])
    with torch.no_grad():
        values = agent.critics(agent.encoder(seen), actions)
        torch.manual_seed(5)
        head, convolutions = agent.actor_head, agent.encoder.convolutions
        action, log_density = agent.policy.sample(head(convolutions(to_unit_range(following))))
        slow = agent.target_critics(agent.target_encoder(to_unit_range(following)), action)
        alpha = agent.settings.alpha
        wanted = rewards + 0.99 * discounts * (torch.minimum(slow[0], slow[1]) - alpha * log_density)
        loss = sum((value - wanted).square().mean() for value in values)
    torch.manual_seed(5)
    found = agent._update_critics(seen, actions, rewards, discounts, to_unit_range(following))
    assert found["critic_loss"] == pytest.approx(float(loss), rel=1e-5)


def test_the_policy_learns_what_the_fast_critics_say_of_its_action() -> None:
    agent, (views, *_) = apart(), batch()
    seen = to_unit_range(views[0])
    with torch.no_grad():
        torch.manual_seed(5)
        action, log_density = agent.policy.sample(agent.actor_head(agent.encoder.convolutions(seen)))
        values = agent.critics(agent.encoder(seen), action)
        wanted = (agent.settings.alpha * log_density - torch.minimum(values[0], values[1])).mean()
    torch.manual_seed(5)
    found = agent._update_policy(seen)
    assert found["actor_loss"] == pytest.approx(float(wanted), rel=1e-5)
    assert found["entropy"] == pytest.approx(-float(log_density.mean()), rel=1e-5)


def test_the_defaults_are_the_protocols() -> None:
    settings = AgentSettings()
    assert (settings.filters, settings.layers, settings.strided, settings.feature_dim) == (32, 4, 1, 50)
    assert (settings.hidden_dim, settings.gamma, settings.alpha, settings.alpha_learning_rate) == (
        1024,
        0.99,
        0.1,
        1e-4,
    )
    assert (settings.critic_rate, settings.encoder_rate, settings.every, settings.encoder_steps) == (
        0.01,
        0.05,
        2,
        1,
    )
    assert LOG_STD_BOUNDS == (-10, 2)
    agent = agent_of()
    assert agent.target_entropy == -2
    assert agent.log_alpha.exp().item() == pytest.approx(0.1)
    assert {name: one.param_groups[0]["betas"] for name, one in agent.optimisers.items()} == {
        "critic": (0.9, 0.999), "actor": (0.9, 0.999), "alpha": (0.5, 0.999), "encoder": (0.9, 0.999),
        "contrast": (0.9, 0.999),
    }  # fmt: skip
    assert {one.param_groups[0]["lr"] for one in agent.optimisers.values()} == {1e-3, 1e-4}
    # Uniform in [0, 1).
    weight = Contrast(50, tau_plus=0.0).weight
    assert weight.min() >= 0
    assert weight.mean().item() == pytest.approx(0.5, abs=0.03)


def test_the_policy_and_the_targets_move_every_other_time() -> None:
    agent, given = agent_of(), batch()
    assert moved(agent, PARTS, lambda: agent.update(1, *given)) == {"encoder", "critics", "contrast"}
    assert moved(agent, PARTS, lambda: agent.update(2, *given)) == set(PARTS)


def test_with_motion_what_is_learnt_from_and_acted_on_are_changes() -> None:
    torch.manual_seed(0)
    settings = AgentSettings(filters=4, layers=2, feature_dim=8, hidden_dim=32, motion=True)
    agent = Agent(6, 12, 2, settings, None, stack=2)
    frames = torch.randint(256, (1, 6, 12, 12), dtype=torch.uint8)
    torch.testing.assert_close(agent._input(frames), frame_differences(to_unit_range(frames), 3))
    with torch.no_grad():
        head, convolutions = agent.actor_head, agent.encoder.convolutions
        wanted = agent.policy(head(convolutions(frame_differences(to_unit_range(frames), 3))))[0].tanh()[0]
    torch.testing.assert_close(agent.act(frames[0], explore=False), wanted)


def test_without_a_contrast_there_is_none() -> None:
    agent, given = agent_of(tau_plus=None), batch(views=1)
    parts = [part for part in PARTS if part != "contrast"]
    assert moved(agent, parts, lambda: agent.update(2, *given)) == set(parts)
    assert "contrast_loss" not in agent.update(2, *given)
    assert set(agent.optimisers) == {"critic", "actor", "alpha"}


@pytest.mark.parametrize("num_positives", [1, 2])
def test_further_crops_are_positives_of_the_correction(num_positives: int) -> None:
    agent, given = agent_of(tau_plus=0.1), batch(views=1 + num_positives)
    found = agent.update(1, *given)
    assert contrast_of(agent).diagnostics.num_positives == num_positives
    assert 0 <= found["floored"] <= 1


def test_two_steps_on_the_encoder_are_the_released_codes() -> None:
    lengths = []
    for steps in (1, 2):
        agent, given = agent_of(encoder_steps=steps), batch()
        before = weights(agent.encoder)
        seen, *others = map(to_unit_range, given[0])
        agent._update_contrast(contrast_of(agent), seen, others)
        lengths.append(
            sum(float((new - old).norm()) for old, new in zip(before, weights(agent.encoder), strict=True))
        )
    assert lengths[1] == pytest.approx(2 * lengths[0], rel=0.05)


def test_actions_are_repeatable_or_drawn() -> None:
    agent, frames = agent_of(), batch()[0][0][0]
    sure = [agent.act(frames, explore=False) for _ in range(2)]
    drawn = [agent.act(frames, explore=True) for _ in range(2)]
    assert torch.equal(*sure)
    assert not torch.equal(*drawn)
    assert sure[0].shape == (2,)
    assert torch.stack([*sure, *drawn]).abs().max() <= 1


def test_it_learns_which_action_pays() -> None:
    """One-step tasks, their reward highest for the action that the brightness of the frame tells."""
    agent = agent_of(tau_plus=None, learning_rate=3e-3, alpha=0.02)
    generator = torch.Generator().manual_seed(0)
    torch.manual_seed(0)
    for step in range(300):
        bright = torch.randint(2, (32,), generator=generator)
        frames = (40 + 160 * bright).to(torch.uint8).view(-1, 1, 1, 1).expand(-1, 3, 12, 12).contiguous()
        actions = 2 * torch.rand(32, 2, generator=generator) - 1
        wanted = (bright * 1.0 - 0.5).unsqueeze(1)
        rewards = -(actions - wanted).square().sum(1)
        agent.update(step, (frames,), actions, rewards, torch.zeros(32), frames)
    for pixel, wanted_action in ((40, -0.5), (200, 0.5)):
        frames = torch.full((3, 12, 12), pixel, dtype=torch.uint8)
        torch.testing.assert_close(
            agent.act(frames, explore=False), torch.full((2,), wanted_action), rtol=0, atol=0.25
        )
