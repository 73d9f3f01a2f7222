"""Logistic regression finds scikit-learn's optimum, whatever the data look like and whoever else is in the batch."""

import warnings
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from torch import Tensor
from torch.nn import functional as F

from debiased_contrastive.evaluation import descent, logistic
from debiased_contrastive.evaluation.descent import CentredFeatures, Problems, centre, second_moments
from debiased_contrastive.evaluation.logistic import logistic_regression, logistic_regressions
from tests.evaluation.clouds import clouds

PATH = [1.0, 16.0, 256.0]
exact = partial(logistic_regressions, tolerance=1e-20, max_passes=2000)
close = partial(torch.testing.assert_close, atol=2e-6, rtol=1e-5)


def objective(x: Tensor, y: Tensor, weight: Tensor, bias: Tensor, C: float) -> float:
    """C sum_i loss_i + 1/2 ||w||^2, sample by sample; w = w_1 - w_0 for two classes."""
    total = 0.0
    for row, label in zip(x.double().numpy(), y.tolist(), strict=True):
        logits = weight.double().numpy() @ row + bias.double().numpy()
        total += np.log(np.exp(logits - logits.max()).sum()) + logits.max() - logits[label]
    w = weight.double()
    square = (w[1] - w[0]).square().sum() if len(w) == 2 else w.square().sum()
    return float(C * total + 0.5 * square)


def oracle(x: Tensor, y: Tensor, C: float) -> tuple[Tensor, Tensor]:
    # The default solver stops a thousand times farther from the optimum, where depends on the processor.
    model = LogisticRegression(C=C, tol=1e-10, max_iter=5000, solver="newton-cholesky")
    model.fit(x.double().numpy(), y.numpy())
    weight, bias = torch.tensor(model.coef_), torch.tensor(model.intercept_)
    return (torch.cat([-weight, weight]) / 2, torch.cat([-bias, bias]) / 2) if len(weight) == 1 else (weight, bias)


@pytest.mark.parametrize("classes", [2, 3, 7])
@pytest.mark.parametrize("C", [0.01, 1.0, 30.0])
def test_it_is_the_optimum_of_scikit_learn(classes: int, C: float) -> None:
    x, y = clouds(240, 6, classes, spread=2.0)
    x = x * 3 + 5  # neither centred nor scaled
    weight, bias = logistic_regression(x, y, C, tolerance=1e-14)
    expected_weight, expected_bias = oracle(x, y, C)
    torch.testing.assert_close(weight, expected_weight, atol=2e-6, rtol=1e-5)
    torch.testing.assert_close(bias, expected_bias, atol=2e-5, rtol=1e-5)
    best = objective(x, y, expected_weight, expected_bias, C)
    assert objective(x, y, weight, bias, C) == pytest.approx(best, rel=1e-9)


@pytest.mark.parametrize("C", [0.01, 1.0])
def test_float32_is_close_enough(C: float) -> None:
    x, y = clouds(2000, 48, 5, spread=3.0, decay=1.0)
    x = (x - x.mean(0)) / x.std(0)
    train, test = slice(0, 1500), slice(1500, None)
    weight, bias = logistic_regression(x[train].float(), y[train], C)
    assert weight.dtype == bias.dtype == torch.float32
    expected = oracle(x[train], y[train], C)
    assert objective(x[train], y[train], weight, bias, C) == pytest.approx(
        objective(x[train], y[train], *expected, C), rel=1e-4
    )

    def hits(weight: Tensor, bias: Tensor) -> int:
        return int(((x[test] @ weight.double().T + bias.double()).argmax(1) == y[test]).sum())

    assert abs(hits(weight, bias) - hits(*expected)) <= 1


