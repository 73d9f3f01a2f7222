"""Tasks of the DeepMind control suite, seen through a camera."""

import math
import os
from ctypes.util import find_library
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

MAX_SIDE = 480
"""Side of the largest picture that is drawn, in pixels."""
_LUMA = (0.299, 0.587, 0.114)
_MAX_ACTION = 1e3
"""Limits beyond it mean that there are none; those of the suite are about 1."""


class Step(NamedTuple):
    """The result of an action."""

    reward: float
    """Sum over the frames for which the action was repeated."""
    frames: int
    """Number of those frames: fewer where the episode ended."""
    discount: float
    """0 where the task itself is over."""
    is_last: bool
    """Whether the episode is over, also where the time is up."""


class PixelTask:
    """A task of the control suite, such as cartpole-swingup, seen by its camera 0.

    Actions lie in [-1, 1] and are repeated. Seed and actions determine an episode: nothing else need be kept to
    come back to the middle of one.

    Args:
        name: DOMAIN-TASK of the control suite.
        size: Side of the frames in pixels.
        repeat: Frames of the simulation for which an action is repeated.
        plain: Draw without shadows and reflections, in a quarter of the time without a graphics card.
        grey: Give frames one channel, their brightness.
        smooth: Draw frames this many times as large and average them down.
        wide: Field of view, as a multiple of the task's.
    """

    def __init__(
        self,
        name: str,
        *,
        size: int,
        repeat: int,
        plain: bool = False,
        grey: bool = False,
        smooth: int = 1,
        wide: float = 1.0,
    ) -> None:
        if not 1 <= size * smooth <= MAX_SIDE:
            raise ValueError(
                f"size x smooth, the pixels a side that are drawn, must lie between 1 and {MAX_SIDE}; got "
                f"{size} x {smooth}"
            )
        self.name, self.size, self.repeat, self.grey, self.smooth = name, size, repeat, grey, smooth
        self.environment = _load(name)
        model = self.environment.physics.model
        model.cam_fovy[0] = math.degrees(2 * math.atan(wide * math.tan(math.radians(model.cam_fovy[0]) / 2)))
        self.render_flags = {"reflection": False} if plain else {}
        if plain:
            model.vis.quality.shadowsize = 0
        if plain and smooth > 1:
            # What is averaged needs no smooth edges.
            model.vis.quality.offsamples = 0
        spec = self.environment.action_spec()
        self.low, self.high = (np.broadcast_to(end, spec.shape) for end in (spec.minimum, spec.maximum))
        if self.high.max() > _MAX_ACTION:
            raise ValueError(f"actions of a task must have limits; those of {name} have none: choose another task")
        self.action_dim = int(np.prod(spec.shape))

    @property
    def seconds(self) -> float:
        """Time between two actions, in the world of the task."""
        return self.repeat * float(self.environment.control_timestep())

    def begin(self, seed: int) -> None:
        self.environment.task.random.seed(seed % 2**32)
        self.environment.reset()

    def step(self, action: Tensor) -> Step:
        """Repeat an action, at most until the episode is over."""
        scaled = self.low + (np.clip(action.numpy(), -1, 1) + 1) / 2 * (self.high - self.low)
        reward = 0.0
        for frames in range(1, self.repeat + 1):  # noqa: B007
            found = self.environment.step(scaled)
            reward += float(found.reward or 0.0)
            if found.last():
                break
        discount = 1.0 if found.discount is None else float(found.discount)
        return Step(reward, frames, discount, bool(found.last()))

    def frame(self) -> Tensor:
        """Render what the agent sees now, (channels, size, size) uint8."""
        seen = self.render(self.size * self.smooth)
        if self.smooth == 1 and not self.grey:
            return seen
        average = F.avg_pool2d(seen.float(), self.smooth)
        if self.grey:
            average = torch.einsum("c,chw->hw", torch.tensor(_LUMA), average).unsqueeze(0)
        return average.round().byte()

    def render(self, size: int) -> Tensor:
        """Render what the camera sees now, (3, size, size) uint8."""
        try:
            seen = self.environment.physics.render(size, size, camera_id=0, render_flag_overrides=self.render_flags)
        except (ImportError, RuntimeError, AttributeError) as error:
            raise ValueError(_rendering_problem(error)) from None
        return torch.from_numpy(np.ascontiguousarray(seen.transpose(2, 0, 1)))


def _load(name: str) -> Any:
    suite = _import_suite()
    domain, _, task = name.partition("-")
    if (domain, task) not in suite.ALL_TASKS:
        near = [f"{each}-{one}" for each, one in suite.ALL_TASKS if each == domain]
        known = ", ".join(near or sorted({each for each, _ in suite.ALL_TASKS}))
        raise ValueError(f"a task must be DOMAIN-TASK of the control suite; got {name!r}: there are {known}")
    # Some tasks draw their bodies at random, which must not depend on the clock.
    return suite.load(domain, task, task_kwargs={"random": 0})


def _import_suite() -> Any:
    if "MUJOCO_GL" not in os.environ:
        os.environ["MUJOCO_GL"] = _choose_renderer()
    try:
        from dm_control import suite
    except ModuleNotFoundError as error:
        raise ValueError(
            f"{error.name} is missing: pip install 'debiased-contrastive[control]' with Python before 3.13, "
            "for which the control suite has no wheel"
        ) from None
    except (ImportError, RuntimeError, AttributeError) as error:
        raise ValueError(_rendering_problem(error)) from None
    return suite


def _rendering_problem(error: Exception) -> str:
    reason = " ".join(str(error).split())
    return (
        f"frames must be drawn without a screen; MUJOCO_GL={os.environ['MUJOCO_GL']} does not work here ({reason})"
        ": set it to egl or osmesa, and install its library, such as libosmesa6"
    )


def _choose_renderer() -> str:
    """Choose what draws without a screen: EGL on a graphics card, else OSMesa."""
    has_card = os.path.exists("/dev/nvidia0") or os.path.exists("/dev/dri")
    for name, library, wanted in (("egl", "EGL", has_card), ("osmesa", "OSMesa", True), ("egl", "EGL", True)):
        if wanted and find_library(library):
            return name
    raise ValueError(
        "frames need OSMesa or EGL, which draw without a screen; got neither: apt-get install libosmesa6, or set "
        "MUJOCO_GL"
    )
