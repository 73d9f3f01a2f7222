"""Checkpoints that are complete or not there: written atomically, checked when read, the last two kept."""

import hashlib
import io
import re
from pathlib import Path
from typing import Any

import torch

from debiased_contrastive.files import check_is_file, write_atomically

_NAME = re.compile(r"checkpoint-(\d+)\.pt")


def save_checkpoint(folder: Path, step: int, state: dict[str, Any]) -> Path:
    """Write a checkpoint and return its file; of the older ones, only the newest stays."""
    path = folder / f"checkpoint-{step}.pt"
    save_whole(path, {"step": step, **state})
    for old in checkpoints(folder)[:-2]:
        old.unlink()
    return path


def save_whole(path: Path, state: dict[str, Any]) -> None:
    """Write a state with a digest before it, so that a file cut or altered later is noticed."""
    buffer = io.BytesIO()
    torch.save(state, buffer)
    # The parts are not joined: a replay would take gigabytes twice.
    content = buffer.getbuffer()
    write_atomically(path, hashlib.sha256(content).digest(), content)


def checkpoints(folder: Path) -> list[Path]:
    """List the checkpoint files of a folder, oldest first, without pipes, folders and links to nowhere."""
    return [path for _, path in _find_names(folder) if path.is_file()]


def _find_names(folder: Path) -> list[tuple[int, Path]]:
    """List whatever has the name of a checkpoint, by step."""
    return sorted((int(match[1]), path) for path in folder.iterdir() if (match := _NAME.fullmatch(path.name)))


def check_places(folder: Path, steps: int) -> None:
    """Raise where a folder has the name of a checkpoint of the first `steps` steps: none could replace it."""
    for step, path in _find_names(folder):
        if step <= steps and path.is_dir():
            raise ValueError(f"{path} is a folder in the place of a checkpoint: remove it, or give it another name")


def latest_checkpoint(folder: Path) -> tuple[dict[str, Any] | None, list[Path]]:
    """Load the newest state that is whole, None if there is none; and list the newer files that were refused."""
    refused: list[Path] = []
    for _, path in reversed(_find_names(folder)):
        if (state := _load_training_state(path)) is not None:
            return state, refused
        refused.append(path)
    return None, refused


def _load_training_state(path: Path) -> dict[str, Any] | None:
    """Load the state in a file; None where it is not the state of a training, whatever the file is."""
    try:
        check_is_file(path)
        state = load_whole(path)
    except (ValueError, FileNotFoundError):
        return None
    step, module = state.get("step"), state.get("module")
    is_step = isinstance(step, int) and not isinstance(step, bool) and step >= 0
    is_module = isinstance(module, dict) and all(isinstance(name, str) for name in module)
    # Checkpoints of old versions say nothing of their run.
    kinds = {"settings": dict, "samples": int, "digest": str}
    knows_run = all(isinstance(state.get(name), kind) for name, kind in kinds.items())
    return state if is_step and is_module and (knows_run or not kinds.keys() & state.keys()) else None


def load_whole(path: Path) -> dict[str, Any]:
    """Load the state that `save_whole` wrote, without running anything that it names."""
    file = path.read_bytes()
    content = memoryview(file)[32:]
    if hashlib.sha256(content).digest() != file[:32]:
        raise ValueError(f"{path} is damaged: its content does not match its digest; the one before it can be used")
    try:
        state = torch.load(io.BytesIO(content), weights_only=True, map_location="cpu")
    # Whoever writes the digest can write anything behind it, and the reader raises whatever it meets.
    except Exception as error:
        raise ValueError(f"{path} holds no state ({type(error).__name__}); the one before it can be used") from None
    if not isinstance(state, dict):
        raise ValueError(f"{path} must hold a state; it holds a {type(state).__name__}")
    return state