@pytest.mark.parametrize("limit", [4096, 16])
@pytest.mark.parametrize(("n", "d"), [(60, 90), (200, 40)])
def test_wide_features(monkeypatch: pytest.MonkeyPatch, n: int, d: int, limit: int) -> None:
    """More features than samples, or than the second moments are taken of."""
    monkeypatch.setattr(descent, "LARGEST_EXACT", limit)
    x, y = clouds(n, d, 3, spread=3.0, decay=0.5)
    assert len(second_moments(x - x.mean(0)).values) < d or n > d
    weight, bias = logistic_regression(x, y, 0.5, tolerance=1e-14)
    expected = oracle(x, y, 0.5)
    torch.testing.assert_close(weight, expected[0], atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(bias, expected[1], atol=1e-6, rtol=1e-5)


def test_rare_classes_and_separable_data() -> None:
    x, y = clouds(300, 5, 3, spread=0.05)
    keep = (y != 2) | (torch.arange(300) < 12)
    weight, bias = logistic_regression(x[keep], y[keep], 1e4, tolerance=1e-12)
    expected = oracle(x[keep], y[keep], 1e4)
    assert objective(x[keep], y[keep], weight, bias, 1e4) == pytest.approx(
        objective(x[keep], y[keep], *expected, 1e4), rel=1e-6
    )


@pytest.mark.parametrize("C", [1.0, 1e4])
def test_float32_keeps_what_separable_data_leave_of_the_loss(C: float) -> None:
    x, y = clouds(400, 8, 5, spread=0.1)
    weight, bias = logistic_regression(x.float(), y, C)
    exact = logistic_regression(x, y, C, tolerance=1e-12)
    assert objective(x, y, weight, bias, C) == pytest.approx(objective(x, y, *exact, C), rel=1e-4)


def test_laws() -> None:
    x, y = clouds(150, 4, 3, spread=2.0)

    def fit(x: Tensor, y: Tensor, C: float = 0.1) -> tuple[Tensor, Tensor]:
        return logistic_regression(x, y, C, tolerance=1e-15)

    weight, bias = fit(x, y)
    close = partial(torch.testing.assert_close, atol=1e-7, rtol=1e-6)
    close(weight.sum(0), torch.zeros_like(weight[0]))
    close(fit(x + 7, y)[0], weight)
    close(fit(x.flip(0), y.flip(0)), (weight, bias))
    close(fit(10 * x, y, 0.001)[0], weight / 10)
    close(fit(x, (y + 1) % 3)[0], weight.roll(1, 0))


def test_it_says_when_it_did_not_finish() -> None:
    x, y = clouds(100, 8, 3, spread=2.0)
    with pytest.warns(RuntimeWarning, match="raise max_passes or lower C"):
        logistic_regression(x, y, 10.0, tolerance=1e-12, max_passes=3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # More than float32 can tell: it stops where rounding hides the way, without a complaint.
        weight, _ = logistic_regression(x.float(), y, 10.0, tolerance=1e-30)
    torch.testing.assert_close(weight.double(), oracle(x, y, 10.0)[0], atol=2e-3, rtol=1e-2)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"C": 0.0}, "C must be positive and finite; got 0.0"),
        ({"C": float("nan")}, "C must be positive and finite; got nan"),
        ({"tolerance": 0.0}, "tolerance and max_passes must be positive; got 0.0 and 500"),
        ({"max_passes": 0}, "got 1e-05 and 0"),
        ({"labels": torch.tensor([0, 0, 2, 2])}, r"each with a training sample; got 3, without samples: \[1\]"),
        ({"labels": torch.tensor([0, 0, 0, 0])}, "there must be two classes or more"),
        ({"labels": torch.tensor([0, 1])}, r"one for each of the 4 samples; got torch.int64 \(2,\)"),
        ({"labels": torch.tensor([0, 0, 1, -1])}, "labels must be at least 0; got -1"),
        ({"features": torch.ones(4)}, r"shape \(n, d\)"),
        ({"features": torch.full((4, 2), torch.inf)}, "NaN or inf in 4 of 4 rows"),
    ],
)
def test_bad_input(changes: dict[str, object], message: str) -> None:
    arguments = {"features": torch.randn(4, 2), "labels": torch.tensor([0, 0, 1, 1]), **changes}
    with pytest.raises(ValueError, match=message):
        logistic_regression(**arguments)  # type: ignore[arg-type]


