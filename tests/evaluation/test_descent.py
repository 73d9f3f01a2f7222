"""One pass serves many problems: it equals autograd, its memory is bounded, and the curvature inverts its model."""

import math
from functools import partial

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from debiased_contrastive.evaluation import descent, logistic
from debiased_contrastive.evaluation.descent import (
    CentredFeatures,
    Problems,
    Spectrum,
    centre,
    curvature_step,
    evaluate,
    second_moments,
)
from debiased_contrastive.evaluation.logistic import logistic_regressions
from tests.evaluation.clouds import clouds


def test_memory_is_bounded_without_a_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = clouds(100, 6, 2, spread=2.0)
    rows = torch.arange(100) % 15 != torch.arange(15).unsqueeze(1)
    solve = partial(logistic_regressions, x, y, rows, [1.0, 16.0, 256.0] * 5, tolerance=1e-20, max_passes=2000)
    whole = solve()
    sizes, logits = [], []
    original, tiles = descent.evaluate, descent._tiles

    def seen(features: CentredFeatures, problems: Problems, weights: Tensor, of: Tensor | None = None) -> object:
        sizes.append(len(problems.rows))
        return original(features, problems, weights, of)

    def seen_tiles(features: Tensor, count: int) -> list[slice]:
        found = tiles(features, count)
        logits.append(count * max(tile.stop - tile.start for tile in found))
        return found

    monkeypatch.setattr(descent, "evaluate", seen)
    monkeypatch.setattr(descent, "_tiles", seen_tiles)
    monkeypatch.setattr(descent, "BYTES", 4 * (2 * descent.MEMORY + 12) * 7 * 8)
    monkeypatch.setattr(logistic, "SMALLEST_GROUP", 100)
    torch.testing.assert_close(solve(), whole, atol=2e-6, rtol=1e-5)
    assert max(sizes) == 4
    assert max(logits) * 8 * 8 <= descent.BYTES


@pytest.mark.parametrize("elements", [1, 40, 2**20])
@pytest.mark.parametrize("classes", [2, 4])
def test_a_pass_equals_autograd(monkeypatch: pytest.MonkeyPatch, elements: int, classes: int) -> None:
    monkeypatch.setattr(descent, "ELEMENTS", elements)
    x, y = clouds(50, 6, classes)
    generator = torch.Generator().manual_seed(3)
    rows = torch.rand(3, 50, generator=generator, dtype=torch.float64)
    penalties = torch.tensor([0.1, 0.2, 0.3], dtype=torch.float64)
    problems = Problems(rows, rows.sum(1), y.unsqueeze(0), penalties)
    outputs = 1 if classes == 2 else classes
    starts = torch.randn(2, outputs, 7, generator=generator, dtype=torch.float64)
    of = torch.tensor([1, 0, 1])
    shared = centre(x, 3)
    points = evaluate(shared, problems, starts, of)
    torch.testing.assert_close(points, evaluate(shared, problems, starts[of]))
    for place in range(3):
        weights = starts[of[place]].clone().requires_grad_()
        logits = shared.x @ weights[:, :-1].T + weights[:, -1]
        both = torch.cat([torch.zeros_like(logits), logits], 1) if outputs == 1 else logits
        share = rows[place] / rows[place].sum()
        value = F.cross_entropy(both, y, reduction="none") @ share
        value = value + penalties[place] / 2 * weights[:, :-1].square().sum()
        (gradient,) = torch.autograd.grad(value, weights)
        p = both.detach().softmax(1)[:, -outputs:]
        assert float(points.values[place]) == pytest.approx(value.item(), rel=1e-12)
        torch.testing.assert_close(points.gradients[place], gradient)
        expected = p.T @ (share.unsqueeze(1) * -p) + (share @ p).diag()
        torch.testing.assert_close(points.covariances[place], expected)


