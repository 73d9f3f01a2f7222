"""Nothing is lost: a damaged checkpoint is refused and the one before it used; the order repeats."""

from pathlib import Path

import pytest
import torch

from debiased_contrastive.numerics import make_generator
from debiased_contrastive.training.checkpoint import (
    checkpoints,
    latest_checkpoint,
    load_whole,
    save_checkpoint,
)
from debiased_contrastive.training.gradient import draw_batch, steps_per_epoch
from debiased_contrastive.training.settings import Order


def test_the_last_two_are_kept_and_the_newest_is_read(tmp_path: Path) -> None:
    assert latest_checkpoint(tmp_path) == (None, [])
    for step in (5, 10, 100):
        save_checkpoint(tmp_path, step, {"module": {"weights": torch.full((3,), float(step))}})
    assert [path.name for path in checkpoints(tmp_path)] == ["checkpoint-10.pt", "checkpoint-100.pt"]
    state, refused = latest_checkpoint(tmp_path)
    assert state is not None
    assert state["step"] == 100
    assert torch.equal(state["module"]["weights"], torch.full((3,), 100.0))
    assert refused == []
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize("damage", ["cut", "altered", "empty"])
def test_a_damaged_one_is_refused_and_the_one_before_it_used(tmp_path: Path, damage: str) -> None:
    for step in (1, 2):
        last = save_checkpoint(tmp_path, step, {"module": {"weights": torch.arange(1000)}})
    content = bytearray(last.read_bytes())
    if damage == "altered":
        content[len(content) // 2] ^= 1
    last.write_bytes({"cut": bytes(content[:-7]), "altered": bytes(content), "empty": b""}[damage])
    with pytest.raises(ValueError, match=r"checkpoint-2.pt is damaged"):
        load_whole(last)
    state, refused = latest_checkpoint(tmp_path)
    assert state is not None
    assert state["step"] == 1
    assert refused == [last]


def test_a_checkpoint_runs_nothing(tmp_path: Path) -> None:
    class Foreign:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return (Path.touch, (str(tmp_path / "ran"),))

    path = save_checkpoint(tmp_path, 1, {"bad": Foreign()})
    with pytest.raises(ValueError, match=r"checkpoint-1.pt holds no state"):
        load_whole(path)
    assert not (tmp_path / "ran").exists()


def test_an_epoch_sees_every_sample_once_and_epochs_differ() -> None:
    assert steps_per_epoch(10, 3) == 3
    epochs = [torch.cat([draw_batch(3 * epoch + k, 10, 3, seed=7) for k in range(3)]) for epoch in range(3)]
    for order in epochs:
        assert len(order.unique()) == 9
    assert not torch.equal(epochs[0], epochs[1])
    assert torch.equal(draw_batch(4, 10, 3, seed=7), draw_batch(4, 10, 3, seed=7))
    assert not torch.equal(draw_batch(4, 100, 30, seed=7), draw_batch(4, 100, 30, seed=8))
    with pytest.raises(ValueError, match="between 2 and the number of samples, 10; got 11"):
        steps_per_epoch(10, 11)


def relative_age(order: Order, *, places: range) -> float:
    """Steps since a batch's samples were seen last, as a multiple of those of all samples, at some places of epochs."""
    n, batch, epoch = 60, 6, 10
    last, own, others = torch.zeros(n), 0.0, 0.0
    for step in range(100 * epoch):
        ids = draw_batch(step, n, batch, seed=3, order=order)
        assert len(ids.unique()) == batch
        if step > 3 * epoch and step % epoch in places:
            own += float((step - last[ids]).mean())
            others += float((step - last).mean())
        last[ids] = step
    return own / others


def test_only_where_batches_are_drawn_anew_does_age_not_tell_who_comes_next() -> None:
    late = range(7, 10)
    assert relative_age("epochs", places=late) > 1.5
    assert relative_age("drawn", places=late) == pytest.approx(1, abs=0.1)
    assert torch.equal(draw_batch(4, 100, 30, 7, "drawn"), draw_batch(4, 100, 30, 7, "drawn"))
    assert not torch.equal(draw_batch(4, 100, 30, 7, "drawn"), draw_batch(5, 100, 30, 7, "drawn"))
    assert not torch.equal(draw_batch(4, 100, 30, 7, "drawn"), draw_batch(4, 100, 30, 8, "drawn"))


def test_generators_of_different_places_are_unrelated() -> None:
    draws = [
        torch.rand(1000, generator=make_generator(seed, name, step))
        for seed in (0, 1)
        for name in "ab"
        for step in (0, 1)
    ]
    correlation = torch.corrcoef(torch.stack(draws))
    assert (correlation - torch.eye(8)).abs().max() < 0.15
    assert torch.equal(draws[0], torch.rand(1000, generator=make_generator(0, "a", 0)))
