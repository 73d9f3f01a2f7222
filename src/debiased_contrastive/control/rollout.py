"""An agent at its task: it acts, remembers and learns step by step, and its state can be saved and restored."""

import time
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from debiased_contrastive.control.agent import Agent
from debiased_contrastive.control.curl import Contrast
from debiased_contrastive.control.replay import Replay, load_replay, remove_replay, save_replay
from debiased_contrastive.control.settings import EPISODE, Camera, ControlSettings
from debiased_contrastive.control.task import PixelTask
from debiased_contrastive.numerics import derive_seed, make_generator

_COUNTERS = ("frames", "episode", "is_running", "gained", "last_return", "measured")
"""Attributes of a rollout that its checkpoints hold."""


def make_task(settings: ControlSettings) -> PixelTask:
    """Make the task, drawn as the agent sees it."""
    camera, repeat = settings.camera, settings.training.repeat
    assert repeat is not None, "settings must have the task's defaults"
    drawing = {name: getattr(camera, name) for name in ("plain", "grey", "smooth", "wide")}
    return PixelTask(settings.task, size=camera.size, repeat=repeat, **drawing)


def make_agent(settings: ControlSettings, action_dim: int) -> Agent:
    """Make a fresh agent; for one seed its networks are the same whatever the contrast."""
    camera, objective, rate = settings.camera, settings.objective, settings.training.learning_rate
    assert rate is not None, "settings must have the task's defaults"
    torch.manual_seed(derive_seed(settings.seed, "contrast"))
    contrast = None
    if objective.kind != "none":
        contrast = Contrast(settings.agent.feature_dim, tau_plus=objective.correction, floor=objective.floor)
    torch.manual_seed(derive_seed(settings.seed, "weights"))
    sizes = (camera.channels * camera.stack, camera.crop, action_dim)
    return Agent(*sizes, settings.agent, contrast, stack=camera.stack, learning_rate=rate)


def observe(task: PixelTask, camera: Camera) -> Tensor:
    """Render a frame of the task, padded by its edge as the camera says."""
    frame = task.frame()
    if not camera.pad:
        return frame
    return F.pad(frame.float().unsqueeze(0), [camera.pad] * 4, "replicate").squeeze(0).byte()


