"""The steps on an agent's encoder are those that Adam took."""

from pathlib import Path

import pytest
import torch

from debiased_contrastive.control.agent import Agent
from debiased_contrastive.training.checkpoint import save_checkpoint
from studies.control_steps import adam_step, encoder_steps, markdown, measure_runs
from tests.control.test_agent import agent_of, batch


def state_of(agent: Agent) -> dict[str, object]:
    optimisers = {name: one.state_dict() for name, one in agent.optimisers.items()}
    return {"step": 2, "module": agent.state_dict(), "optimisers": optimisers}


def test_a_step_is_what_adam_subtracts() -> None:
    weight = torch.nn.Parameter(torch.randn(5, dtype=torch.float64))
    adam = torch.optim.Adam([weight], lr=0.01)
    for _ in range(4):
        before = weight.detach().clone()
        weight.grad = torch.randn(5, dtype=torch.float64)
        adam.step()
        step = adam_step(adam.state[weight], adam.param_groups[0])
        assert torch.allclose(before - weight.detach(), step, rtol=1e-10)


def test_the_contrasts_steps_on_the_encoder_are_told_apart(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    agent, lengths = agent_of(tau_plus=0.0), []

    def encoder() -> torch.Tensor:
        return torch.cat([weight.detach().flatten() for weight in agent.encoder.parameters()])

    def stepped(loss: torch.Tensor, *names: str) -> None:
        before = encoder().clone()
        Agent._step(agent, loss, *names)
        after = encoder()
        if names[0] in ("critic", "encoder"):
            lengths.append(float((after - before).abs().mean()))

    monkeypatch.setattr(agent, "_step", stepped)
    for step in range(3):
        agent.update(step, *batch())
    found = encoder_steps(state_of(agent))
    assert found["critics"] == pytest.approx(lengths[-2], rel=1e-3)
    assert found["contrast"] == pytest.approx(lengths[-1], rel=1e-3)
    state = state_of(agent)
    # As checkpoints of earlier versions name the encoder.
    module = {name.replace("encoder.", "eyes."): value for name, value in agent.state_dict().items()}
    assert encoder_steps({**state, "module": module}) == found
    folder = tmp_path / "biased-seed3"
    folder.mkdir()
    with pytest.raises(ValueError, match="must hold runs with a contrast"):
        measure_runs(tmp_path)
    save_checkpoint(folder, 2, state_of(agent))
    (row,) = measure_runs(tmp_path)
    assert (row["objective"], row["seed"], row["step"]) == ("biased", 3, 2)
    assert "| biased | " in markdown([row])
