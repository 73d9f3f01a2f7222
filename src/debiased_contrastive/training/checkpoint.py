"""Checkpoints that are complete or not there: written atomically, checked when read, the last two kept."""

import hashlib
import io
import re
from pathlib import Path
from typing import Any

import torch

from debiased_contrastive.files import check_is_file, write_atomically

KEPT = 2
_NAME = re.compile(r"checkpoint-(\d+)\.pt")


def save_checkpoint(folder: Path, step: int, state: dict[str, Any]) -> Path:
    """The file that now holds `state`; older checkpoints but one are removed."""
    path = folder / f"checkpoint-{step}.pt"
    save_whole(path, {"step": step, **state})
    for old in checkpoints(folder)[:-KEPT]:
        old.unlink()
    return path


def save_whole(path: Path, state: dict[str, Any]) -> None:
    """Write a state with a digest before it, so that a file cut or altered later is noticed."""
    buffer = io.BytesIO()
    torch.save(state, buffer)
    # Not joined: of a replay there would be gigabytes twice.
    content = buffer.getbuffer()
    write_atomically(path, hashlib.sha256(content).digest(), content)


def checkpoints(folder: Path) -> list[Path]:
    """The checkpoint files in a folder, oldest first; pipes, folders and links to nowhere are none."""
    return [path for _, path in _named(folder) if path.is_file()]


def _named(folder: Path) -> list[tuple[int, Path]]:
    """Whatever has the name of a checkpoint, by step."""
    return sorted((int(match[1]), path) for path in folder.iterdir() if (match := _NAME.fullmatch(path.name)))


def check_places(folder: Path, steps: int) -> None:
    """Raise where something that no checkpoint can replace has the name of one of so many steps."""
    for step, path in _named(folder):
        if step <= steps and path.is_dir():
            raise ValueError(f"{path} is a folder in the place of a checkpoint: remove it, or give it another name")


def latest_checkpoint(folder: Path) -> tuple[dict[str, Any] | None, list[Path]]:
    """The newest state that is whole, None if there is none; and the newer files that were refused."""
    refused: list[Path] = []
    for _, path in reversed(_named(folder)):
        state = _whole_state(path)
        if state is not None:
            return state, refused
        refused.append(path)
    return None, refused


def _whole_state(path: Path) -> dict[str, Any] | None:
    """The state in a file; None where it is none of a training, whatever the file is."""
    try:
        check_is_file(path)
        state = load_whole(path)
    except (ValueError, FileNotFoundError):
        return None
    return state if _has_its_parts(state) else None


def _has_its_parts(state: dict[str, Any]) -> bool:
    """Whether a state has a step, a module, and either all that says which run it is of or nothing of it."""
    kinds = {"settings": dict, "samples": int, "digest": str}
    step, module = state.get("step"), state.get("module")
    is_step = isinstance(step, int) and not isinstance(step, bool) and step >= 0
    is_module = isinstance(module, dict) and all(isinstance(name, str) for name in module)
    knows = not kinds.keys() & state.keys() or all(
        isinstance(state.get(name), kind) for name, kind in kinds.items()
    )
    return is_step and is_module and knows


def load_whole(path: Path) -> dict[str, Any]:
    """The state that `save_whole` wrote, loaded without running anything that it names."""
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
