"""The queue holds what it was given, in order, and continues bit for bit."""

import copy
import io
from collections import deque

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import debiased_contrastive as dc


@settings(max_examples=60)
@given(size=st.integers(1, 12), batches=st.lists(st.integers(0, 30), max_size=8))
def test_it_is_a_bounded_deque(size: int, batches: list[int]) -> None:
    queue, model = dc.NegativeQueue(size, 2), deque[int](maxlen=size)
    start = 0
    for b in batches:
        ids = torch.arange(start, start + b)
        queue.enqueue(ids.float()[:, None].expand(b, 2), ids)
        model.extend(ids.tolist())
        start += b
        assert len(queue) == len(model)
        assert sorted(queue.ids.tolist()) == sorted(model)
        assert torch.equal(queue.embeddings[:, 0].long(), queue.ids)
        assert queue.valid.sum() == len(model)
        assert queue.valid.shape == (size,)


def test_it_starts_empty_and_the_loss_says_so() -> None:
    queue = dc.NegativeQueue(8, 3)
    assert queue.embeddings.shape == (0, 3)
    z = torch.randn(4, 3)
    with pytest.raises(ValueError, match="an empty queue must be filled first"):
        dc.DebiasedInfoNCELoss()(z, z, queue.embeddings)
    queue.enqueue(z)
    assert queue.ids.tolist() == [-1] * 4
    assert dc.DebiasedInfoNCELoss()(z, z, queue.embeddings).isfinite()


def train(queue: dc.NegativeQueue, steps: range) -> list[float]:
    loss = dc.DebiasedInfoNCELoss(0.2, 0.05)
    values = []
    for step in steps:
        generator = torch.Generator().manual_seed(step)
        keys = torch.randn(5, 3, generator=generator)
        ids = torch.arange(5) + 5 * (step % 3)
        queries = keys + 0.1
        if len(queue):
            values.append(loss(queries, keys, queue.embeddings, ids=ids, negative_ids=queue.ids).item())
        queue.enqueue(keys, ids)
    return values


def test_resume_continues_bit_for_bit() -> None:
    whole = dc.NegativeQueue(12, 3)
    expected = train(whole, range(9))
    first = dc.NegativeQueue(12, 3)
    values = train(first, range(4))
    file = io.BytesIO()
    torch.save(first.state_dict(), file)
    file.seek(0)
    second = dc.NegativeQueue(12, 3)
    second.load_state_dict(torch.load(file, weights_only=True))
    assert values + train(second, range(4, 9)) == expected
    for name, value in whole.state_dict().items():
        assert torch.equal(second.state_dict()[name], value)
    assert copy.deepcopy(second).ids.tolist() == second.ids.tolist()


def test_a_state_of_another_size_is_refused_and_changes_nothing() -> None:
    large, small = dc.NegativeQueue(16, 3), dc.NegativeQueue(8, 3)
    large.enqueue(torch.randn(12, 3))
    with pytest.raises((ValueError, RuntimeError), match=r"does not fit a queue of 8|size mismatch"):
        small.load_state_dict(large.state_dict())
    assert len(small) == 0


def test_an_own_stale_copy_is_left_out() -> None:
    queue = dc.NegativeQueue(4, 2)
    key = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    queue.enqueue(torch.cat([key, -key]), torch.tensor([0, 1, 2, 3]))
    loss = dc.DebiasedInfoNCELoss(0.5, 0.0, reduction="none")
    with_copy = loss(key, key, queue.embeddings)
    without = loss(key, key, queue.embeddings, ids=torch.tensor([0, 1]), negative_ids=queue.ids)
    assert (without < with_copy).all()
    assert loss.diagnostics.num_unlabeled == 3


def test_keys_are_detached_cast_and_checked() -> None:
    queue = dc.NegativeQueue(4, 2)
    queue.enqueue(torch.randn(3, 2, dtype=torch.float64, requires_grad=True))
    assert queue.embeddings.dtype == torch.float32
    assert not queue.embeddings.requires_grad
    for keys, ids, message in (
        (torch.randn(3, 5), None, r"shape \(b, 2\).*got torch.float32 \(3, 5\)"),
        (torch.ones(3, 2, dtype=torch.int64), None, "must be floating-point"),
        (torch.full((3, 2), torch.nan), None, "NaN or inf in 3 of 3 rows"),
        (torch.randn(3, 2), torch.arange(2), r"one for each of the 3 keys; got torch.int64 \(2,\)"),
    ):
        with pytest.raises(ValueError, match=message):
            queue.enqueue(keys, ids)
    assert len(queue) == 3
    with pytest.raises(ValueError, match=r"finite in torch.float16.*the queue needs a wider dtype"):
        dc.NegativeQueue(4, 2, dtype=torch.float16).enqueue(torch.full((1, 2), 1e6))
    with pytest.raises(ValueError, match="at least 1; got size=0"):
        dc.NegativeQueue(0, 3)
