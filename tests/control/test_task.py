"""Tasks of the control suite as frames; skipped where nothing draws without a screen."""

from types import SimpleNamespace

import numpy as np
import numpy.typing as npt
import pytest
import torch

from debiased_contrastive.control import task as control
from debiased_contrastive.control.settings import EPISODE
from debiased_contrastive.control.task import PixelTask

SIX = ("finger-spin", "cartpole-swingup", "reacher-easy", "cheetah-run", "walker-walk", "ball_in_cup-catch")


@pytest.fixture(scope="module")
def task() -> PixelTask:
    pytest.importorskip("dm_control", reason="dm_control is not installed: it is in the extra `control`")
    try:
        made = PixelTask("cartpole-swingup", size=24, repeat=8)
        made.begin(0)
        made.frame()
    except (ValueError, OSError, RuntimeError) as error:
        pytest.skip(f"frames cannot be drawn here: {error}")
    return made


def test_an_episode_has_a_thousand_frames_of_the_simulation(task: PixelTask) -> None:
    task.begin(0)
    first, steps, frames = task.frame(), 0, 0
    while True:
        found = task.step(torch.tensor([1.0]))
        steps += 1
        frames += found.frames
        if found.is_last:
            break
    assert steps == EPISODE // 8
    assert found.discount == 1, "it is the time that is over, not the task"
    assert frames == EPISODE
    assert task.seconds == pytest.approx(0.08)
    last = task.frame()
    assert last.shape == (3, 24, 24)
    assert last.dtype == torch.uint8
    assert not torch.equal(last, first)
    assert task.render(40).shape == (3, 40, 40)


@pytest.mark.usefixtures("task")
def test_the_last_action_of_an_episode_may_be_repeated_less_often() -> None:
    task = PixelTask("cartpole-balance", size=16, repeat=300)
    task.begin(0)
    assert [task.step(torch.zeros(1)).frames for _ in range(4)] == [300, 300, 300, 100]


@pytest.mark.usefixtures("task")
def test_grey_frames_are_the_brightness_of_coloured_ones() -> None:
    task = PixelTask("cartpole-swingup", size=24, repeat=8, grey=True)
    task.begin(0)
    assert task.frame().shape == (1, 24, 24)
    assert task.frame().dtype == torch.uint8
    weights = torch.tensor([0.299, 0.587, 0.114]).view(3, 1, 1)
    wanted = (task.render(24).float() * weights).sum(0)
    assert float((task.frame()[0].float() - wanted).abs().max()) <= 0.51


@pytest.mark.usefixtures("task")
def test_smooth_frames_are_averages_of_larger_ones() -> None:
    task = PixelTask("cartpole-swingup", size=20, repeat=8, plain=True, smooth=3)
    task.begin(0)
    frame, large = task.frame(), task.render(60).float()
    assert frame.shape == (3, 20, 20)
    wanted = large.view(3, 20, 3, 20, 3).mean((2, 4))
    assert float((frame.float() - wanted).abs().max()) <= 0.51


@pytest.mark.usefixtures("task")
def test_plain_frames_show_the_same_scene() -> None:
    """Without shadows and reflections, so a little different, and no more than a little."""
    frames = []
    for plain in (False, True):
        task = PixelTask("cartpole-swingup", size=48, repeat=8, plain=plain)
        task.begin(0)
        frames.append(task.frame().float())
    difference = (frames[0] - frames[1]).abs()
    assert 0 < float(difference.mean()) < 12


@pytest.mark.usefixtures("task")
def test_a_seed_is_a_course_of_events() -> None:
    """Whatever was played before."""
    task, other = (PixelTask("cartpole-swingup", size=16, repeat=4) for _ in range(2))
    courses = []
    for player, seed in ((task, 3), (task, 4), (task, 3), (other, 3)):
        player.begin(seed)
        frames = [player.frame()]
        for _ in range(3):
            player.step(torch.tensor([0.5]))
            frames.append(player.frame())
        courses.append(torch.stack(frames))
    assert torch.equal(courses[0], courses[2])
    assert torch.equal(courses[0], courses[3])
    assert not torch.equal(courses[0], courses[1])