# Many at once


def weighted_oracle(x: Tensor, y: Tensor, rows: Tensor, C: float) -> tuple[Tensor, Tensor]:
    weights, used = rows.double().numpy(), (rows > 0).numpy()
    # Its only solver that is exact also along directions that nothing but the penalty bends.
    model = LogisticRegression(C=C, solver="newton-cholesky", tol=1e-10, max_iter=1000)
    model.fit(x.double().numpy()[used], y.numpy()[used], weights[used])
    return torch.tensor(model.coef_), torch.tensor(model.intercept_)


def oracles(x: Tensor, y: Tensor, rows: Tensor, C: list[float]) -> tuple[Tensor, Tensor]:
    """One problem at a time; labels (n,) or (p, n)."""
    labels = y.expand(len(rows), -1)
    found = [weighted_oracle(x, *problem) for problem in zip(labels, rows, C, strict=True)]
    return torch.stack([weight for weight, _ in found]), torch.stack([bias for _, bias in found])


def folds(n: int, count: int) -> Tensor:
    """(count, n) masks without every count-th sample."""
    return torch.arange(n) % count != torch.arange(count).unsqueeze(1)


def batch(n: int, count: int) -> tuple[Tensor, list[float]]:
    """Masks of folds, and C, for all folds and all C."""
    return folds(n, count).repeat_interleave(len(PATH), 0), PATH * count


@pytest.mark.parametrize("classes", [2, 4])
def test_all_folds_and_regularisations_have_scikit_learns_optimum(classes: int) -> None:
    x, y = clouds(240, 6, classes, spread=2.0)
    x = x * 3 + 5  # neither centred nor scaled
    rows, C = batch(240, 5)
    weights, biases = exact(x, y, rows, C)
    assert weights.shape == (15, 1 if classes == 2 else classes, 6)
    expected = oracles(x, y, rows, C)
    close(weights, expected[0])
    close(biases, expected[1], atol=2e-5)


