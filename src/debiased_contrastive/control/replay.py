"""What an agent saw and did, each frame kept once; stacks and crops of them are made when they are drawn."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import torch
from numpy.lib.stride_tricks import sliding_window_view
from torch import Tensor


class Transitions(NamedTuple):
    """Drawn at random, n of them."""

    views: tuple[Tensor, ...]
    """Each (n, stack * channels, c, c) uint8: crops of what was seen, drawn for each view anew"""
    actions: Tensor
    """(n, a)"""
    rewards: Tensor
    """(n,)"""
    discounts: Tensor
    """(n,) 0 where the task itself was over; a limit of time is no such end"""
    next_view: Tensor
    """As a view, of what was seen next"""


class Replay:
    """The newest frames of episodes in a ring.

    What is seen at a frame is a stack: the frame and those before it in its episode, the first one again where
    there are not as many. A crop has the same place in all frames of a stack.
    """

    def __init__(self, capacity: int, frame: tuple[int, int, int], action_dim: int, stack: int = 3) -> None:
        if capacity < 2 or stack < 1:
            raise ValueError(
                f"a replay needs room for 2 frames and stacks of 1; got {capacity} and {stack}: a transition "
                "lies between two frames"
            )
        self.stack = stack
        # Of NumPy, since torch touches all of its zeros, and gigabytes should be taken as they are filled.
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
        """Frames for which there is room."""
        return len(self.frames)

    def begin(self, frame: Tensor) -> None:
        """Put down the first frame of an episode."""
        self._put(frame, 0)

    def add(self, action: Tensor, reward: float, discount: float, frame: Tensor) -> None:
        """Put down what was done at the newest frame, and what came of it."""
        if not self.count:
            raise ValueError("an episode must begin with a frame before something is added; got none: call begin")
        newest = (self.count - 1) % self.capacity
        self.actions[newest], self.rewards[newest], self.discounts[newest] = action, reward, discount
        self.goes_on[newest] = True
        self._put(frame, int(self.age[newest]) + 1)

    def draw(self, n: int, crop: int, views: int, generator: torch.Generator) -> Transitions:
        """So many transitions with replacement, each of its views a random crop."""
        places = self._places(n, generator)
        seen, following = self._stacks(places), self._stacks((places + 1) % self.capacity)
        return Transitions(
            tuple(self._cropped(seen, crop, generator) for _ in range(views)),
            self.actions[places],
            self.rewards[places],
            self.discounts[places],
            self._cropped(following, crop, generator),
        )

    def newest(self) -> Tensor:
        """(stack * channels, height, width) what is seen now."""
        newest = torch.tensor([(self.count - 1) % self.capacity])
        return self.frames[self._stacks(newest).squeeze(0)].flatten(0, 1)

    def done(self) -> Tensor:
        """(n, a) the actions of the newest episode."""
        newest = self.count - 1
        age = int(self.age[newest % self.capacity])
        return self.actions[torch.arange(newest - age, newest) % self.capacity]

    def rows(self, start: int) -> dict[str, Tensor]:
        """What is kept of the frames from that one on, counted from the first ever."""
        places = torch.arange(max(start, self.count - self.capacity), self.count) % self.capacity
        return {name: getattr(self, name)[places] for name in _TENSORS}

    def put_rows(self, end: int, rows: Mapping[str, Tensor]) -> None:
        """Put back what `rows` gave when there were `end` frames."""
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

    def _places(self, n: int, generator: torch.Generator) -> Tensor:
        """(n,) frames at which a transition begins and whose stack is still whole."""
        used = min(self.count, self.capacity)
        order = torch.arange(used)
        places = (self.count - used + order) % self.capacity
        whole = places[self.goes_on[places] & (self.age[places].clamp(max=self.stack - 1) <= order)]
        if not len(whole):
            raise ValueError(f"a replay must hold a transition to draw from; got {used} frames: add more")
        return whole[torch.randint(len(whole), (n,), generator=generator)]

    def _stacks(self, places: Tensor) -> Tensor:
        """(n, stack) the frames of each stack, oldest first."""
        back = torch.arange(self.stack - 1, -1, -1)
        return (places.unsqueeze(1) - torch.minimum(back, self.age[places].unsqueeze(1))) % self.capacity

    def _cropped(self, stacks: Tensor, crop: int, generator: torch.Generator) -> Tensor:
        height, width = self.frames.shape[2:]
        if not 1 <= crop <= min(height, width):
            raise ValueError(f"a crop must be between 1 and the size of frames, {height} x {width}; got {crop}")
        # Windows are views of the frames: what is copied is what is wanted, and NumPy copies it row by row, where
        # torch goes pixel by pixel and takes ten times as long.
        windows = sliding_window_view(self.frames.numpy(), (crop, crop), axis=(2, 3))
        y, x = (torch.randint(size - crop + 1, (len(stacks), 1), generator=generator) for size in (height, width))
        return torch.from_numpy(windows[stacks.numpy(), :, y.numpy(), x.numpy()]).flatten(1, 2)


_TENSORS = ("frames", "actions", "rewards", "discounts", "age", "goes_on")
