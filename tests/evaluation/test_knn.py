"""Weighted nearest neighbours equal two loops, and tiles change nothing."""

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from debiased_contrastive.evaluation import knn
from debiased_contrastive.evaluation.knn import knn_accuracy
from tests.evaluation.clouds import clouds
from tests.text.small_sets import small_sets


def reference(train: Tensor, labels: Tensor, test: Tensor, test_labels: Tensor, k: int, t: float) -> float:
    hits = 0
    for x, label in zip(test.tolist(), test_labels.tolist(), strict=True):
        cosines = []
        for z, other in zip(train.tolist(), labels.tolist(), strict=True):
            product = math.fsum(a * b for a, b in zip(x, z, strict=True))
            cosines.append((product / math.hypot(*x) / math.hypot(*z), other))
        votes = dict.fromkeys(range(int(labels.max()) + 1), 0.0)
        for cosine, other in sorted(cosines, reverse=True)[:k]:
            votes[other] += math.exp(cosine / t)
        hits += max(votes, key=lambda c: votes[c]) == label
    return hits / len(test)


@given(
    seed=st.integers(0, 10**6),
    k=st.integers(1, 40),
    t=st.sampled_from([0.05, 0.5, 3.0]),
    tile=st.sampled_from([1, 50, 10**6]),
)
def test_it_is_two_loops(seed: int, k: int, t: float, tile: int) -> None:
    train, labels = clouds(25, 3, 4, seed=seed)
    test, test_labels = clouds(9, 3, 4, seed=seed + 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(knn, "ELEMENTS", tile)
        accuracy = knn_accuracy(train, labels, test, test_labels, k=k, temperature=t)
    assert accuracy == reference(train, labels, test, test_labels, k, t)


def test_laws() -> None:
    train, labels = clouds(120, 5, 4, spread=2.0)
    test, test_labels = clouds(80, 5, 4, seed=1, spread=2.0)
    accuracy = knn_accuracy(train, labels, test, test_labels, k=20)
    assert 0.3 < accuracy < 1
    assert knn_accuracy(train, labels, train, labels, k=1) == 1
    lengths = torch.rand(120, 1, dtype=torch.float64) + 0.1
    assert knn_accuracy(1e-30 * train * lengths, labels, 1e30 * test, test_labels, k=20) == accuracy
    order = torch.randperm(120, generator=torch.Generator().manual_seed(0))
    assert knn_accuracy(train[order], labels[order], test, test_labels, k=20) == accuracy
    assert knn_accuracy(train.float(), labels.int(), test, test_labels, k=20) == accuracy
    assert knn_accuracy(train, labels, test, test_labels, k=20, num_classes=9) == accuracy
    # The nearest alone counts where the temperature is low, even where exp(1 / t) overflows.
    nearest = knn_accuracy(train, labels, test, test_labels, k=1)
    assert knn_accuracy(train, labels, test, test_labels, temperature=1e-6) == nearest
    assert knn_accuracy(train, labels, test, test_labels, k=10**6) == knn_accuracy(
        train, labels, test, test_labels, k=120
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"k": 0}, "k must be at least 1; got 0"),
        ({"temperature": 0.0}, "temperature must be positive and finite; got 0.0"),
        ({"num_classes": 0}, "num_classes must be at least 1; got 0"),
        ({"test_labels": torch.tensor([0, 5]), "num_classes": 3}, "test_labels must be below num_classes=3; got 5"),
        ({"test_labels": torch.tensor([0.0, 1.0])}, "test_labels must be integers"),
        ({"train_features": torch.randn(0, 3)}, r"n and d at least 1; got torch.float32 \(0, 3\)"),
        ({"test_features": torch.tensor([[1.0, 2.0, math.nan]] * 2)}, "NaN or inf in 2 of 2 rows"),
        ({"train_labels": torch.zeros(4, dtype=torch.int64, device="meta")}, r"one device; got \['cpu', 'meta'\]"),
    ],
)
def test_bad_input(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        knn_accuracy(**(small_sets() | changes))
