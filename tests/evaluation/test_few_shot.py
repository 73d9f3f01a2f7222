"""Few labels: the nearest class mean by a loop, draws that depend on nothing but the seed, and what is refused."""

import math
from statistics import fmean, stdev

import pytest
import torch
from torch import Tensor

from debiased_contrastive.evaluation.few_shot import DRAWS, FewShot, few_shot
from debiased_contrastive.numerics import make_generator
from tests.evaluation.clouds import clouds

TRAIN, TEST = clouds(60, 5, 3), clouds(40, 5, 3, seed=1, spread=1.5)


def slow(train: Tensor, y: Tensor, test: Tensor, labels: Tensor, count: int, draws: int) -> list[float]:
    """Accuracies of each draw, by distances of Python floats."""
    accuracies = []
    for draw in range(draws):
        generator = make_generator(3, "few labels", draw)
        means = []
        for label in range(int(y.max()) + 1):
            own = [k for k in range(len(y)) if y[k] == label]
            order = torch.randperm(len(own), generator=generator).tolist()
            rows = [train[own[k]] / train[own[k]].norm() for k in order[:count]]
            means.append([fmean(float(row[d]) for row in rows) for d in range(train.shape[1])])
        hits = 0
        for x, label in zip(test, labels.tolist(), strict=True):
            unit = (x / x.norm()).tolist()
            hits += min(range(len(means)), key=lambda c: math.dist(unit, means[c])) == label
        accuracies.append(hits / len(test))
    return accuracies


def test_it_is_the_nearest_class_mean_over_draws() -> None:
    (train, y), (test, labels) = TRAIN, TEST
    found = few_shot(train, y, test, labels, shots=(1, 3), draws=4, seed=3)
    for count in (1, 3):
        want = slow(train, y, test, labels, count, 4)
        assert found[count].accuracy == pytest.approx(fmean(want))
        assert found[count].half_width == pytest.approx(1.96 * stdev(want) / 2)


def test_more_labels_are_better_and_all_of_them_have_no_spread() -> None:
    (train, y), (test, labels) = TRAIN, TEST
    most = int(y.bincount().min())
    found = few_shot(train, y, test, labels, shots=(1, most, most + 1))
    assert list(found) == [1, most], "no class is drawn from that has too few"
    assert found[1].accuracy < found[most].accuracy
    assert found[1].half_width > 0
    assert found[most].half_width < 1e-12, "all labels are one draw"
    assert found == few_shot(5 * train, y, test, labels, shots=(1, most), draws=DRAWS)
    assert few_shot(train, y, test, labels, shots=(10**6,)) == {}
    assert isinstance(found[1], FewShot)


def test_what_is_refused() -> None:
    (train, y), (test, labels) = TRAIN, TEST
    for wrong in ({"draws": 1}, {"shots": (0,)}, {"shots": ()}):
        with pytest.raises(ValueError, match="draws must be at least 2 and shots at least 1"):
            few_shot(train, y, test, labels, **wrong)
