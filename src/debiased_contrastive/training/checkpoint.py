"""Checkpoints that are complete or not there: written atomically, checked when read, the last two kept."""

import hashlib
import io
import re
from pathlib import Path
from typing import Any

import torch

from debiased_contrastive.files import write_atomically

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
    """The checkpoint files in a folder, oldest first."""
    found = [(int(match[1]), path) for path in folder.iterdir() if (match := _NAME.fullmatch(path.name))]
    return [path for _, path in sorted(found)]


def latest_checkpoint(folder: Path) -> tuple[dict[str, Any] | None, list[Path]]:
    """The newest state that is whole, None if there is none; and the newer files that were refused."""
    refused: list[Path] = []
    for path in reversed(checkpoints(folder)):
        if _content(path) is not None:
            return load_whole(path), refused
        refused.append(path)
    return None, refused


def load_whole(path: Path) -> dict[str, Any]:
    """The state that `save_whole` wrote, loaded without running anything that it names."""
    content = _content(path)
    if content is None:
        raise ValueError(f"{path} is damaged: its content does not match its digest; the one before it can be used")
    state: dict[str, Any] = torch.load(io.BytesIO(content), weights_only=True, map_location="cpu")
    return state


def _content(path: Path) -> bytes | None:
    """What stands behind the digest, None if it is not what was written."""
    file = path.read_bytes()
    return file[32:] if hashlib.sha256(file[32:]).digest() == file[:32] else None
