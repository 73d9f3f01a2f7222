"""The replay against a plain list of all that ever happened, in memory and on the disk."""

from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from debiased_contrastive.control.replay import Replay, load_replay, remove_replay, replay_files, save_replay


def frame(number: int) -> Tensor:
    """A frame whose pixels tell its number and place."""
    return (torch.arange(3 * 6 * 6).view(3, 6, 6) + 7 * number) % 251


def filled(
    capacity: int, lengths: list[int], stack: int = 3
) -> tuple[Replay, dict[int, tuple[list[int], list[int]]]]:
    """Episodes of so many transitions; for each transition, known by its reward, its stack and the next."""
    replay, expected, number = Replay(capacity, (3, 6, 6), 2, stack), {}, 0
    for length in lengths:
        episode = [number]
        replay.begin(frame(number))
        for _ in range(length):
            number += 1
            episode.append(number)
            replay.add(torch.tensor([number, -number]), float(number), 1.0, frame(number))
            stacks = [[episode[max(0, last - back)] for back in range(stack - 1, -1, -1)]
                      for last in (len(episode) - 2, len(episode) - 1)]  # fmt: skip
            expected[number] = (stacks[0], stacks[1])
        number += 1
    alive = set(range(max(0, number - capacity), number))
    return replay, {key: pair for key, pair in expected.items() if set(pair[0]) | set(pair[1]) <= alive}


@settings(deadline=None)
@given(st.integers(4, 40), st.lists(st.integers(1, 9), min_size=1, max_size=6), st.integers(1, 4))
def test_every_whole_transition_is_drawn_and_no_other(capacity: int, lengths: list[int], stack: int) -> None:
    replay, expected = filled(capacity, lengths, stack)
    generator = torch.Generator().manual_seed(0)
    if not expected:
        with pytest.raises(ValueError, match="must hold a transition to draw from"):
            replay.draw(1, 6, 1, generator)
        return
    drawn = replay.draw(400, 6, 1, generator)
    assert {int(reward) for reward in drawn.rewards} == set(expected)
    for seen, action, reward, following in zip(
        drawn.views[0], drawn.actions, drawn.rewards, drawn.next_view, strict=True
    ):
        before, after = expected[int(reward)]
        assert action.tolist() == [reward, -reward]
        assert torch.equal(seen, torch.cat([frame(number) for number in before]).byte())
        assert torch.equal(following, torch.cat([frame(number) for number in after]).byte())


def test_crops_lie_in_one_place_of_a_stack_and_everywhere_in_time() -> None:
    replay, expected = filled(50, [9, 9])
    drawn = replay.draw(300, 4, 2, torch.Generator().manual_seed(0))
    places = []
    for view in drawn.views:
        assert view.shape == (300, 9, 4, 4)
        for crop, reward in zip(view, drawn.rewards, strict=True):
            whole = torch.cat([frame(number) for number in expected[int(reward)][0]]).byte()
            at = [(y, x) for y in range(3) for x in range(3) if torch.equal(whole[:, y : y + 4, x : x + 4], crop)]
            assert len(at) == 1
            places += at
    assert set(places) == {(y, x) for y in range(3) for x in range(3)}
    assert places[:300] != places[300:], "every view has its own place"


def test_it_goes_on_as_it_was() -> None:
    for capacity in (50, 12):
        replay, _ = filled(capacity, [9, 5])
        again = Replay(capacity, (3, 6, 6), 2)
        again.put_rows(replay.count, replay.rows(0))
        for one in (replay, again):
            one.add(torch.ones(2), 99.0, 0.0, frame(77))
        first, second = (one.draw(50, 4, 1, torch.Generator().manual_seed(1)) for one in (replay, again))
        assert torch.equal(first.views[0], second.views[0])
        assert torch.equal(first.discounts, second.discounts)
        assert first.discounts.min() == 0
    with pytest.raises(ValueError, match="must have the sizes that it was saved with; frames has"):
        Replay(12, (3, 5, 5), 2).put_rows(replay.count, replay.rows(0))


def test_what_is_seen_and_done_now() -> None:
    replay, _ = filled(50, [9, 4])
    # Frames 10 to 14 are those of the second episode.
    assert torch.equal(replay.newest(), torch.cat([frame(number) for number in (12, 13, 14)]).byte())
    assert replay.episode_actions()[:, 0].tolist() == [11, 12, 13, 14]
    replay.begin(frame(15))
    assert torch.equal(replay.newest(), torch.cat([frame(15)] * 3).byte())
    assert len(replay.episode_actions()) == 0
    replay, _ = filled(8, [9, 6])
    assert replay.episode_actions()[:, 0].tolist() == [11, 12, 13, 14, 15, 16], "across the end of the ring"


def test_nonsense_is_refused() -> None:
    with pytest.raises(ValueError, match="room for 2 frames"):
        Replay(1, (3, 6, 6), 2)
    with pytest.raises(ValueError, match="must begin with a frame"):
        Replay(5, (3, 6, 6), 2).add(torch.ones(2), 0.0, 1.0, frame(0))
    replay, _ = filled(20, [5])
    with pytest.raises(ValueError, match="a crop must be between 1 and the size of frames, 6 x 6; got 7"):
        replay.draw(1, 7, 1, torch.Generator())


def test_a_hundred_thousand_transitions_take_less_than_three_and_a_half_gib() -> None:
    """By the sizes alone: nothing is filled in, so nothing of it is in memory."""
    replay = Replay(100_900, (3, 100, 100), 6)
    tensors = [replay.frames, replay.actions, replay.rewards, replay.discounts, replay.age, replay.goes_on]
    assert sum(tensor.numel() * tensor.element_size() for tensor in tensors) < 3.5 * 2**30


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
