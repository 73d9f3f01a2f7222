"""Logistic regression finds scikit-learn's optimum, whatever the width, scale or layout of the data."""

import math
import warnings
from functools import partial

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from torch import Tensor

from debiased_contrastive.evaluation import curvature, logistic
from debiased_contrastive.evaluation.curvature import Spectrum, curvature_step, second_moments
from debiased_contrastive.evaluation.logistic import Problem, evaluated, logistic_regression
from tests.evaluation.clouds import clouds


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
    monkeypatch.setattr(curvature, "LARGEST_EXACT", limit)
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


def test_a_pass_in_float32_resolves_confident_predictions() -> None:
    """Losses of 1e-7, which 1 - p rounds to zero."""
    x = torch.tensor([[16.0], [-16.0]], dtype=torch.float64)
    y, weights = torch.tensor([1, 0]), torch.tensor([[-0.5, 0.0], [0.5, 0.0]], dtype=torch.float64)
    moments = second_moments(x)
    exact = evaluated(Problem(x, y, moments, 1e-12), weights)
    rounded = evaluated(Problem(x.float(), y, moments, 1e-12), weights.float())
    assert exact.value == pytest.approx(math.log1p(math.exp(-16)), rel=1e-5)
    assert rounded.value == pytest.approx(exact.value, rel=1e-5)
    torch.testing.assert_close(rounded.gradient.double(), exact.gradient, rtol=1e-5, atol=0)
    torch.testing.assert_close(rounded.covariance.double(), exact.covariance, rtol=1e-5, atol=0)


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


def problem(n: int = 50, d: int = 6, classes: int = 4) -> tuple[Problem, Tensor]:
    x, y = clouds(n, d, classes)
    x = x - x.mean(0)
    weights = torch.randn(classes, d + 1, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    return Problem(x, y, second_moments(x), 0.2), weights


@pytest.mark.parametrize("elements", [1, 40, 2**20])
def test_a_pass_equals_autograd(monkeypatch: pytest.MonkeyPatch, elements: int) -> None:
    monkeypatch.setattr(logistic, "ELEMENTS", elements)
    task, weights = problem()
    x, y = task.features, task.labels
    weights.requires_grad_()
    logits = x @ weights[:, :-1].T + weights[:, -1]
    value = torch.nn.functional.cross_entropy(logits, y) + 0.1 * weights[:, :-1].square().sum()
    (gradient,) = torch.autograd.grad(value, weights)
    p = logits.softmax(1).detach()
    point = evaluated(task, weights.detach())
    assert point.value == pytest.approx(value.item(), rel=1e-12)
    torch.testing.assert_close(point.gradient, gradient)
    torch.testing.assert_close(point.covariance, torch.stack([q.diag() - q.outer(q) for q in p]).mean(0))


def test_the_first_step_is_newtons() -> None:
    task, weights = problem()
    here = evaluated(task, torch.zeros_like(weights))

    def value(flat: Tensor) -> Tensor:
        w = flat.view_as(weights)
        logits = task.features @ w[:, :-1].T + w[:, -1]
        return torch.nn.functional.cross_entropy(logits, task.labels) + 0.1 * w[:, :-1].square().sum()

    hessian = torch.autograd.functional.hessian(value, torch.zeros(weights.numel(), dtype=torch.float64))
    # A constant added to all intercepts changes nothing, hence the pseudo-inverse.
    newton = (torch.linalg.pinv(hessian, hermitian=True) @ here.gradient.flatten()).view_as(weights)
    step = curvature_step(here.gradient, here.covariance, task.moments, task.penalty)
    torch.testing.assert_close(step, newton)


def test_a_partial_spectrum_keeps_the_variance() -> None:
    x, _ = clouds(20, 30, 3, decay=0.5)
    values, vectors, rest = second_moments(x)
    torch.testing.assert_close(vectors.T @ vectors, torch.eye(10, dtype=torch.float64))
    torch.testing.assert_close(values, torch.linalg.eigvalsh(x.T @ x / 20)[-10:])
    assert float(values.sum()) + 20 * rest == pytest.approx(float(x.square().sum()) / 20)


def test_a_partial_spectrum_stands_for_a_matrix() -> None:
    generator = torch.Generator().manual_seed(0)
    vectors = torch.linalg.qr(torch.randn(5, 2, generator=generator, dtype=torch.float64)).Q
    moments = Spectrum(torch.tensor([2.0, 3.0], dtype=torch.float64), vectors, 0.5)
    matrix = vectors @ moments.values.diag() @ vectors.T + 0.5 * (torch.eye(5) - vectors @ vectors.T)
    covariance = torch.tensor([[0.3, 0.1], [0.1, 0.2]], dtype=torch.float64)
    gradient = torch.randn(2, 6, generator=generator, dtype=torch.float64)
    step = curvature_step(gradient, covariance, moments, 0.1)
    whole = torch.kron(covariance, matrix) + 0.1 * torch.eye(10)
    torch.testing.assert_close(step[:, :-1].flatten(), torch.linalg.solve(whole, gradient[:, :-1].flatten()))
    torch.testing.assert_close(step[:, -1], torch.linalg.solve(covariance, gradient[:, -1]))


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
