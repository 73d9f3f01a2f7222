"""The replay against a plain list of all that ever happened."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from debiased_contrastive.control.replay import Replay


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
    assert replay.done()[:, 0].tolist() == [11, 12, 13, 14]
    replay.begin(frame(15))
    assert torch.equal(replay.newest(), torch.cat([frame(15)] * 3).byte())
    assert len(replay.done()) == 0
    replay, _ = filled(8, [9, 6])
    assert replay.done()[:, 0].tolist() == [11, 12, 13, 14, 15, 16], "across the end of the ring"


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