@pytest.mark.parametrize("outputs", [1, 2, 3])
def test_a_pass_in_float32_resolves_confident_predictions(outputs: int) -> None:
    """Losses of 1e-7, which 1 - p rounds to zero."""
    x = torch.tensor([[16.0], [-16.0]], dtype=torch.float64)
    rows, penalties = torch.ones(1, 2), torch.tensor([1e-12])
    problems = Problems(rows, rows.sum(1), torch.tensor([[1, 0]]), penalties)
    weights = torch.tensor([[[-0.5, 0.0], [0.5, 0.0], [0.0, -40.0]]])[:, :outputs]
    weights = torch.tensor([[[1.0, 0.0]]]) if outputs == 1 else weights
    rounded = evaluate(CentredFeatures(x.float(), x.mean(0).float(), ()), problems, weights)
    doubled = Problems(*(part.double() if part.is_floating_point() else part for part in problems))
    points = evaluate(CentredFeatures(x, x.mean(0), ()), doubled, weights.double())
    assert float(points.values) == pytest.approx(math.log1p(math.exp(-16)), rel=1e-4)
    for one, other in zip(rounded, points, strict=True):
        torch.testing.assert_close(one.double(), other, rtol=1e-5, atol=1e-20)


@pytest.mark.parametrize("outputs", [1, 3])
def test_the_step_inverts_blocks_of_the_second_moments(outputs: int) -> None:
    generator = torch.Generator().manual_seed(0)
    basis = torch.linalg.qr(torch.randn(4, 4, generator=generator, dtype=torch.float64)).Q
    whole = Spectrum(torch.tensor([1.0, 2.0, 3.0, 4.0], dtype=torch.float64), basis, 0.0)
    part = Spectrum(torch.tensor([2.0, 3.0], dtype=torch.float64), basis[:, :2], 0.5)
    vectors = torch.randn(2, outputs, 9, generator=generator, dtype=torch.float64)
    factor = torch.randn(2, outputs, outputs, generator=generator, dtype=torch.float64)
    covariances, penalties = factor @ factor.mT, torch.tensor([0.1, 0.7], dtype=torch.float64)
    steps = curvature_step((whole, part), vectors, covariances, penalties)
    kept, eye = basis[:, :2], torch.eye(4, dtype=torch.float64)
    second = kept @ part.values.diag() @ kept.T + 0.5 * (eye - kept @ kept.T)
    moments = torch.block_diag(basis @ whole.values.diag() @ basis.T, second)
    for place in range(2):
        matrix = torch.kron(covariances[place], moments) + penalties[place] * torch.eye(8 * outputs)
        expected = torch.linalg.solve(matrix, vectors[place, :, :-1].flatten())
        torch.testing.assert_close(steps[place, :, :-1].flatten(), expected)
        expected = torch.linalg.solve(covariances[place], vectors[place, :, -1])
        torch.testing.assert_close(steps[place, :, -1], expected)


def test_the_first_step_is_newtons() -> None:
    x, y = clouds(50, 6, 4)
    features, zero = centre(x), torch.zeros(1, 4, 7, dtype=torch.float64)
    rows, penalties = torch.ones(1, 50, dtype=torch.float64), torch.tensor([0.2], dtype=torch.float64)
    here = evaluate(features, Problems(rows, rows.sum(1), y.unsqueeze(0), penalties), zero)

    def value(flat: Tensor) -> Tensor:
        w = flat.view(4, 7)
        logits = features.x @ w[:, :-1].T + w[:, -1]
        return F.cross_entropy(logits, y) + 0.1 * w[:, :-1].square().sum()

    hessian = torch.autograd.functional.hessian(value, zero.flatten())
    # A constant added to all intercepts changes nothing, hence the pseudo-inverse.
    newton = (torch.linalg.pinv(hessian, hermitian=True) @ here.gradients.flatten()).view_as(zero)
    step = curvature_step(features.blocks, here.gradients, here.covariances, penalties)
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
    penalties = torch.tensor([0.1], dtype=torch.float64)
    (step,) = curvature_step((moments,), gradient.unsqueeze(0), covariance.unsqueeze(0), penalties)
    whole = torch.kron(covariance, matrix) + 0.1 * torch.eye(10)
    torch.testing.assert_close(step[:, :-1].flatten(), torch.linalg.solve(whole, gradient[:, :-1].flatten()))
    torch.testing.assert_close(step[:, -1], torch.linalg.solve(covariance, gradient[:, -1]))
