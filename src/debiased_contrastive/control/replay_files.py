"""A replay on the disk: one file for what came between two checkpoints, so that nothing is written twice."""

import re
from pathlib import Path
from typing import Any

from debiased_contrastive.control.replay import Replay
from debiased_contrastive.training.checkpoint import load_whole, save_whole

_NAME = re.compile(r"replay-(\d+)\.pt")


def save_replay(folder: Path, replay: Replay, saved: int) -> None:
    """Write the frames that came since there were `saved`, as the checkpoint before knows them.

    Files that it can do without, too, are removed.
    """
    if replay.count == saved:
        return
    # The last frame was written before it was known what is done there.
    save_whole(folder / f"replay-{replay.count}.pt", replay.rows(max(saved - 1, 0)))
    for end, path in replay_files(folder):
        if end <= saved - replay.capacity:
            path.unlink()


def load_replay(folder: Path, replay: Replay, count: int) -> None:
    """Put back what was kept when there were `count` frames; files of later ones are removed."""
    start = max(count - replay.capacity, 0)
    found = 0
    for end, path in replay_files(folder):
        if end > count:
            path.unlink()
        elif end > start:
            rows = _rows(path)
            if rows is None or end - len(rows["frames"]) > max(found, start):
                break
            replay.put_rows(end, rows)
            found = end
    if found != count:
        raise ValueError(
            f"{folder} must hold the frames up to {count}; they are missing or damaged after {found}: restore the "
            "files replay-*.pt from a copy, or start a new run"
        )


def remove_replay(folder: Path) -> None:
    """Remove all files, also of a write that was cut off."""
    for path in [path for _, path in replay_files(folder)] + list(folder.glob(".replay-*.tmp")):
        path.unlink()


def _rows(path: Path) -> dict[str, Any] | None:
    try:
        return load_whole(path)
    except ValueError:
        return None


def replay_files(folder: Path) -> list[tuple[int, Path]]:
    """The files with how many frames there were at their end, oldest first."""
    found = ((_NAME.fullmatch(path.name), path) for path in folder.iterdir() if path.is_file())
    return sorted((int(match[1]), path) for match, path in found if match)