@pytest.mark.usefixtures("task")
def test_rewards_are_summed_over_the_repeats() -> None:
    single, repeated = (PixelTask("cartpole-balance", size=16, repeat=repeat) for repeat in (1, 5))
    single.begin(0)
    repeated.begin(0)
    rewards = [single.step(torch.zeros(1)).reward for _ in range(5)]
    assert repeated.step(torch.zeros(1)).reward == pytest.approx(sum(rewards))
    assert sum(rewards) > 1


@pytest.mark.usefixtures("task")
def test_the_tasks_of_the_paper_are_there_and_others_are_told() -> None:
    assert set(SIX) <= {f"{domain}-{name}" for domain, name in control._import_suite().ALL_TASKS}
    with pytest.raises(ValueError, match="got 'cartpole-swing': there are cartpole-balance"):
        PixelTask("cartpole-swing", size=16, repeat=1)
    with pytest.raises(ValueError, match=r"got 'chess': there are acrobot, .*cartpole"):
        PixelTask("chess", size=16, repeat=1)
    with pytest.raises(ValueError, match="must lie between 1 and 480; got 500 x 1"):
        PixelTask("cartpole-swingup", size=500, repeat=1)


def test_without_anything_that_draws_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "find_library", lambda _name: None)
    with pytest.raises(ValueError, match="got neither: apt-get install libosmesa6"):
        control._choose_renderer()
    monkeypatch.setattr(control, "find_library", {"EGL": "libEGL.so"}.get)
    assert control._choose_renderer() == "egl"


@pytest.mark.usefixtures("task")
def test_a_wider_view_keeps_the_cart_in_sight() -> None:
    """At the end of its rail the usual camera has lost it."""
    sights = []
    for wide in (1.0, 1.3):
        task = PixelTask("cartpole-swingup", size=60, repeat=8, plain=True, wide=wide)
        pictures = []
        for place in (0.0, 1.8):
            with task.environment.physics.reset_context():
                task.environment.physics.named.data.qpos["slider"] = place
            pictures.append(task.frame().float())
        red, _, blue = pictures[1]
        # The cart and its pole are of a warm colour, all else is blue.
        sights.append(int((red > blue).sum()))
    assert sights[0] < 10
    assert sights[1] > 30


class Stub:
    """What PixelTask needs of a task of the suite; the third step ends it."""

    def __init__(self, low: float, high: float) -> None:
        self.limits = (low, high)
        self.done: list[float] = []
        self.task = self.physics = self.model = self
        self.cam_fovy = [45.0]
        self.random = np.random.RandomState(0)

    def action_spec(self) -> SimpleNamespace:
        return SimpleNamespace(shape=(2,), minimum=self.limits[0], maximum=np.full(2, self.limits[1]))

    def reset(self) -> None:
        self.done = []

    def step(self, action: npt.NDArray[np.float64]) -> SimpleNamespace:
        self.done.append(float(action[0]))
        is_last = len(self.done) == 3
        return SimpleNamespace(reward=1.0, discount=0.0 if is_last else None, last=lambda: is_last)


def test_actions_reach_their_limits_and_ends_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    stub = Stub(-1.0, 3.0)
    monkeypatch.setattr(control, "_load", lambda _name: stub)
    task = PixelTask("stub-task", size=8, repeat=2)
    assert task.action_dim == 2
    task.begin(5)
    assert task.step(torch.tensor([0.5, 0.0])) == (2.0, 2, 1.0, False)
    assert task.step(torch.tensor([9.0, 0.0])) == (1.0, 1, 0.0, True)
    assert stub.done == [2.0, 2.0, 3.0]


def test_actions_without_limits_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "_load", lambda _name: Stub(-1e10, 1e10))
    with pytest.raises(ValueError, match="must have limits; those of lqr-lqr_2_1 have none"):
        PixelTask("lqr-lqr_2_1", size=8, repeat=2)


@pytest.mark.usefixtures("task")
def test_a_renderer_that_does_not_work_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("no\n display")

    task = PixelTask("cartpole-swingup", size=8, repeat=2)
    monkeypatch.setattr(type(task.environment.physics), "render", broken)
    with pytest.raises(
        ValueError, match=r"MUJOCO_GL=\w+ does not work here \(no display\): set it to egl or osmesa"
    ):
        task.frame()
