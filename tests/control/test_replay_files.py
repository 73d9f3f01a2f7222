"""A replay on the disk: in pieces, whole, or told."""

from pathlib import Path

import pytest
import torch

from debiased_contrastive.control.replay import Replay
from debiased_contrastive.control.replay_files import load_replay, remove_replay, replay_files, save_replay


def empty(capacity: int = 20) -> Replay:
    return Replay(capacity, (1, 4, 4), 1)


def grow(replay: Replay, frames: int) -> None:
    for _ in range(frames):
        number = replay.count
        frame = torch.full((1, 4, 4), number % 251, dtype=torch.uint8)
        if number % 7 == 0:
            replay.begin(frame)
        else:
            replay.add(torch.tensor([float(number)]), float(number), 1.0, frame)


def same(one: Replay, other: Replay) -> bool:
    names = ("frames", "actions", "rewards", "discounts", "age", "goes_on")
    return one.count == other.count and all(torch.equal(getattr(one, n), getattr(other, n)) for n in names)


@pytest.mark.parametrize("pieces", [[5], [5, 1, 8], [15, 4, 9, 30, 2], [60, 3]])
def test_pieces_make_a_whole(tmp_path: Path, pieces: list[int]) -> None:
    replay, saved = empty(), 0
    for piece in pieces:
        grow(replay, piece)
        for _ in range(2):
            # The second time there is nothing new, and the piece stays whole.
            save_replay(tmp_path, replay, saved)
            saved = replay.count
    again = empty()
    load_replay(tmp_path, again, replay.count)
    assert same(again, replay)
    for one in (again, replay):
        grow(one, 3)
    assert same(again, replay)


def test_the_checkpoint_before_the_last_can_be_gone_back_to(tmp_path: Path) -> None:
    replay, saved, known = empty(8), 0, []
    for _ in range(9):
        grow(replay, 5)
        save_replay(tmp_path, replay, saved)
        saved = replay.count
        copy = empty(8)
        copy.put_rows(replay.count, replay.rows(0))
        known.append(copy)
    assert len(replay_files(tmp_path)) <= 5, "what is no longer remembered is not kept"
    again = empty(8)
    load_replay(tmp_path, again, known[-2].count)
    drawn = [one.draw(40, 4, 1, torch.Generator().manual_seed(0)) for one in (again, known[-2])]
    assert torch.equal(drawn[0].rewards, drawn[1].rewards)
    assert torch.equal(drawn[0].views[0], drawn[1].views[0])
    assert max(end for end, _ in replay_files(tmp_path)) == known[-2].count, "later files are of no use"


def test_a_missing_or_damaged_piece_is_told(tmp_path: Path) -> None:
    replay = empty()
    for saved in (0, 4, 8):
        grow(replay, 4)
        save_replay(tmp_path, replay, saved)
    path = tmp_path / "replay-8.pt"
    content = path.read_bytes()
    path.unlink()
    with pytest.raises(
        ValueError, match="must hold the frames up to 12; they are missing or damaged after 4: restore"
    ):
        load_replay(tmp_path, empty(), 12)
    path.write_bytes(content[:-9])
    with pytest.raises(ValueError, match="missing or damaged after 4"):
        load_replay(tmp_path, empty(), 12)


def test_all_is_removed_at_the_end(tmp_path: Path) -> None:
    replay = empty()
    grow(replay, 4)
    save_replay(tmp_path, replay, 0)
    (tmp_path / ".replay-9.pt.77.tmp").write_bytes(b"cut off")
    (tmp_path / "checkpoint-4.pt").write_bytes(b"stays")
    remove_replay(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint-4.pt"]
