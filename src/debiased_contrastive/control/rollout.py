"""An agent at its task: it acts, remembers and learns, step by step, and can be put back to where it was."""

import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from debiased_contrastive.control.agent import Agent
from debiased_contrastive.control.curl import Contrast
from debiased_contrastive.control.replay import Replay
from debiased_contrastive.control.replay_files import load_replay, save_replay
from debiased_contrastive.control.settings import Camera, ControlSettings
from debiased_contrastive.control.task import EPISODE, PixelTask
from debiased_contrastive.numerics import generator_of, seed_of


def task_of(settings: ControlSettings) -> PixelTask:
    """The task, drawn as the agent sees it."""
    camera, repeat = settings.camera, settings.training.repeat
    assert repeat is not None, "settings must be settled"
    return PixelTask(
        settings.task,
        size=camera.size,
        repeat=repeat,
        plain=camera.plain,
        grey=camera.grey,
        smooth=camera.smooth,
        wide=camera.wide,
    )


def agent_of(settings: ControlSettings, action_dim: int) -> Agent:
    """A fresh agent; with one seed its networks are the same whatever the contrast."""
    camera, objective, rate = settings.camera, settings.objective, settings.training.learning_rate
    assert rate is not None, "settings must be settled"
    torch.manual_seed(seed_of(settings.seed, "contrast"))
    contrast = None
    if objective.kind != "none":
        contrast = Contrast(settings.agent.feature_dim, tau_plus=objective.correction, floor=objective.floor)
    torch.manual_seed(seed_of(settings.seed, "weights"))
    channels = camera.channels * camera.stack
    sizes = (channels, camera.crop, action_dim)
    return Agent(*sizes, settings.agent, contrast, stack=camera.stack, learning_rate=rate)


def seen(task: PixelTask, camera: Camera) -> Tensor:
    """A frame of the task, with what is repeated around it."""
    frame = task.frame()
    if not camera.pad:
        return frame
    return F.pad(frame.float().unsqueeze(0), [camera.pad] * 4, "replicate").squeeze(0).byte()


def centre(frames: Tensor, crop: int) -> Tensor:
    """The middle (..., crop, crop) of frames."""
    top, left = ((size - crop) // 2 for size in frames.shape[-2:])
    return frames[..., top : top + crop, left : left + crop]


class Rollout:
    """Where an agent and its task stand."""

    def __init__(self, settings: ControlSettings, device: torch.device) -> None:
        self.settings, self.device = settings, device
        self.task = task_of(settings)
        self.agent = agent_of(settings, self.task.action_dim).to(device)
        self.replay = _replay(settings, self.task)
        self.steps = settings.training.frames // self.task.repeat
        self.step = self.frames = self.episode = 0
        self.is_running = False
        """Whether an episode is under way."""
        self.gained = 0.0
        """In this episode."""
        self.last_return: float | None = None
        """Of the last whole one."""
        self.measured: dict[str, list[float]] = {}
        """What was measured since `means` was called, by name."""
        self.saved = 0
        """Frames that the last checkpoint knows."""
        self.seconds: defaultdict[str, float] = defaultdict(float)
        """By part of the work."""

    def forward(self) -> None:
        """One step of the agent; after the random ones it also learns."""
        if not self.is_running:
            self._begin()
        seed, step = self.settings.seed, self.step
        torch.manual_seed(seed_of(seed, "step", step))
        acts = step >= self.settings.training.random_steps
        action = self._action() if acts else 2 * torch.rand(self.task.action_dim) - 1
        self._do(action)
        self.step += 1
        update, rest = divmod(step, self.settings.training.update_every)
        if acts and not rest:
            for name, value in self._learn(update).items():
                self.measured.setdefault(name, []).append(value)

    def means(self) -> dict[str, float]:
        """Of what was measured since the last call."""
        found = {name: fmean(values) for name, values in self.measured.items()}
        self.measured = {}
        return found

    def _begin(self) -> None:
        self._reset()
        self.replay.begin(self._frame())
        self.gained, self.is_running = 0.0, True

    def _reset(self) -> None:
        self.task.begin(seed_of(self.settings.seed, "episode", self.episode))

    def _action(self) -> Tensor:
        with self._timed("act"):
            return self.agent.act(centre(self.replay.newest(), self.settings.camera.crop), explore=True)

    def _do(self, action: Tensor) -> None:
        with self._timed("simulate"):
            found = self.task.step(action)
        self.replay.add(action, found.reward, found.discount, self._frame())
        self.frames += found.frames
        self.gained += found.reward
        if found.is_last:
            self.episode, self.is_running, self.last_return = self.episode + 1, False, self.gained

    def _learn(self, update: int) -> dict[str, float]:
        training, crop = self.settings.training, self.settings.camera.crop
        with self._timed("draw"):
            generator = generator_of(self.settings.seed, "draw", update)
            drawn = self.replay.draw(training.batch, crop, self.settings.objective.views, generator)
        with self._timed("update"):
            views = tuple(view.to(self.device) for view in drawn.views)
            others = (drawn.actions, drawn.rewards, drawn.discounts, drawn.next_view)
            return self.agent.update(update, views, *(one.to(self.device) for one in others))

    def _frame(self) -> Tensor:
        with self._timed("render"):
            return seen(self.task, self.settings.camera)

    @contextmanager
    def _timed(self, part: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.seconds[part] += time.perf_counter() - start

    def save(self, folder: Path) -> dict[str, Any]:
        """All that the next step depends on; what is remembered goes to files of the folder."""
        save_replay(folder, self.replay, self.saved)
        self.saved = self.replay.count
        return {
            "module": self.agent.state_dict(),
            "optimisers": {name: one.state_dict() for name, one in self.agent.optimisers.items()},
            "replay": self.replay.count,
            **{name: getattr(self, name) for name in _COUNTERS},
        }

    def restore(self, folder: Path, state: dict[str, Any]) -> None:
        """Put back what `save` took; an episode that was under way is played again up to there."""
        self.agent.load_state_dict(state["module"])
        for name, one in self.agent.optimisers.items():
            one.load_state_dict(state["optimisers"][name])
        load_replay(folder, self.replay, state["replay"])
        self.saved = state["replay"]
        self.step = int(state["step"])
        for name in _COUNTERS:
            setattr(self, name, state[name])
        if self.is_running:
            self._reset()
            for action in self.replay.done():
                self.task.step(action)


_COUNTERS = ("frames", "episode", "is_running", "gained", "last_return", "measured")


def _replay(settings: ControlSettings, task: PixelTask) -> Replay:
    training, camera = settings.training, settings.camera
    kept = min(training.capacity, training.frames // task.repeat)
    # An episode has a frame more than it has steps, and the oldest stacks are not whole.
    room = kept + kept // (EPISODE // task.repeat) + 1 + camera.stack
    return Replay(room, (camera.channels, camera.side, camera.side), task.action_dim, camera.stack)
