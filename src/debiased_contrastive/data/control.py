"""Tasks of the DeepMind control suite, seen through a camera."""

import os
from ctypes.util import find_library
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

EPISODE = 1000
"""Frames of the simulation in an episode of the suite."""


class Step(NamedTuple):
    """What came of an action."""

    frame: Tensor
    """(3, size, size) uint8"""
    reward: float
    """Of all frames for which the action was repeated."""
    discount: float
    """0 where the task itself is over."""
    is_last: bool
    """Whether the episode is over, be it for lack of time."""


class PixelTask:
    """A task by the name of its domain and its own, such as cartpole-swingup.

    Actions lie in [-1, 1] and are repeated; camera 0 looks on.
    """

    def __init__(self, name: str, *, size: int, repeat: int, seed: int) -> None:
        self.name, self.size, self.repeat = name, size, repeat
        self.environment = _loaded(name, seed)
        spec = self.environment.action_spec()
        self.low, self.high = (np.broadcast_to(end, spec.shape) for end in (spec.minimum, spec.maximum))
        self.action_dim = int(np.prod(spec.shape))

    def begin(self) -> Tensor:
        """Start an episode; its first frame."""
        self.environment.reset()
        return self.frame()

    def step(self, action: Tensor) -> Step:
        """Do this, as often as actions are repeated or until the episode is over."""
        scaled = self.low + (np.clip(action.numpy(), -1, 1) + 1) / 2 * (self.high - self.low)
        reward = 0.0
        for _ in range(self.repeat):
            found = self.environment.step(scaled)
            reward += float(found.reward or 0.0)
            if found.last():
                break
        discount = 1.0 if found.discount is None else float(found.discount)
        return Step(self.frame(), reward, discount, bool(found.last()))

    def frame(self) -> Tensor:
        """What the camera sees now."""
        seen = self.environment.physics.render(self.size, self.size, camera_id=0)
        return torch.from_numpy(np.ascontiguousarray(seen.transpose(2, 0, 1)))


def task_names() -> tuple[str, ...]:
    """All tasks of the suite."""
    return tuple(f"{domain}-{task}" for domain, task in _suite().ALL_TASKS)


def _loaded(name: str, seed: int) -> Any:
    suite = _suite()
    domain, _, task = name.partition("-")
    if (domain, task) not in suite.ALL_TASKS:
        near = [f"{each}-{one}" for each, one in suite.ALL_TASKS if each == domain]
        known = ", ".join(near or sorted({each for each, _ in suite.ALL_TASKS}))
        raise ValueError(f"a task must be DOMAIN-TASK of the control suite; got {name!r}: there are {known}")
    return suite.load(domain, task, task_kwargs={"random": seed})


def _suite() -> Any:
    os.environ.setdefault("MUJOCO_GL", _renderer())
    try:
        from dm_control import suite
    except ModuleNotFoundError as error:
        raise ValueError(f"{error.name} is missing: pip install 'debiased-contrastive[control]'") from None
    return suite


def _renderer() -> str:
    """What draws without a screen: on a graphics card EGL, else OSMesa."""
    has_card = os.path.exists("/dev/nvidia0") or os.path.exists("/dev/dri")
    for name, library, wanted in (("egl", "EGL", has_card), ("osmesa", "OSMesa", True), ("egl", "EGL", True)):
        if wanted and find_library(library):
            return name
    raise ValueError(
        "frames need OSMesa or EGL, which draw without a screen; got neither: apt-get install libosmesa6, or set "
        "MUJOCO_GL"
    )
