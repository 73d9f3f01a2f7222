"""The replay of an agent, in memory and on disk: frames are kept once, and stacked and cropped when drawn."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.lib.stride_tricks import sliding_window_view
from torch import Tensor

from debiased_contrastive.training.checkpoint import load_whole, save_whole

_TENSORS = ("frames", "actions", "rewards", "discounts", "age", "goes_on")
_FILE_NAME = re.compile(r"replay-(\d+)\.pt")


class Transitions(NamedTuple):
    """A random batch of n transitions."""

    views: tuple[Tensor, ...]
    """Each (n, stack * channels, c, c) uint8: random crops of the observations, independent for each view"""
    actions: Tensor
    """(n, a)"""
    rewards: Tensor
    """(n,)"""
    discounts: Tensor
    """(n,) 0 where the task itself was over, not where the time was up"""
    next_view: Tensor
    """A view of the next observations"""


class Replay:
    """A ring buffer of the newest frames.

    An observation is a stack: a frame and those before it in its episode, whose first frame is repeated where there
    are not enough. A crop has the same place in all frames of a stack.
    """

    def __init__(self, capacity: int, frame: tuple[int, int, int], action_dim: int, stack: int = 3) -> None:
        if capacity < 2 or stack < 1:
            raise ValueError(
                f"a replay needs room for 2 frames and stacks of 1; got {capacity} and {stack}: a transition "
                "lies between two frames"
            )
        self.stack = stack
        # NumPy's zeros take memory only as they are filled; torch's would take all gigabytes at once.
        self.frames = torch.from_numpy(np.zeros((capacity, *frame), np.uint8))
        self.actions = torch.zeros(capacity, action_dim)
        self.rewards = torch.zeros(capacity)
        self.discounts = torch.zeros(capacity)
        self.age = torch.zeros(capacity, dtype=torch.int64)
        """Frames before this one in its episode."""
        self.goes_on = torch.zeros(capacity, dtype=torch.bool)
        """Whether a transition begins at this frame."""
        self.count = 0
        """Frames so far; the newest has the place (count - 1) mod capacity."""

    @property
    def capacity(self) -> int:
        return len(self.frames)

    def begin(self, frame: Tensor) -> None:
        self._put(frame, 0)

    def add(self, action: Tensor, reward: float, discount: float, frame: Tensor) -> None:
        """Store the action at the newest frame, and what came of it."""
        if not self.count:
            raise ValueError("an episode must begin with a frame before something is added; got none: call begin")
        newest = (self.count - 1) % self.capacity
        self.actions[newest], self.rewards[newest], self.discounts[newest] = action, reward, discount
        self.goes_on[newest] = True
        self._put(frame, int(self.age[newest]) + 1)

    def draw(self, n: int, crop: int, views: int, generator: torch.Generator) -> Transitions:
        """Draw n transitions with replacement, each of their views a random crop."""
        places = self._draw_places(n, generator)
        seen, following = self._stacks(places), self._stacks((places + 1) % self.capacity)
        return Transitions(
            tuple(self._crop(seen, crop, generator) for _ in range(views)),
            self.actions[places],
            self.rewards[places],
            self.discounts[places],
            self._crop(following, crop, generator),
        )

    def newest(self) -> Tensor:
        """Return the newest observation (stack * channels, height, width)."""
        newest = torch.tensor([(self.count - 1) % self.capacity])
        return self.frames[self._stacks(newest).squeeze(0)].flatten(0, 1)

    def episode_actions(self) -> Tensor:
        """Return the actions (n, a) of the newest episode."""
        newest = self.count - 1
        age = int(self.age[newest % self.capacity])
        return self.actions[torch.arange(newest - age, newest) % self.capacity]

    def rows(self, start: int) -> dict[str, Tensor]:
        """Return all tensors from a frame on, which is counted from the first one ever."""
        places = torch.arange(max(start, self.count - self.capacity), self.count) % self.capacity
        return {name: getattr(self, name)[places] for name in _TENSORS}

    def put_rows(self, end: int, rows: Mapping[str, Tensor]) -> None:
        """Put back what `rows` returned when there were `end` frames."""
        for name in _TENSORS:
            kept, given = getattr(self, name), rows[name]
            if given.shape[1:] != kept.shape[1:] or len(given) > self.capacity:
                raise ValueError(
                    f"a replay must have the sizes that it was saved with; {name} has {tuple(kept.shape)}, saved "
                    f"are {tuple(given.shape)}: use the settings of the run"
                )
            kept[torch.arange(end - len(given), end) % self.capacity] = given
        self.count = end

    def _put(self, frame: Tensor, age: int) -> None:
        place = self.count % self.capacity
        self.frames[place] = frame
        self.age[place] = age
        self.goes_on[place] = False
        self.count += 1

    def _draw_places(self, n: int, generator: torch.Generator) -> Tensor:
        """Draw (n,) frames at which a transition begins and whose stack is still whole."""
        used = min(self.count, self.capacity)
        order = torch.arange(used)
        places = (self.count - used + order) % self.capacity
        whole = places[self.goes_on[places] & (self.age[places].clamp(max=self.stack - 1) <= order)]
        if not len(whole):
            raise ValueError(f"a replay must hold a transition to draw from; got {used} frames: add more")
        return whole[torch.randint(len(whole), (n,), generator=generator)]

    def _stacks(self, places: Tensor) -> Tensor:
        """Find the frames (n, stack) of each stack, oldest first."""
        back = torch.arange(self.stack - 1, -1, -1)
        return (places.unsqueeze(1) - torch.minimum(back, self.age[places].unsqueeze(1))) % self.capacity

    def _crop(self, stacks: Tensor, crop: int, generator: torch.Generator) -> Tensor:
        height, width = self.frames.shape[2:]
        if not 1 <= crop <= min(height, width):
            raise ValueError(f"a crop must be between 1 and the size of frames, {height} x {width}; got {crop}")
        # Windows are views of the frames, so only crops are copied; NumPy copies row by row, ten times as fast as
        # torch, which goes pixel by pixel.
        windows = sliding_window_view(self.frames.numpy(), (crop, crop), axis=(2, 3))
        y, x = (torch.randint(size - crop + 1, (len(stacks), 1), generator=generator) for size in (height, width))
        return torch.from_numpy(windows[stacks.numpy(), :, y.numpy(), x.numpy()]).flatten(1, 2)


def save_replay(folder: Path, replay: Replay, saved: int) -> None:
    """Write the frames that came since the last checkpoint, when there were `saved`.

    Each file holds what came between two checkpoints, so that nothing is written twice. Files that neither this
    checkpoint nor the last one needs are removed.
    """
    if replay.count == saved:
        return
    # The last frame was written before its action was known.
    save_whole(folder / f"replay-{replay.count}.pt", replay.rows(max(saved - 1, 0)))
    for end, path in replay_files(folder):
        if end <= saved - replay.capacity:
            path.unlink()


def load_replay(folder: Path, replay: Replay, count: int) -> None:
    """Load what was kept when there were `count` frames; files of later ones are removed."""
    start = max(count - replay.capacity, 0)
    found = 0
    for end, path in replay_files(folder):
        if end > count:
            path.unlink()
        elif end > start:
            rows = _load_rows(path)
            if rows is None or end - len(rows["frames"]) > max(found, start):
                break
            replay.put_rows(end, rows)
            found = end
    if found != count:
        raise ValueError(
            f"{folder} must hold the frames up to {count}; they are missing or damaged after {found}: restore the "
            "files replay-*.pt from a copy, or start a new run"
        )


def _load_rows(path: Path) -> dict[str, Any] | None:
    try:
        return load_whole(path)
    except ValueError:
        return None


def remove_replay(folder: Path) -> None:
    """Remove all files of the replay, also those of a write that was cut off."""
    for path in [path for _, path in replay_files(folder)] + list(folder.glob(".replay-*.tmp")):
        path.unlink()


def replay_files(folder: Path) -> list[tuple[int, Path]]:
    """List the files, each with the number of frames at its end, oldest first."""
    found = ((_FILE_NAME.fullmatch(path.name), path) for path in folder.iterdir() if path.is_file())
    return sorted((int(match[1]), path) for match, path in found if match)
