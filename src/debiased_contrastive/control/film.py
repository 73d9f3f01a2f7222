"""An episode of an agent as a film, or as a strip of pictures."""

import io
from collections.abc import Sequence
from fractions import Fraction
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import torch
from PIL import Image
from torch import Tensor

from debiased_contrastive.control.agent import Agent
from debiased_contrastive.control.rollout import make_task, play
from debiased_contrastive.control.settings import ControlSettings
from debiased_contrastive.control.task import MAX_SIDE
from debiased_contrastive.files import write_atomically
from debiased_contrastive.numerics import derive_seed

STRIP_PICTURES = 8


class Film(NamedTuple):
    """A filmed episode."""

    frames: list[Tensor]
    """(3, size, size) uint8, one for each step of the agent"""
    seconds: float
    """Time between two frames, in the world of the task."""
    episode_return: float


def film_episode(agent: Agent, settings: ControlSettings, size: int, episode: int = 0) -> Film:
    """Play an episode without exploring, and render it larger than the agent sees it."""
    task = make_task(settings)
    frames, total = [], 0.0
    for reward in play(agent, task, settings.camera, derive_seed(settings.seed, "film", episode)):
        frames.append(task.render(size))
        total += reward
    return Film(frames, task.seconds, total)


def check_film(path: Path, size: int) -> None:
    if path.suffix not in (".mp4", ".gif"):
        raise ValueError(f"a film must end in .mp4 or .gif; got {path}")
    if path.suffix == ".mp4" and find_spec("av") is None:
        raise ValueError(
            "a film as .mp4 needs the package av: pip install 'debiased-contrastive[control]', or .gif"
        )
    if not 16 <= size <= MAX_SIDE or size % 2:
        raise ValueError(f"the size of a film must be an even number from 16 to {MAX_SIDE}; got {size}")


def write_film(path: Path, film: Film) -> None:
    """Write a film at the pace of the task."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, _encode_gif(film) if path.suffix == ".gif" else _encode_mp4(film))


def write_strip(path: Path, frames: Sequence[Tensor]) -> None:
    """Write some of the frames, from the first to the last, side by side."""
    chosen = torch.linspace(0, len(frames) - 1, min(STRIP_PICTURES, len(frames))).round().long().tolist()
    buffer = io.BytesIO()
    _image(torch.cat([frames[place] for place in chosen], 2)).save(buffer, "PNG", optimize=True)
    write_atomically(path, buffer.getvalue())


def _image(frame: Tensor) -> Image.Image:
    return Image.fromarray(frame.permute(1, 2, 0).contiguous().numpy())


def _encode_gif(film: Film) -> bytes:
    buffer = io.BytesIO()
    first, *rest = map(_image, film.frames)
    # Browsers show a frame of less than 20 ms for a tenth of a second.
    pace = max(round(1000 * film.seconds), 20)
    first.save(buffer, "GIF", save_all=True, append_images=rest, duration=pace, loop=0)
    return buffer.getvalue()


def _encode_mp4(film: Film) -> bytes:
    import av

    buffer = io.BytesIO()
    rate = Fraction(1 / film.seconds).limit_denominator(1000)
    with av.open(buffer, "w", format="mp4") as container:
        stream = container.add_stream("h264", rate=rate)
        stream.height, stream.width = film.frames[0].shape[1:]
        stream.pix_fmt = "yuv420p"
        for frame in film.frames:
            pixels = frame.permute(1, 2, 0).contiguous().numpy()
            container.mux(stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")))
        container.mux(stream.encode())
    return buffer.getvalue()
