"""The mean classifier equals its loop and the closed forms of Lemma 4."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from debiased_contrastive.evaluation import means as module
from debiased_contrastive.evaluation.means import MeanClassifier, mean_classifier
from tests.evaluation.clouds import clouds


def reference(train: Tensor, labels: Tensor, test: Tensor, test_labels: Tensor, t: float) -> MeanClassifier:
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
def test_it_is_the_loop(monkeypatch: pytest.MonkeyPatch, t: float, tile: int) -> None:
    monkeypatch.setattr(module, "ROWS", tile)
    train, labels = clouds(41, 4, 5, spread=2.0)
    test, test_labels = clouds(30, 4, 5, seed=1, spread=2.0)
    result = mean_classifier(train, labels, test, test_labels, temperature=t)
    expected = reference(train, labels, test, test_labels, t)
    assert result.accuracy == expected.accuracy
    assert result.loss == pytest.approx(expected.loss, rel=1e-12)
    scaled = mean_classifier(9 * train, labels, test / 7, test_labels, temperature=t)
    assert scaled.loss == pytest.approx(result.loss, rel=1e-12)


@pytest.mark.parametrize("classes", [2, 10])
def test_closed_forms(classes: int) -> None:
    labels = torch.arange(3 * classes) % classes
    constant = torch.ones(3 * classes, 4)
    assert mean_classifier(constant, labels, constant, labels).loss == pytest.approx(math.log(classes))
    collapsed = torch.eye(classes)[labels]
    result = mean_classifier(collapsed, labels, collapsed, labels, temperature=1.0)
    assert result.loss == pytest.approx(math.log(1 + (classes - 1) / math.e))
    assert result.accuracy == 1


def test_bad_input() -> None:
    x, y = torch.randn(4, 3), torch.tensor([0, 0, 2, 2])
    with pytest.raises(ValueError, match=r"got none of classes \[1\]"):
        mean_classifier(x, y, x, y)
    with pytest.raises(ValueError, match="temperature must be positive and finite; got -1"):
        mean_classifier(x, y // 2, x, y // 2, temperature=-1)
