"""The probe is scikit-learn's pipeline on the same split, and reports what it says."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import top_k_accuracy_score
from sklearn.preprocessing import StandardScaler
from torch import Tensor

from debiased_contrastive.evaluation import linear
from debiased_contrastive.evaluation.linear import _split_train, linear_probe
from tests.evaluation.clouds import clouds
from tests.text.small_sets import small_sets

PATH = (0.001, 0.1, 10.0)


def sets(classes: int, d: int = 12, *, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    train, labels = clouds(70 * classes, d, classes, seed=1, spread=2.5)
    test, test_labels = clouds(40 * classes, d, classes, seed=2, spread=2.5)
    return train.to(dtype) * 3 + 1, labels, test.to(dtype) * 3 + 1, test_labels


@pytest.mark.parametrize("classes", [2, 8])
def test_it_is_the_pipeline_of_scikit_learn(classes: int) -> None:
    train, labels, test, test_labels = sets(classes)
    probe = linear_probe(
        train, labels, test, test_labels, regularisations=PATH, validation_share=0.25, seed=5, tolerance=1e-13
    )
    scaler = StandardScaler().fit(train.numpy())
    x, x_test = scaler.transform(train.numpy()), scaler.transform(test.numpy())
    order, fitted = _split_train(labels, 0.25, 5)
    fit, held_out = order[:fitted].numpy(), order[fitted:].numpy()
    y, y_test = labels.numpy(), test_labels.numpy()

    def model(C: float, rows: Any) -> Any:
        return LogisticRegression(C=C, tol=1e-10, max_iter=5000).fit(x[rows], y[rows])

    expected = {C: float(model(C, fit).score(x[held_out], y[held_out])) for C in PATH}
    assert probe.validation == pytest.approx(expected)
    assert probe.regularisation == max(PATH, key=lambda C: expected[C])
    final = model(probe.regularisation, slice(None))
    assert probe.top1 == pytest.approx(final.score(x_test, y_test))
    if classes == 2:
        assert probe.top5 is None
    else:
        assert probe.top5 == pytest.approx(top_k_accuracy_score(y_test, final.decision_function(x_test), k=5))


def test_float32_is_within_a_few_samples() -> None:
    train, labels, test, test_labels = sets(8)
    exact = linear_probe(train, labels, test, test_labels, tolerance=1e-12)
    for dtype, off in ((torch.float32, 2), (torch.bfloat16, 10)):
        probe = linear_probe(train.to(dtype), labels, test.to(dtype), test_labels)
        assert abs(probe.top1 - exact.top1) <= off / len(test)


def test_laws() -> None:
    train, labels, test, test_labels = sets(6)
    probe = linear_probe(train, labels, test, test_labels, regularisations=PATH, tolerance=1e-12)
    backwards = linear_probe(train, labels, test, test_labels, regularisations=PATH[::-1], tolerance=1e-12)
    assert backwards == probe
    scale = torch.logspace(-3, 3, train.shape[1], dtype=torch.float64)
    moved = (1e3 + scale * train, labels, 1e3 + scale * test, test_labels)
    assert linear_probe(*moved, regularisations=PATH, tolerance=1e-12) == probe
    constant = torch.full((len(train), 1), 0.1), torch.full((len(test), 1), 0.1)
    wider = torch.cat([train, constant[0]], 1), labels, torch.cat([test, constant[1]], 1), test_labels
    assert linear_probe(*wider, regularisations=PATH, tolerance=1e-12) == probe
    chosen = linear_probe(train, labels, test, test_labels, regularisations=[probe.regularisation], tolerance=1e-12)
    assert (chosen.top1, chosen.top5, chosen.validation) == (probe.top1, probe.top5, {})
    assert list(probe.validation) == sorted(PATH)
    assert linear_probe(train, labels, train, labels, regularisations=[1e6]).top1 > probe.top1


def test_standardising_is_a_choice() -> None:
    train, labels, test, test_labels = sets(3)
    scale = torch.tensor([1e-3] * 6 + [1.0] * 6, dtype=torch.float64)
    arguments = (train * scale, labels, test * scale, test_labels)
    probe = linear_probe(*arguments, regularisations=[0.01], standardise=False, tolerance=1e-12)
    model = LogisticRegression(C=0.01, tol=1e-10, max_iter=5000).fit(arguments[0].numpy(), labels.numpy())
    assert probe.top1 == pytest.approx(model.score(arguments[2].numpy(), test_labels.numpy()))
    assert probe != linear_probe(*arguments, regularisations=[0.01], tolerance=1e-12)


def test_tiles_and_gradients_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = sets(6)
    probe = linear_probe(*arguments)
    monkeypatch.setattr(linear, "ELEMENTS", 100)
    arguments[0].requires_grad_()
    assert linear_probe(*arguments) == probe


@pytest.mark.parametrize("constant", [0.0, 0.1, -1 / 3, 1e20])
def test_what_rounding_leaves_of_a_constant_is_no_variance(constant: float) -> None:
    features = torch.full((50_003, 1), constant)
    mean, scale = linear._mean_and_scale(features, True)
    assert abs(float(mean) - constant) <= 1e-6 * abs(constant)
    assert float(scale) == 1


@settings(max_examples=60)
@given(
    counts=st.lists(st.integers(1, 30), min_size=1, max_size=6),
    share=st.floats(0.01, 0.9),
    seed=st.integers(0, 5),
)
def test_every_class_gives_its_share(counts: list[int], share: float, seed: int) -> None:
    labels = torch.repeat_interleave(torch.arange(len(counts)), torch.tensor(counts))
    if max(counts) == 1:
        with pytest.raises(ValueError, match="a class must have two train samples"):
            _split_train(labels, share, seed)
        return
    order, fitted = _split_train(labels, share, seed)
    assert sorted(order.tolist()) == list(range(len(labels)))
    for label, count in enumerate(counts):
        held_out = int((labels[order[fitted:]] == label).sum())
        assert abs(held_out - min(count - 1, max(1, share * count))) < 0.5001


def test_the_seed_draws_the_split() -> None:
    labels = torch.arange(200) % 4
    first, fitted = _split_train(labels, 0.2, 0)
    assert fitted == 160
    assert torch.equal(first, _split_train(labels, 0.2, 0)[0])
    assert set(first[fitted:].tolist()) != set(_split_train(labels, 0.2, 1)[0][fitted:].tolist())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"regularisations": []}, "at least one C; got none"),
        ({"regularisations": [1.0, -1.0]}, "C must be positive and finite; got -1.0"),
        ({"validation_share": 1.0}, "validation_share must be between 0 and 1; got 1.0"),
        ({"num_classes": 3}, r"each with a training sample; got 3, without samples: \[2\]"),
        ({"num_classes": 1}, "train_labels must be below num_classes=1; got 1"),
        ({"test_features": torch.randn(2, 5)}, "must have one width; got 3 and 5"),
        ({"test_labels": torch.tensor([0, 2])}, r"got 3, without samples: \[2\]"),
        ({"train_features": torch.ones(4, 3, dtype=torch.int64)}, "must be floating-point"),
    ],
)
def test_bad_input(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        linear_probe(**(small_sets() | changes))