def test_weights_of_samples_and_labels_of_each_problem() -> None:
    x, y = clouds(150, 5, 3, spread=2.0)
    rows = torch.rand(6, 150, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * 3
    rows[rows < 1] = 0
    one_against_the_rest = (y == torch.arange(3).unsqueeze(1)).to(torch.int8).repeat(2, 1)
    C = [1.0] * 3 + [30.0] * 3
    weights, biases = exact(x, one_against_the_rest, rows, C)
    expected = oracles(x, one_against_the_rest, rows, C)
    close(weights, expected[0])
    close(biases, expected[1])


def hard_sets() -> dict[str, tuple[Tensor, Tensor]]:
    x, y = clouds(200, 5, 2, spread=2.0)
    rare = (y == 0) | (torch.arange(200) < 12)
    constant = torch.cat([x, torch.full((200, 2), 0.1, dtype=torch.float64), x[:, :1]], 1)
    return {
        "separable": clouds(200, 5, 2, spread=0.05),
        "rare class": (x[rare], y[rare]),
        "constant and double features": (constant, y),
        "more features than samples": clouds(60, 90, 2, spread=3.0, decay=0.5),
        "decaying scales": clouds(200, 30, 2, spread=2.0, decay=1.0),
    }


@pytest.mark.parametrize("name", hard_sets())
@pytest.mark.parametrize("known", ["whole", "in blocks", "in part"])
def test_hard_sets(monkeypatch: pytest.MonkeyPatch, name: str, known: str) -> None:
    """However well the second moments are known."""
    x, y = hard_sets()[name]
    rows, C = batch(len(x), 4)
    if known == "in blocks":
        monkeypatch.setattr(descent, "MOMENT_PASSES", 4 * 7**2 / (len(C) * len(x)))
        assert max(len(block.vectors) for block in centre(x, len(C)).blocks) <= 7
    if known == "in part":
        monkeypatch.setattr(descent, "LARGEST_EXACT", 16)
        assert centre(x, len(C)).blocks[0].rest > 0 or x.shape[1] <= 16
    weights, biases = exact(x, y, rows, C)
    expected = oracles(x, y, rows, C)
    close(weights, expected[0], atol=1e-4, rtol=1e-4)
    close(biases, expected[1], atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize("classes", [2, 3])
def test_float32_answers_as_the_optimum_does(classes: int) -> None:
    x, y = clouds(1200, 40, classes, spread=3.0, decay=1.0)
    rows, C = batch(1200, 4)
    weights, biases = logistic_regressions(x.float(), y, rows, C)
    assert weights.dtype == biases.dtype == torch.float32
    best = exact(x, y, rows, C)
    assert values(x, y, rows, C, weights, biases) == pytest.approx(values(x, y, rows, C, *best), abs=1e-4)


def values(x: Tensor, y: Tensor, rows: Tensor, C: list[float], weights: Tensor, biases: Tensor) -> list[float]:
    """Of the objectives, in nats a sample."""
    found = []
    for kept, c, weight, bias in zip(rows, C, weights.double(), biases.double(), strict=True):
        logits = x[kept] @ weight.T + bias
        logits = torch.cat([torch.zeros_like(logits), logits], 1) if len(weight) == 1 else logits
        penalty = weight.square().sum() / 2 / (c * kept.sum())
        found.append(float(F.cross_entropy(logits, y[kept]) + penalty))
    return found


@given(seed=st.integers(0, 10**6), classes=st.sampled_from([2, 3]), members=st.integers(1, 6))
@settings(max_examples=20)
def test_the_other_problems_do_not_matter(seed: int, classes: int, members: int) -> None:
    """Their order, their number, and whether they start together."""
    x, y = clouds(60, 4, classes, seed=seed, spread=2.0)
    generator = torch.Generator().manual_seed(seed)
    rows = torch.rand(members, 60, generator=generator, dtype=torch.float64).repeat_interleave(2, 0)
    C = [1.0, 40.0] * members
    weights, biases = exact(x, y, rows, C)
    order = torch.randperm(len(C), generator=generator)
    close(exact(x, y, rows[order], [C[place] for place in order]), (weights[order], biases[order]))
    alone = exact(x, y, rows[:1], C[:1])
    close(alone, (weights[:1], biases[:1]))
    twice = exact(x, y, torch.cat([rows, 2 * rows]), C + [c / 2 for c in C])
    close(twice[0], weights.repeat(2, 1, 1))


@given(seed=st.integers(0, 10**6))
@settings(max_examples=10)
def test_laws_of_many(seed: int) -> None:
    x, y = clouds(80, 4, 3, seed=seed, spread=2.0)
    rows, C = batch(80, 4)
    weights, biases = exact(x, y, rows, C)
    close(exact(x + 7, y, rows, C)[0], weights)
    close(exact(10 * x, y, rows, [c / 100 for c in C])[0], weights / 10)
    close(weights.sum(1), torch.zeros_like(weights[:, 0]))
    close(biases.sum(1), torch.zeros_like(biases[:, 0]))
    close(exact(x.flip(0), y.flip(0), rows.flip(1), C), (weights, biases))
    close(exact(x, (y + 1) % 3, rows, C)[0], weights.roll(1, 1))
    used = rows[0]
    close(exact(x[used], y[used], torch.ones(1, int(used.sum())), C[:1])[0], weights[:1])


def test_problems_that_start_together_take_fewer_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = clouds(400, 20, 2, spread=3.0)
    rows, C = batch(400, 10)
    original = descent.evaluate
    counts = {}
    for members in (4, 1000):
        seen: list[int] = []

        def counted(features: CentredFeatures, problems: Problems, *rest: Tensor, seen: list[int] = seen) -> object:
            seen.append(len(problems.rows))
            return original(features, problems, *rest)

        monkeypatch.setattr(descent, "evaluate", counted)
        monkeypatch.setattr(logistic, "SMALLEST_GROUP", members)
        logistic_regressions(x, y, rows, C)
        counts[members] = sum(seen)
    assert counts[4] < 0.9 * counts[1000]


def test_it_goes_on_from_other_solutions(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = clouds(200, 8, 2, spread=2.0)
    rows, C = batch(200, 5)
    shared = centre(x + 3, len(C))
    solved = logistic_regressions(shared, y, rows, C, tolerance=1e-20)
    passes: list[int] = []
    original = descent.evaluate

    def counted(features: CentredFeatures, problems: Problems, *rest: Tensor) -> object:
        passes.append(len(problems.rows))
        return original(features, problems, *rest)

    monkeypatch.setattr(descent, "evaluate", counted)
    close(logistic_regressions(shared, y, rows, C, tolerance=1e-15, starts=solved), solved)
    assert passes == [len(C)]


def test_it_shows_what_is_solved_and_says_what_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = clouds(100, 8, 2, spread=2.0)
    rows, C = batch(100, 4)
    monkeypatch.setattr(descent, "BYTES", 5 * (2 * descent.MEMORY + 12) * 9 * 8)
    seen: list[int] = []
    exact(x, y, rows, C, progress=seen.append)
    assert seen == sorted(seen)
    assert seen[-1] == len(C)
    with pytest.warns(RuntimeWarning, match=r"\d+ of 12 logistic regressions stopped after 3 passes, .*lower C"):
        exact(x, y, rows, C, max_passes=3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # More than float32 can tell: it stops where rounding hides the way, without a complaint.
        weights, _ = logistic_regressions(x.float(), y, rows, C, tolerance=1e-30)
    torch.testing.assert_close(weights.double(), exact(x, y, rows, C)[0], atol=2e-3, rtol=1e-2)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"C": [1.0, 0.0]}, "C must be positive and finite; got 0.0"),
        ({"tolerance": 0.0}, "tolerance and max_passes must be positive; got 0.0 and 500"),
        ({"C": [1.0]}, r"rows must be a mask, .* shape \(1, 4\).*; got torch.float32 \(2, 4\)"),
        ({"C": [], "rows": torch.ones(0, 4)}, "a row for each C"),
        ({"rows": torch.ones(2, 3)}, r"with shape \(2, 4\)"),
        ({"rows": -torch.ones(2, 4)}, "weights of at least 0"),
        ({"labels": torch.tensor([0, 1])}, r"shape \(4,\), or \(2, 4\) .*; got torch.int64 \(2,\)"),
        ({"labels": torch.tensor([0.0, 0.0, 1.0, 1.0])}, "labels must be integers"),
        ({"labels": torch.tensor([0, 0, 1, -1])}, "labels must be at least 0; got -1"),
        ({"labels": torch.tensor([0, 0, 0, 0])}, r"got none of class 1 in 2 of 2 problems, first in number 0"),
        (
            {"rows": torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0]])},
            r"a training sample of each of 2 classes; got none of class 1 in 1 of 2 problems, first in number 1: use",
        ),
        ({"features": torch.ones(4)}, r"shape \(n, d\)"),
        ({"features": torch.full((4, 2), torch.inf)}, "NaN or inf in 4 of 4 rows"),
    ],
)
def test_bad_input_of_many(changes: dict[str, object], message: str) -> None:
    arguments = {
        "features": torch.randn(4, 2),
        "labels": torch.tensor([0, 0, 1, 1]),
        "rows": torch.ones(2, 4),
        "C": [1.0, 2.0],
        **changes,
    }
    with pytest.raises(ValueError, match=message) as caught:
        logistic_regressions(**arguments)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)