def crop_centre(frames: Tensor, crop: int) -> Tensor:
    """Cut out the middle (..., crop, crop) of frames."""
    top, left = ((size - crop) // 2 for size in frames.shape[-2:])
    return frames[..., top : top + crop, left : left + crop]


def play(agent: Agent, task: PixelTask, camera: Camera, seed: int) -> Iterator[float]:
    """Play an episode without exploring, and yield each reward."""
    task.begin(seed)
    frames = deque([observe(task, camera)] * camera.stack, camera.stack)
    is_last = False
    while not is_last:
        step = task.step(agent.act(crop_centre(torch.cat(list(frames)), camera.crop), explore=False))
        is_last = step.is_last
        frames.append(observe(task, camera))
        yield step.reward


def play_episodes(agent: Agent, task: PixelTask, settings: ControlSettings, name: str) -> Iterator[float]:
    """Play the episodes of an evaluation, which depend on the seed and this name alone, and yield their returns."""
    for number in range(settings.training.episodes):
        yield sum(play(agent, task, settings.camera, derive_seed(settings.seed, name, number)))


class Rollout:
    """A learner for `fit`: an agent, its task and its replay."""

    unit = "frames"

    def __init__(self, settings: ControlSettings, device: torch.device) -> None:
        self.settings, self.device = settings, device
        self.task, self.evaluation_task = make_task(settings), make_task(settings)
        self.module = make_agent(settings, self.task.action_dim).to(device)
        self.replay = _make_replay(settings, self.task)
        self.steps, self.samples = settings.training.frames // self.task.repeat, self.task.repeat
        self.log_every = settings.training.log_every
        self.checkpoint_every = settings.training.checkpoint_every or settings.training.evaluate_every
        self.step = self.frames = self.episode = 0
        self.is_running = False
        """Whether an episode is under way."""
        self.gained = 0.0
        """The return of this episode so far."""
        self.last_return: float | None = None
        """The return of the last whole episode."""
        self.evaluated: float | None = None
        """The mean return of the last evaluation."""
        self.measured: dict[str, list[float]] = {}
        """What the updates since the last line of the log measured, by name."""
        self.saved = 0
        """Frames that the last checkpoint knows."""
        self.logged_frames = 0
        """Frames up to the last line of the log."""
        self.seconds: defaultdict[str, float] = defaultdict(float)
        """Time since the last line of the log, by part of the work."""

    def learn(self) -> None:
        """Do one step of the agent; after the random ones it also learns."""
        if not self.is_running:
            self._begin_episode()
        seed, step = self.settings.seed, self.step
        torch.manual_seed(derive_seed(seed, "step", step))
        acts = step >= self.settings.training.random_steps
        action = self._choose_action() if acts else 2 * torch.rand(self.task.action_dim) - 1
        self._do(action)
        self.step += 1
        update, rest = divmod(step, self.settings.training.update_every)
        if acts and not rest:
            for name, value in self._update(update).items():
                self.measured.setdefault(name, []).append(value)

    def is_due(self) -> bool:
        return self.step % self.settings.training.evaluate_every == 0 or self.step == self.steps

    def measure(self, steps: int, seconds: float) -> dict[str, Any]:
        """Return counters, means of what was measured since the last line, and the time by part of the work."""
        parts = (*self.seconds.items(), ("whole", seconds))
        values: dict[str, Any] = {
            "frames": self.frames,
            "episode": self.episode,
            "training_return": self.last_return,
            **{name: fmean(found) for name, found in self.measured.items()},
            "steps_per_second": steps / seconds,
            "frames_per_second": (self.frames - self.logged_frames) / seconds,
            "seconds": {part: round(value, 4) for part, value in parts},
        }
        self.measured, self.logged_frames = {}, self.frames
        self.seconds.clear()
        if self.is_due():
            returns = list(play_episodes(self.module, self.evaluation_task, self.settings, "evaluation"))
            self.evaluated = fmean(returns)
            values |= {"return": self.evaluated, "returns": returns}
        return values

    def note(self) -> str:
        return "" if self.evaluated is None else f"return {self.evaluated:.0f}"

    def state(self, folder: Path) -> dict[str, Any]:
        """Return all that the next step depends on; the replay goes to files of the folder."""
        save_replay(folder, self.replay, self.saved)
        self.saved = self.replay.count
        return {
            "module": self.module.state_dict(),
            "optimisers": {name: one.state_dict() for name, one in self.module.optimisers.items()},
            "replay": self.replay.count,
            **{name: getattr(self, name) for name in _COUNTERS},
        }

    def restore(self, folder: Path, state: Mapping[str, Any]) -> None:
        """Put back what `state` returned; an episode that was under way is played again up to there."""
        self.module.load_state_dict(state["module"])
        for name, one in self.module.optimisers.items():
            one.load_state_dict(state["optimisers"][name])
        load_replay(folder, self.replay, state["replay"])
        self.saved = state["replay"]
        self.step = int(state["step"])
        for name in _COUNTERS:
            setattr(self, name, state[name])
        self.logged_frames = self.frames
        if self.is_running:
            self._reset_task()
            for action in self.replay.episode_actions():
                self.task.step(action)

    def forget(self, folder: Path) -> None:
        remove_replay(folder)

    def _begin_episode(self) -> None:
        self._reset_task()
        self.replay.begin(self._render())
        self.gained, self.is_running = 0.0, True

    def _reset_task(self) -> None:
        self.task.begin(derive_seed(self.settings.seed, "episode", self.episode))

    def _choose_action(self) -> Tensor:
        with self._timed("act"):
            return self.module.act(crop_centre(self.replay.newest(), self.settings.camera.crop), explore=True)

    def _do(self, action: Tensor) -> None:
        with self._timed("simulate"):
            found = self.task.step(action)
        self.replay.add(action, found.reward, found.discount, self._render())
        self.frames += found.frames
        self.gained += found.reward
        if found.is_last:
            self.episode, self.is_running, self.last_return = self.episode + 1, False, self.gained

    def _update(self, update: int) -> dict[str, float]:
        training, crop = self.settings.training, self.settings.camera.crop
        with self._timed("draw"):
            generator = make_generator(self.settings.seed, "draw", update)
            drawn = self.replay.draw(training.batch, crop, self.settings.objective.views, generator)
        with self._timed("update"):
            views = tuple(view.to(self.device) for view in drawn.views)
            others = (drawn.actions, drawn.rewards, drawn.discounts, drawn.next_view)
            return self.module.update(update, views, *(one.to(self.device) for one in others))

    def _render(self) -> Tensor:
        with self._timed("render"):
            return observe(self.task, self.settings.camera)

    @contextmanager
    def _timed(self, part: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.seconds[part] += time.perf_counter() - start


def _make_replay(settings: ControlSettings, task: PixelTask) -> Replay:
    training, camera = settings.training, settings.camera
    kept = min(training.capacity, training.frames // task.repeat)
    # An episode has one frame more than steps, and the oldest stacks are not whole.
    room = kept + kept // (EPISODE // task.repeat) + 1 + camera.stack
    return Replay(room, (camera.channels, camera.side, camera.side), task.action_dim, camera.stack)
