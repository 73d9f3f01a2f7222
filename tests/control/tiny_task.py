"""A task that a camera sees and a second solves: bring a bright bar to the middle and keep it there."""

import torch
from torch import Tensor

from debiased_contrastive.control.task import Step

STEPS = 20


class TinyTask:
    """As a PixelTask."""

    action_dim = 1
    seconds = 0.1

    def __init__(self, name: str, *, size: int, repeat: int, grey: bool = False, **_looks: float) -> None:
        self.name, self.size, self.repeat, self.grey = name, size, repeat, grey
        self.place, self.time = 0.0, 0

    def begin(self, seed: int) -> None:
        self.place = 2 * float(torch.rand((), generator=torch.Generator().manual_seed(seed))) - 1
        self.time = 0

    def step(self, action: Tensor) -> Step:
        self.place = min(max(self.place + 0.4 * float(action), -1.0), 1.0)
        self.time += 1
        is_last = self.time == STEPS
        frames = self.repeat // 2 if is_last and self.repeat > 1 else self.repeat
        return Step(max(0.0, 1 - 2 * abs(self.place)), frames, 1.0, is_last)

    def frame(self) -> Tensor:
        return self.render(self.size)[:1] if self.grey else self.render(self.size)

    def render(self, size: int) -> Tensor:
        frame = torch.zeros(3, size, size, dtype=torch.uint8)
        middle = (self.place + 1) / 2 * (size - 1)
        columns = torch.arange(size)
        frame[:, :] = (255 * (1 - (columns - middle).abs() / 2).clamp(min=0)).to(torch.uint8)
        return frame
