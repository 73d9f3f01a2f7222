"""Alignment, uniformity, class cosines, neighbours, class means and the effective prior equal plain loops."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import normalize

from debiased_contrastive.evaluation import geometry
from debiased_contrastive.evaluation.geometry import (
    MeanClassifier,
    alignment,
    effective_prior,
    knn_accuracy,
    mean_classifier,
    same_class_similarity,
    uniformity,
)
from tests.evaluation.clouds import clouds
from tests.text.small_sets import small_sets


def points(n: int, d: int, seed: int) -> Tensor:
    return torch.randn(n, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def unit(x: list[float]) -> list[float]:
    return [value / math.hypot(*x) for value in x]


@given(seed=st.integers(0, 10**6), n=st.integers(1, 9), alpha=st.sampled_from([1.0, 2.0, 3.5]))
def test_alignment_is_a_loop(seed: int, n: int, alpha: float) -> None:
    z0, z1 = points(n, 3, seed), points(n, 3, seed + 1)
    pairs = zip(z0.tolist(), z1.tolist(), strict=True)
    expected = math.fsum(math.dist(unit(a), unit(b)) ** alpha for a, b in pairs) / n
    assert alignment(z0, z1, alpha) == pytest.approx(expected, rel=1e-12)
    assert alignment(z1, 5 * z0, alpha) == pytest.approx(expected, rel=1e-12)
    assert alignment(z0, 3 * z0, alpha) == pytest.approx(0, abs=1e-12)


@given(
    seed=st.integers(0, 10**6),
    n=st.integers(2, 12),
    t=st.sampled_from([0.5, 2.0, 400.0]),
    tile=st.sampled_from([1, 30, 10**6]),
)
def test_uniformity_is_a_loop(seed: int, n: int, t: float, tile: int) -> None:
    z = points(n, 3, seed)
    exponents = [-t * math.dist(unit(a), unit(b)) ** 2 for a, b in itertools.combinations(z.tolist(), 2)]
    largest = max(exponents)
    expected = largest + math.log(math.fsum(math.exp(e - largest) for e in exponents) / len(exponents))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(geometry, "ELEMENTS", tile)
        assert uniformity(z, t) == pytest.approx(expected, rel=1e-10)
    rotation = torch.linalg.qr(points(3, 3, seed + 1)).Q
    assert uniformity(2 * z.flip(0) @ rotation, t) == pytest.approx(expected, rel=1e-10)


def test_uniformity_knows_its_limits() -> None:
    assert uniformity(torch.ones(7, 3)) == pytest.approx(0, abs=1e-6)
    many = points(3000, 3, 0).float()
    # On the sphere in three dimensions the cosine is uniform on [-1, 1]: E exp(-4 + 4c) = (1 - e^-8) / 8.
    assert uniformity(many) == pytest.approx(math.log((1 - math.exp(-8)) / 8), abs=0.01)


@given(seed=st.integers(0, 10**6), n=st.integers(2, 12), classes=st.integers(1, 4))
def test_class_cosines_are_a_loop(seed: int, n: int, classes: int) -> None:
    z = points(n, 3, seed)
    labels = torch.randint(classes, (n,), generator=torch.Generator().manual_seed(seed))
    cosines: dict[bool, list[float]] = {True: [], False: []}
    rows = list(zip(z.tolist(), labels.tolist(), strict=True))
    for (a, y), (b, other) in itertools.combinations(rows, 2):
        cosines[y == other].append(math.fsum(p * q for p, q in zip(unit(a), unit(b), strict=True)))
    result = same_class_similarity(z, labels)
    for found, pairs in ((result.within, cosines[True]), (result.between, cosines[False])):
        if pairs:
            assert found == pytest.approx(math.fsum(pairs) / len(pairs), abs=1e-12)
        else:
            assert math.isnan(found)


def test_bad_input() -> None:
    z = torch.randn(4, 3)
    with pytest.raises(ValueError, match=r"one shape; got \(4, 3\) and \(2, 3\)"):
        alignment(z, z[:2])
    with pytest.raises(ValueError, match="alpha must be positive and finite; got 0"):
        alignment(z, z, 0)
    with pytest.raises(ValueError, match="t must be positive and finite; got inf"):
        uniformity(z, math.inf)
    with pytest.raises(ValueError, match="at least two rows; got 1"):
        uniformity(z[:1])
    with pytest.raises(ValueError, match="one for each of the 4 samples"):
        same_class_similarity(z, torch.arange(3))


# Neighbours


def knn_reference(train: Tensor, labels: Tensor, test: Tensor, test_labels: Tensor, k: int, t: float) -> float:
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
def test_neighbours_are_two_loops(seed: int, k: int, t: float, tile: int) -> None:
    train, labels = clouds(25, 3, 4, seed=seed)
    test, test_labels = clouds(9, 3, 4, seed=seed + 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(geometry, "ELEMENTS", tile)
        accuracy = knn_accuracy(train, labels, test, test_labels, k=k, temperature=t)
    assert accuracy == knn_reference(train, labels, test, test_labels, k, t)


def test_laws_of_neighbours() -> None:
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
def test_bad_input_of_neighbours(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        knn_accuracy(**(small_sets() | changes))


# Class means


def means_reference(train: Tensor, labels: Tensor, test: Tensor, test_labels: Tensor, t: float) -> MeanClassifier:
    unit = [x / np.linalg.norm(x) for x in train.numpy()]
    means = [
        sum(x for x, y in zip(unit, labels.tolist(), strict=True) if y == c) / labels.tolist().count(c)
        for c in range(int(labels.max()) + 1)
    ]
    hits, loss = 0, 0.0
    for x, y in zip(test.numpy(), test_labels.tolist(), strict=True):
        logits = [float(x / np.linalg.norm(x) @ mean) / t for mean in means]
        hits += max(range(len(means)), key=lambda c: logits[c]) == y
        loss += math.log(sum(math.exp(logit) for logit in logits)) - logits[y]
    return MeanClassifier(hits / len(test), loss / len(test))


@pytest.mark.parametrize("t", [0.1, 0.5, 1.0])
@pytest.mark.parametrize("tile", [7, 2**14])
def test_the_mean_classifier_is_a_loop(monkeypatch: pytest.MonkeyPatch, t: float, tile: int) -> None:
    monkeypatch.setattr(geometry, "ROWS", tile)
    train, labels = clouds(41, 4, 5, spread=2.0)
    test, test_labels = clouds(30, 4, 5, seed=1, spread=2.0)
    result = mean_classifier(train, labels, test, test_labels, temperature=t)
    expected = means_reference(train, labels, test, test_labels, t)
    assert result.accuracy == expected.accuracy
    assert result.loss == pytest.approx(expected.loss, rel=1e-12)
    scaled = mean_classifier(9 * train, labels, test / 7, test_labels, temperature=t)
    assert scaled.loss == pytest.approx(result.loss, rel=1e-12)


@pytest.mark.parametrize("classes", [2, 10])
def test_closed_forms_of_lemma_4(classes: int) -> None:
    labels = torch.arange(3 * classes) % classes
    constant = torch.ones(3 * classes, 4)
    assert mean_classifier(constant, labels, constant, labels).loss == pytest.approx(math.log(classes))
    collapsed = torch.eye(classes)[labels]
    result = mean_classifier(collapsed, labels, collapsed, labels, temperature=1.0)
    assert result.loss == pytest.approx(math.log(1 + (classes - 1) / math.e))
    assert result.accuracy == 1


def test_bad_input_of_class_means() -> None:
    x, y = torch.randn(4, 3), torch.tensor([0, 0, 2, 2])
    with pytest.raises(ValueError, match=r"got none of classes \[1\]"):
        mean_classifier(x, y, x, y)
    with pytest.raises(ValueError, match="temperature must be positive and finite; got -1"):
        mean_classifier(x, y // 2, x, y // 2, temperature=-1)


# The effective prior


def two_views(seed: int, noise: float) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(60) % 3
    x = torch.eye(8)[labels] + 0.3 * torch.randn(60, 8, generator=generator)
    z0, z1 = (x + noise * torch.randn(60, 8, generator=generator) for _ in range(2))
    return z0, z1, labels


def slow_prior(z0: Tensor, z1: Tensor, labels: Tensor, t: float) -> float:
    """For each anchor the root of the correction minus the true mean, which is linear in tau / (1 - tau)."""
    roots = []
    for i in range(len(z0)):
        h = [float(torch.exp(normalize(z0[i], dim=0) @ normalize(z, dim=0) / t)) for z in z1]
        others = [j for j in range(len(z1)) if j != i]
        u = sum(h[j] for j in others) / len(others)
        negatives = [h[j] for j in others if labels[j] != labels[i]]
        target = sum(negatives) / len(negatives)
        low, high = 0.0, 0.9
        for _ in range(60):
            tau = (low + high) / 2
            above = (u - tau * h[i]) / (1 - tau) > target
            low, high = (tau, high) if above else (low, tau)
        roots.append(low)
    return sorted(roots)[(len(roots) - 1) // 2]


@pytest.mark.parametrize("t", [0.5, 1.0])
def test_with_it_the_estimate_is_the_mean_of_the_true_negatives(t: float) -> None:
    z0, z1, labels = two_views(0, 0.05)
    assert effective_prior(z0, z1, labels, t) == pytest.approx(slow_prior(z0, z1, labels, t), abs=1e-5)


def test_the_nearer_the_views_the_smaller_it_is() -> None:
    near, far = (effective_prior(*two_views(1, noise), 0.5) for noise in (0.01, 0.3))
    assert near < far < 19 / 59


def test_one_class_is_an_error() -> None:
    z = torch.randn(4, 3)
    with pytest.raises(ValueError, match="at least two classes"):
        effective_prior(z, z, torch.zeros(4, dtype=torch.int64), 0.5)
