import time
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from torch import Tensor

from debiased_contrastive.membership.classifier import from_few_labels
from debiased_contrastive.membership.knowledge import Knowledge


def world(n: int = 600, d: int = 8, k: int = 4, *, apart: float = 1.0, seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    classes = torch.randint(k, (n,), generator=generator)
    means = apart * torch.randn(k, d, generator=generator)
    return means[classes] + torch.randn(n, d, generator=generator), classes


def some(classes: Tensor, known: int) -> Tensor:
    return torch.where(torch.arange(len(classes)) < known, classes, -1)


def membership(known: Knowledge) -> Tensor:
    assert known.membership is not None
    return known.membership


@pytest.mark.parametrize("k", [2, 4])
def test_the_posterior_is_that_of_scikit_learn(k: int) -> None:
    x, y = world(k=k)
    known = from_few_labels(x * 100 + 7, some(y, 200))
    scaled = ((x - x.mean(0)) / x.std(0, correction=0)).numpy()
    C, temperature = known.quality["regularisation"], known.quality["temperature"]
    oracle = LogisticRegression(C=C, tol=1e-8, max_iter=1000).fit(scaled[:200], y[:200].numpy())
    logits = torch.from_numpy(oracle.decision_function(scaled[200:]))
    logits = torch.stack([torch.zeros_like(logits), logits], 1) if k == 2 else logits
    torch.testing.assert_close(
        membership(known)[200:].double(), (logits / temperature).softmax(1).double(), atol=0.02, rtol=0
    )


def test_the_figures_say_how_it_does_on_samples_without_label() -> None:
    x, y = world(4000, apart=0.7)
    known = from_few_labels(x, some(y, 400))
    posterior, truth = membership(known)[400:], y[400:]
    hits = (posterior.argmax(1) == truth).float()
    assert known.quality["accuracy"] == pytest.approx(float(hits.mean()), abs=0.05)
    assert known.quality["log_loss"] == pytest.approx(float(-posterior[range(3600), truth].log().mean()), abs=0.1)
    assert known.quality["labels"] == 400
    assert known.quality["mean_max"] == pytest.approx(float(posterior.amax(1).mean()))
    # Calibrated: as sure as it is right.
    assert known.quality["mean_max"] == pytest.approx(float(hits.mean()), abs=0.05)
    assert known.warnings == ()


def test_labelled_rows_are_given_or_cross_fitted() -> None:
    x, y = world()
    labels = some(y, 100)
    given, crossed = from_few_labels(x, labels), from_few_labels(x, labels, labelled="cross-fitted")
    assert torch.equal(membership(given)[:100].argmax(1), y[:100])
    assert bool((membership(given)[:100].amax(1) == 1).all())
    held_out = membership(crossed)[:100]
    assert float((held_out.argmax(1) == y[:100]).float().mean()) == pytest.approx(given.quality["accuracy"])
    assert bool((held_out.amax(1) < 1).any())
    assert torch.equal(membership(given)[100:], membership(crossed)[100:])


def test_a_wrong_label_does_not_teach_its_own_cross_fitted_row() -> None:
    x, y = world(apart=3.0)
    labels = some(y, 200)
    labels[0] = (y[0] + 1) % 4
    assert int(membership(from_few_labels(x, labels, labelled="cross-fitted"))[0].argmax()) == int(y[0])


def test_labelled_samples_may_lie_elsewhere_than_the_others() -> None:
    x, y = world(apart=2.0)
    x[:200] += 20
    known = from_few_labels(x, some(y, 200))
    assert known.quality["accuracy"] > 0.9


def test_a_few_right_labels_prove_no_certainty() -> None:
    x, y = world(400, apart=3.0)
    few = torch.where(torch.arange(400) < 24, y, -1)
    assert from_few_labels(x, few).quality["mean_max"] < 0.999


def test_one_label_of_a_class_is_never_held_out() -> None:
    x, y = world()
    labels = some(y, 60)
    labels[(labels == 3).nonzero().flatten()[1:]] = -1
    known = from_few_labels(x, labels, labelled="cross-fitted")
    assert "the smallest class has 1 labels" in known.warnings[0]
    alone = int((labels == 3).nonzero())
    assert membership(known)[alone].tolist() == [0, 0, 0, 1]


def test_one_label_of_each_class_is_enough_but_warned_of() -> None:
    x, y = world()
    labels = torch.full_like(y, -1)
    for c in range(4):
        labels[(y == c).nonzero()[0]] = c
    known = from_few_labels(x, labels)
    assert "accuracy" not in known.quality
    assert any("no class has two labels" in words for words in known.warnings)
    torch.testing.assert_close(membership(known).sum(1), torch.ones(600))


def test_classes_without_labels_get_nothing_and_a_warning() -> None:
    x, y = world(k=3)
    labels = some(torch.tensor([0, 2, 5])[y], 90)
    known = from_few_labels(x, labels, num_classes=7)
    assert membership(known).shape == (600, 7)
    assert membership(known).sum(0).gt(0).tolist() == [True, False, True, False, False, True, False]
    assert "4 of 7 classes have no label" in known.warnings[0]


def test_features_that_know_nothing_are_warned_of_and_stay_soft() -> None:
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randn(500, 50, generator=generator), torch.randint(3, (500,), generator=generator)
    known = from_few_labels(x, some(y, 100))
    assert known.quality["mean_max"] < 0.5


def test_equal_and_constant_features_are_no_error() -> None:
    y = torch.arange(60) % 3
    known = from_few_labels(np.full((60, 4), 3.1), some(y, 30))
    torch.testing.assert_close(membership(known)[30:], torch.full((30, 3), 1 / 3), atol=1e-3, rtol=0)
    assert "predicted no better than by their frequencies" in known.warnings[0]


def test_scale_dtype_and_kind_of_features_change_nothing() -> None:
    x, y = world(200)
    labels = some(y, 80)
    expected = membership(from_few_labels(x, labels))
    for same in (x.double().numpy(), x * 1e30, x * 1e-30, x.clone().requires_grad_()):
        result = membership(from_few_labels(same, labels.numpy()))
        assert result.dtype == torch.float32
        torch.testing.assert_close(result, expected, atol=0.02, rtol=0)


@pytest.mark.parametrize(
    ("features", "labels", "settings", "message"),
    [
        (torch.eye(3), [0, 0, -1], {}, "two classes or more"),
        (torch.eye(3), [-1, -1, -1], {}, "two classes or more"),
        (torch.eye(3), [0, 1, 2], {"num_classes": 2}, "two classes or more"),
        (torch.eye(3), [0, 1], {}, "one for each sample of 3"),
        (torch.eye(3) / 0, [0, 1, -1], {}, "features must be finite"),
        (torch.eye(3).int(), [0, 1, -1], {}, "floating-point"),
        (torch.zeros(3), [0, 1, -1], {}, r"shape \(n, d\)"),
        (torch.zeros(1, 3), [0], {}, "at least two rows"),
        (torch.eye(3), [0, 1, -1], {"labelled": "soft"}, "labelled must be"),
        (torch.eye(3), [0, 1, -1], {"folds": 1}, "folds at least 2"),
    ],
)
def test_bad_input_is_refused_in_one_line(
    features: Tensor, labels: Any, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message) as error:
        from_few_labels(features, labels, **settings)
    assert "\n" not in str(error.value)


def test_it_is_fast_enough_to_be_refreshed_during_training() -> None:
    x, y = world(5000, 256, 10, apart=0.2)
    start = time.perf_counter()
    from_few_labels(x, some(y, 500))
    assert time.perf_counter() - start < 5
