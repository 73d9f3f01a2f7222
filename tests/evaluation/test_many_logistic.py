"""Every problem of a batch has scikit-learn's optimum, whoever else is in the batch."""

import math
import warnings
from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from torch import Tensor
from torch.nn import functional as F

from debiased_contrastive.evaluation import curvature, many_logistic
from debiased_contrastive.evaluation.curvature import Spectrum
from debiased_contrastive.evaluation.many_logistic import (
    Problems,
    Shared,
    _curvature_step,
    evaluated,
    many_logistic_regressions,
    shared_by,
    solutions,
)
from tests.evaluation.clouds import clouds

PATH = [1.0, 16.0, 256.0]
exact = partial(many_logistic_regressions, tolerance=1e-20, max_passes=2000)
close = partial(torch.testing.assert_close, atol=2e-6, rtol=1e-5)


def oracle(x: Tensor, y: Tensor, rows: Tensor, C: float) -> tuple[Tensor, Tensor]:
    weights, used = rows.double().numpy(), (rows > 0).numpy()
    # Its only solver that is exact also along directions that nothing but the penalty bends.
    model = LogisticRegression(C=C, solver="newton-cholesky", tol=1e-10, max_iter=1000)
    model.fit(x.double().numpy()[used], y.numpy()[used], weights[used])
    return torch.tensor(model.coef_), torch.tensor(model.intercept_)


