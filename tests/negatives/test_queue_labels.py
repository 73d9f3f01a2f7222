"""Labels travel with their keys through the queue, and a batch without any has none."""

import io
from collections import deque

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import debiased_contrastive as dc


@settings(max_examples=60)
@given(size=st.integers(1, 12), batches=st.lists(st.tuples(st.integers(0, 30), st.booleans()), max_size=8))
def test_each_key_keeps_its_label(size: int, batches: list[tuple[int, bool]]) -> None:
    queue, model = dc.NegativeQueue(size, 2), deque[tuple[int, int]](maxlen=size)
    start = 0
    for b, labelled in batches:
        numbers = torch.arange(start, start + b)
        labels = numbers % 7 if labelled else None
        queue.enqueue(numbers.float()[:, None].expand(b, 2), labels=labels)
        model.extend((n, n % 7 if labelled else -1) for n in numbers.tolist())
        start += b
        got = zip(queue.embeddings[:, 0].long().tolist(), queue.labels.tolist(), strict=True)
        assert sorted(got) == sorted(model)
        assert queue.ids.tolist() == [-1] * len(model)


def test_ids_and_labels_are_kept_apart() -> None:
    queue = dc.NegativeQueue(4, 1)
    assert queue.labels.shape == (0,)
    queue.enqueue(torch.ones(2, 1), torch.tensor([5, 6]), torch.tensor([0, 1]))
    queue.enqueue(torch.ones(1, 1), torch.tensor([7]))
    queue.enqueue(torch.ones(1, 1), labels=torch.tensor([3], dtype=torch.int32))
    assert queue.ids.tolist() == [5, 6, 7, -1]
    assert queue.labels.tolist() == [0, 1, -1, 3]
    assert queue.labels.dtype == torch.int64
    queue.enqueue(torch.ones(2, 1), torch.tensor([8, 9]))  # in place of the labelled ones
    assert queue.labels.tolist() == [-1, -1, -1, 3]


def test_labels_are_in_the_state() -> None:
    queue, again = dc.NegativeQueue(5, 2), dc.NegativeQueue(5, 2)
    queue.enqueue(torch.randn(3, 2), torch.arange(3), torch.tensor([2, 0, 2]))
    file = io.BytesIO()
    torch.save(queue.state_dict(), file)
    file.seek(0)
    again.load_state_dict(torch.load(file, weights_only=True))
    assert again.labels.tolist() == [2, 0, 2]
    again.enqueue(torch.randn(4, 2), labels=torch.tensor([7, 8, 9, 10]))
    assert again.labels.tolist() == [9, 10, 2, 7, 8]


def test_labels_make_the_oracle() -> None:
    """A stored key of the own class is as good as absent, but for N."""
    torch.manual_seed(0)
    query, key = torch.randn(2, 3, 4, dtype=torch.float64)
    queue = dc.NegativeQueue(6, 4, dtype=torch.float64)
    stored = torch.randn(6, 4, dtype=torch.float64)
    queue.enqueue(stored, labels=torch.tensor([0, 1, 2, 0, 1, 2]))
    loss = dc.DebiasedInfoNCELoss(0.5, 0.2, reduction="none")
    got = loss(query, key, queue.embeddings, labels=torch.tensor([0, 1, 2]), negative_labels=queue.labels)
    unit = torch.nn.functional.normalize
    for i in range(3):
        others = [k for k in range(6) if k % 3 != i]
        mean = (unit(stored[others], dim=1) @ unit(query[i], dim=0) / 0.5).exp().mean()
        positive = (unit(key[i], dim=0) @ unit(query[i], dim=0) / 0.5).exp()
        torch.testing.assert_close(got[i], -(positive / (positive + 6 * mean)).log())


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (torch.arange(2), r"labels must be integers, one for each of the 3 keys; got torch.int64 \(2,\)"),
        (torch.zeros(3, 1).long(), r"one for each of the 3 keys; got torch.int64 \(3, 1\)"),
        (torch.zeros(3), r"labels must be integers.*got torch.float32 \(3,\): pass those of the samples"),
    ],
)
def test_bad_labels_are_refused_and_change_nothing(labels: torch.Tensor, message: str) -> None:
    queue = dc.NegativeQueue(4, 2)
    queue.enqueue(torch.ones(1, 2), labels=torch.tensor([3]))
    with pytest.raises(ValueError, match=message):
        queue.enqueue(torch.randn(3, 2), torch.arange(3), labels)
    assert len(queue) == 1
    assert queue.labels.tolist() == [3]
