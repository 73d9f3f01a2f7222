"""Tasks of the control suite as frames; skipped where nothing draws without a screen."""

import pytest
import torch

from debiased_contrastive.data import control
from debiased_contrastive.data.control import EPISODE, PixelTask, task_names

dm_control = pytest.importorskip("dm_control", reason="dm_control is not installed: it is in the extra `control`")
SIX = ("finger-spin", "cartpole-swingup", "reacher-easy", "cheetah-run", "walker-walk", "ball_in_cup-catch")


@pytest.fixture(scope="module")
def task() -> PixelTask:
    try:
        return PixelTask("cartpole-swingup", size=24, repeat=8, seed=0)
    except ValueError as error:
        pytest.skip(str(error))


def test_an_episode_has_a_thousand_frames_of_the_simulation(task: PixelTask) -> None:
    task.begin()
    frames, steps = task.frame(), 0
    while True:
        found = task.step(torch.tensor([1.0]))
        steps += 1
        if found.is_last:
            break
    assert steps == EPISODE // 8
    assert found.discount == 1, "it is the time that is over, not the task"
    assert found.frame.shape == (3, 24, 24)
    assert found.frame.dtype == torch.uint8
    assert not torch.equal(found.frame, frames)


@pytest.mark.usefixtures("task")
def test_a_seed_is_a_course_of_events() -> None:
    courses = []
    for seed in (3, 3, 4):
        task = PixelTask("cartpole-swingup", size=16, repeat=4, seed=seed)
        frames = [task.begin(), *(task.step(torch.tensor([0.5])).frame for _ in range(3))]
        courses.append(torch.stack(frames))
    assert torch.equal(courses[0], courses[1])
    assert not torch.equal(courses[0], courses[2])


@pytest.mark.usefixtures("task")
def test_rewards_are_summed_over_the_repeats() -> None:
    single, repeated = (PixelTask("cartpole-balance", size=16, repeat=repeat, seed=0) for repeat in (1, 5))
    single.begin()
    repeated.begin()
    rewards = [single.step(torch.zeros(1)).reward for _ in range(5)]
    assert repeated.step(torch.zeros(1)).reward == pytest.approx(sum(rewards))
    assert sum(rewards) > 1


@pytest.mark.usefixtures("task")
def test_the_tasks_of_the_paper_are_there_and_others_are_told() -> None:
    assert set(SIX) <= set(task_names())
    with pytest.raises(ValueError, match="got 'cartpole-swing': there are cartpole-balance"):
        PixelTask("cartpole-swing", size=16, repeat=1, seed=0)
    with pytest.raises(ValueError, match=r"got 'chess': there are acrobot, .*cartpole"):
        PixelTask("chess", size=16, repeat=1, seed=0)


def test_without_anything_that_draws_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "find_library", lambda _name: None)
    with pytest.raises(ValueError, match="got neither: apt-get install libosmesa6"):
        control._renderer()
    monkeypatch.setattr(control, "find_library", {"EGL": "libEGL.so"}.get)
    assert control._renderer() == "egl"