def oracles(x: Tensor, y: Tensor, rows: Tensor, C: list[float]) -> tuple[Tensor, Tensor]:
    """One problem at a time; labels (n,) or (p, n)."""
    labels = y.expand(len(rows), -1)
    found = [oracle(x, *problem) for problem in zip(labels, rows, C, strict=True)]
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
        monkeypatch.setattr(many_logistic, "PASSES", 4 * 7**2 / (len(C) * len(x)))
        assert max(len(block.vectors) for block in shared_by(len(C), x).blocks) <= 7
    if known == "in part":
        monkeypatch.setattr(curvature, "LARGEST_EXACT", 16)
        assert shared_by(len(C), x).blocks[0].rest > 0 or x.shape[1] <= 16
    weights, biases = exact(x, y, rows, C)
    expected = oracles(x, y, rows, C)
    close(weights, expected[0], atol=1e-4, rtol=1e-4)
    close(biases, expected[1], atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize("classes", [2, 3])
def test_float32_answers_as_the_optimum_does(classes: int) -> None:
    x, y = clouds(1200, 40, classes, spread=3.0, decay=1.0)
    rows, C = batch(1200, 4)
    weights, biases = many_logistic_regressions(x.float(), y, rows, C)
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
def test_laws(seed: int) -> None:
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


def test_memory_is_bounded_without_a_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = clouds(100, 6, 2, spread=2.0)
    rows, C = batch(100, 5)
    whole = exact(x, y, rows, C)
    sizes, logits = [], []
    original, tiles = many_logistic.evaluated, many_logistic._tiles

    def seen(shared: Shared, problems: Problems, weights: Tensor, of: Tensor | None = None) -> object:
        sizes.append(len(problems.rows))
        return original(shared, problems, weights, of)

    def seen_tiles(features: Tensor, count: int) -> list[slice]:
        found = tiles(features, count)
        logits.append(count * max(tile.stop - tile.start for tile in found))
        return found

    monkeypatch.setattr(many_logistic, "evaluated", seen)
    monkeypatch.setattr(many_logistic, "_tiles", seen_tiles)
    monkeypatch.setattr(many_logistic, "BYTES", 4 * 32 * 7 * 8)
    monkeypatch.setattr(many_logistic, "MEMBERS", 100)
    close(exact(x, y, rows, C), whole)
    assert max(sizes) == 4
    assert max(logits) * 8 * 8 <= many_logistic.BYTES


@pytest.mark.parametrize("elements", [1, 40, 2**20])
@pytest.mark.parametrize("classes", [2, 4])
def test_a_pass_equals_autograd(monkeypatch: pytest.MonkeyPatch, elements: int, classes: int) -> None:
    monkeypatch.setattr(many_logistic, "ELEMENTS", elements)
    x, y = clouds(50, 6, classes)
    generator = torch.Generator().manual_seed(3)
    rows = torch.rand(3, 50, generator=generator, dtype=torch.float64)
    penalties = torch.tensor([0.1, 0.2, 0.3], dtype=torch.float64)
    problems = Problems(rows, rows.sum(1), y.unsqueeze(0), penalties)
    outputs = 1 if classes == 2 else classes
    starts = torch.randn(2, outputs, 7, generator=generator, dtype=torch.float64)
    of = torch.tensor([1, 0, 1])
    shared = shared_by(3, x)
    points = evaluated(shared, problems, starts, of)
    torch.testing.assert_close(points, evaluated(shared, problems, starts[of]))
    for place in range(3):
        weights = starts[of[place]].clone().requires_grad_()
        logits = shared.features @ weights[:, :-1].T + weights[:, -1]
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


@pytest.mark.parametrize("outputs", [1, 3])
def test_a_pass_in_float32_resolves_confident_predictions(outputs: int) -> None:
    """Losses of 1e-7, which 1 - p rounds to zero."""
    x = torch.tensor([[16.0], [-16.0]], dtype=torch.float64)
    rows, penalties = torch.ones(1, 2), torch.tensor([1e-12])
    problems = Problems(rows, rows.sum(1), torch.tensor([[1, 0]]), penalties)
    weights = (
        torch.tensor([[[1.0, 0.0]]]) if outputs == 1 else torch.tensor([[[-0.5, 0.0], [0.5, 0.0], [0.0, -40.0]]])
    )
    rounded = evaluated(Shared(x.float(), x.mean(0).float(), ()), problems, weights)
    doubled = Problems(*(part.double() if part.is_floating_point() else part for part in problems))
    points = evaluated(Shared(x, x.mean(0), ()), doubled, weights.double())
    assert float(points.values) == pytest.approx(math.log1p(math.exp(-16)), rel=1e-4)
    for one, other in zip(rounded, points, strict=True):
        torch.testing.assert_close(one.double(), other, rtol=1e-5, atol=1e-20)


@pytest.mark.parametrize("outputs", [1, 3])
def test_the_step_inverts_blocks_of_the_second_moments(outputs: int) -> None:
    generator = torch.Generator().manual_seed(0)
    basis = torch.linalg.qr(torch.randn(4, 4, generator=generator, dtype=torch.float64)).Q
    whole = Spectrum(torch.tensor([1.0, 2.0, 3.0, 4.0], dtype=torch.float64), basis, 0.0)
    part = Spectrum(torch.tensor([2.0, 3.0], dtype=torch.float64), basis[:, :2], 0.5)
    shared = Shared(torch.zeros(1, 8), torch.zeros(8), (whole, part))
    vectors = torch.randn(2, outputs, 9, generator=generator, dtype=torch.float64)
    factor = torch.randn(2, outputs, outputs, generator=generator, dtype=torch.float64)
    covariances, penalties = factor @ factor.mT, torch.tensor([0.1, 0.7], dtype=torch.float64)
    steps = _curvature_step(shared, vectors, covariances, penalties)
    kept, eye = basis[:, :2], torch.eye(4, dtype=torch.float64)
    second = kept @ part.values.diag() @ kept.T + 0.5 * (eye - kept @ kept.T)
    moments = torch.block_diag(basis @ whole.values.diag() @ basis.T, second)
    for place in range(2):
        matrix = torch.kron(covariances[place], moments) + penalties[place] * torch.eye(8 * outputs)
        expected = torch.linalg.solve(matrix, vectors[place, :, :-1].flatten())
        torch.testing.assert_close(steps[place, :, :-1].flatten(), expected)
        expected = torch.linalg.solve(covariances[place], vectors[place, :, -1])
        torch.testing.assert_close(steps[place, :, -1], expected)


def test_problems_that_start_together_take_fewer_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = clouds(400, 20, 2, spread=3.0)
    rows, C = batch(400, 10)
    original = many_logistic.evaluated
    counts = {}
    for members in (4, 1000):
        seen: list[int] = []

        def counted(shared: Shared, problems: Problems, *rest: Tensor, seen: list[int] = seen) -> object:
            seen.append(len(problems.rows))
            return original(shared, problems, *rest)

        monkeypatch.setattr(many_logistic, "evaluated", counted)
        monkeypatch.setattr(many_logistic, "MEMBERS", members)
        many_logistic_regressions(x, y, rows, C)
        counts[members] = sum(seen)
    assert counts[4] < 0.9 * counts[1000]


def test_it_goes_on_from_other_solutions(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = clouds(200, 8, 2, spread=2.0)
    rows, C = batch(200, 5)
    shared = shared_by(len(C), x + 3)
    solved = solutions(shared, y, rows, C, tolerance=1e-20)
    passes: list[int] = []
    original = many_logistic.evaluated

    def counted(shared: Shared, problems: Problems, *rest: Tensor) -> object:
        passes.append(len(problems.rows))
        return original(shared, problems, *rest)

    monkeypatch.setattr(many_logistic, "evaluated", counted)
    close(solutions(shared, y, rows, C, tolerance=1e-15, starts=solved), solved)
    assert passes == [len(C)]


def test_it_shows_what_is_solved_and_says_what_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = clouds(100, 8, 2, spread=2.0)
    rows, C = batch(100, 4)
    monkeypatch.setattr(many_logistic, "BYTES", 5 * 32 * 9 * 8)
    seen: list[int] = []
    exact(x, y, rows, C, shown=seen.append)
    assert seen == sorted(seen)
    assert seen[-1] == len(C)
    with pytest.warns(RuntimeWarning, match=r"\d+ of 12 logistic regressions stopped after 3 passes, .*lower C"):
        exact(x, y, rows, C, max_passes=3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # More than float32 can tell: it stops where rounding hides the way, without a complaint.
        weights, _ = many_logistic_regressions(x.float(), y, rows, C, tolerance=1e-30)
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
def test_bad_input(changes: dict[str, object], message: str) -> None:
    arguments = {
        "features": torch.randn(4, 2),
        "labels": torch.tensor([0, 0, 1, 1]),
        "rows": torch.ones(2, 4),
        "C": [1.0, 2.0],
        **changes,
    }
    with pytest.raises(ValueError, match=message) as caught:
        many_logistic_regressions(**arguments)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)
