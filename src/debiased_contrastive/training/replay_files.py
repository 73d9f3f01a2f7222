"""A replay on the disk: one file for what came between two checkpoints, so that nothing is written twice."""

import re
from pathlib import Path

from debiased_contrastive.data.replay import Replay
from debiased_contrastive.training.checkpoint import load_whole, save_whole

_NAME = re.compile(r"replay-(\d+)\.pt")


def save_replay(folder: Path, replay: Replay, since: int, needed: int) -> None:
    """Write the frames that came after the first `since`; remove files that a replay at `needed` can do without."""
    # The last frame was written before it was known what is done there.
    save_whole(folder / f"replay-{replay.count}.pt", replay.rows(max(since - 1, 0)))
    for end, path in replay_files(folder):
        if end <= needed - replay.capacity:
            path.unlink()


def load_replay(folder: Path, replay: Replay, count: int) -> None:
    """Put back what was kept when there were `count` frames; later files are removed."""
    start = max(count - replay.capacity, 0)
    found = 0
    for end, path in replay_files(folder):
        if end > count:
            path.unlink()
        elif end > start:
            rows = load_whole(path)
            if end - len(rows["frames"]) > max(found, start):
                break
            replay.put_rows(end, rows)
            found = end
    if found != count:
        raise ValueError(
            f"{folder} must hold the frames up to {count}; some are missing after {found}: restore the files "
            "replay-*.pt from a copy, or start a new run"
        )


def replay_files(folder: Path) -> list[tuple[int, Path]]:
    """The files with how many frames there were at their end, oldest first."""
    return sorted((int(match[1]), path) for path in folder.iterdir() if (match := _NAME.fullmatch(path.name)))
