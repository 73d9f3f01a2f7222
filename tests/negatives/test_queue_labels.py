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


def test_membership_and_partitions_travel_with_their_keys() -> None:
    queue = dc.NegativeQueue(4, 2, classes=3, partitions=2)
    assert queue.membership is not None
    p, codes = torch.rand(6, 3) / 3, torch.arange(12).view(6, 2)
    keys = torch.arange(6.0)[:, None].expand(6, 2)
    queue.enqueue(keys[:3], membership=p[:3], partitions=codes[:3])
    queue.enqueue(keys[3:], membership=p[3:])
    order = queue.embeddings[:, 0].long()
    assert sorted(order.tolist()) == [2, 3, 4, 5]
    assert torch.equal(queue.membership, p[order])
    assert queue.partitions is not None
    assert torch.equal(queue.partitions, torch.where(order[:, None] < 3, codes[order], -1)), "not given is unknown"
    again = dc.NegativeQueue(4, 2, classes=3, partitions=2)
    again.load_state_dict(queue.state_dict())
    assert again.membership is not None
    assert torch.equal(again.membership, queue.membership)
    z = torch.randn(3, 2)
    loss = dc.DebiasedInfoNCELoss()(z, z, queue.embeddings, membership=p[:3], negative_membership=queue.membership)
    assert loss.isfinite()


def test_a_queue_refuses_knowledge_that_it_has_no_room_for() -> None:
    plain, wide = dc.NegativeQueue(4, 2), dc.NegativeQueue(4, 2, classes=3)
    assert plain.membership is None
    assert plain.partitions is None
    assert "known" not in str(plain.state_dict().keys()), "queues of earlier versions have the same state"
    keys = torch.ones(2, 2)
    with pytest.raises(ValueError, match=r"membership must be probabilities of shape \(2, 0\), since .* classes=0"):
        plain.enqueue(keys, membership=torch.zeros(2, 3))
    with pytest.raises(
        ValueError, match=r"of shape \(2, 3\), since the store was made with classes=3; got .*\(2, 2\)"
    ):
        wide.enqueue(keys, membership=torch.zeros(2, 2))
    with pytest.raises(ValueError, match="partitions must be whole numbers"):
        dc.NegativeQueue(4, 2, partitions=1).enqueue(keys, partitions=torch.zeros(2, 1))
    with pytest.raises(ValueError, match="classes and partitions must be at least 0; got -1 and 0"):
        dc.NegativeQueue(4, 2, classes=-1)
