"""The protocol is the one that scikit-learn's parts make: same folds, same C, same scores."""

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score
from sklearn.model_selection import KFold
from sklearn.multiclass import OneVsRestClassifier
from torch import Tensor

from debiased_contrastive.runs import new_run
from debiased_contrastive.text import tasks as sentence_tasks
from debiased_contrastive.text.task_files import SentenceTask as Task
from debiased_contrastive.text.tasks import (
    TaskScore,
    evaluate_sentences,
    fold_masks,
    inner_fold_masks,
    write_scores,
)
from tests.evaluation.clouds import clouds

PATH = (1.0, 4.0, 64.0)
FOLDS = 4


class Book:
    """Vectors by sentence: an encoder that knows what it is asked."""

    def __init__(self) -> None:
        self.vectors: dict[str, Tensor] = {}
        self.calls = 0

    def add(self, vectors: Tensor) -> list[str]:
        sentences = [f"sentence {len(self.vectors) + place}" for place in range(len(vectors))]
        self.vectors |= dict(zip(sentences, vectors, strict=True))
        return sentences

    def __call__(self, sentences: list[str]) -> Tensor:
        self.calls += 1
        return torch.stack([self.vectors[sentence] for sentence in sentences])


def cv_task(book: Book, n: int = 123, classes: int = 2, seed: int = 0) -> Task:
    x, y = clouds(n, 6, classes, seed=seed, spread=3.0)
    return Task("cv", "cv", book.add(x), y.tolist())


def split_task(book: Book, classes: int = 3) -> Task:
    x, y = clouds(101, 6, classes, seed=1, spread=3.0)
    test, test_y = clouds(60, 6, classes, seed=2, spread=3.0)
    return Task("split", "split", book.add(x), y.tolist(), (), book.add(test), test_y.tolist())


def pairs_task(book: Book) -> Task:
    generator = torch.Generator().manual_seed(0)
    u, v = torch.randn(2, 150, 5, generator=generator, dtype=torch.float64)
    alike = torch.rand(150, generator=generator) < 0.6
    v = torch.where(alike.unsqueeze(1), 0.5 * v + 0.5 * u, v)
    y = alike.long().tolist()
    first, second = book.add(u), book.add(v)
    return Task("pairs", "pairs", first[:97], y[:97], second[:97], first[97:], y[97:], second[97:])


def plain(task: Task, book: Book, path: Sequence[float], folds: int, seed: int = 1234) -> TaskScore:
    """The protocol as one would write it, fit by fit."""

    def vectors(sentences: Sequence[str], partners: Sequence[str]) -> npt.NDArray[Any]:
        u = book(list(sentences)).numpy()
        return np.c_[abs(u - (v := book(list(partners)).numpy())), u * v] if partners else u

    order = np.random.RandomState(seed).permutation(len(task.labels))
    x, y = vectors(task.sentences, task.partners)[order], np.array(task.labels)[order]

    def predicted(fit: npt.NDArray[Any], rows: npt.NDArray[Any], target: npt.NDArray[Any], C: float) -> Any:
        model = LogisticRegression(C=C, solver="newton-cholesky", tol=1e-10, max_iter=1000)
        return (OneVsRestClassifier(model) if target.max() > 1 else model).fit(fit, target).predict(rows)

    def chosen(x: npt.NDArray[Any], y: npt.NDArray[Any]) -> tuple[float, dict[float, float]]:
        means = {}
        for C in path:
            scores = []
            for fit, held in KFold(folds).split(x):
                found = predicted(x[fit], x[held], y[fit], C)
                scores.append(f1_score(y[held], found) if task.kind == "pairs" else np.mean(found == y[held]))
            means[C] = float(np.mean(scores))
        return list(path)[int(np.argmax(list(means.values())))], means

    if task.kind == "cv":
        scores, choices = [], []
        for fit, held in KFold(folds).split(x):
            choices.append(chosen(x[fit], y[fit]))
            scores.append(float(np.mean(predicted(x[fit], x[held], y[fit], choices[-1][0]) == y[held])))
        best, validation = zip(*choices, strict=True)
        return TaskScore(task.name, float(np.mean(scores)), None, tuple(scores), best, validation)
    C, means = chosen(x, y)
    test, test_y = vectors(task.test_sentences, task.test_partners), np.array(task.test_labels)
    found = predicted(x, test, y, C)
    f1 = float(f1_score(test_y, found)) if task.kind == "pairs" else None
    return TaskScore(task.name, float(np.mean(found == test_y)), f1, (), (C,), (means,))


def same(one: TaskScore, other: TaskScore) -> None:
    assert one.regularisations == other.regularisations
    assert one.name == other.name
    assert one.accuracy == pytest.approx(other.accuracy)
    assert one.f1 == pytest.approx(other.f1)
    assert one.folds == pytest.approx(other.folds)
    assert len(one.validation) == len(other.validation)
    for mine, theirs in zip(one.validation, other.validation, strict=True):
        assert mine == pytest.approx(theirs)


@pytest.mark.parametrize("make", [cv_task, lambda book: cv_task(book, classes=3), split_task, pairs_task])
def test_it_is_the_protocol_of_scikit_learns_parts(make: Any) -> None:
    book = Book()
    task = make(book)
    (score,) = evaluate_sentences(book, [task], regularisations=PATH, folds=FOLDS, tolerance=1e-14)
    same(score, plain(task, book, PATH, FOLDS))


def test_the_defaults_are_the_papers() -> None:
    assert sentence_tasks.REGULARISATIONS == (1, 2, 4, 8, 16, 32, 64, 128, 256)
    assert (sentence_tasks.FOLDS, sentence_tasks.SEED) == (10, 1234)
    book = Book()
    task = split_task(book, classes=2)
    (score,) = evaluate_sentences(book, [task], tolerance=1e-14)
    same(score, plain(task, book, sentence_tasks.REGULARISATIONS, 10))


def test_float32_and_the_default_tolerance_are_close() -> None:
    book = Book()
    tasks = [cv_task(book, 400), split_task(book), pairs_task(book)]
    exact = evaluate_sentences(book, tasks, regularisations=PATH, folds=FOLDS, tolerance=1e-14)
    rounded = evaluate_sentences(
        lambda sentences: book(sentences).float().numpy(), tasks, regularisations=PATH, folds=FOLDS
    )
    for one, other in zip(rounded, exact, strict=True):
        # Where two C are nearly as good, rounding may choose.
        assert one.accuracy == pytest.approx(other.accuracy, abs=0.02)
        for mine, theirs in zip(one.validation, other.validation, strict=True):
            assert mine == pytest.approx(theirs, abs=0.01)


@pytest.mark.parametrize("make", [lambda book: cv_task(book, 350), split_task, pairs_task])
def test_the_first_look_does_not_decide(make: Any) -> None:
    book = Book()
    tasks = [make(book)]
    exact, quick = (
        evaluate_sentences(book, tasks, regularisations=PATH, folds=FOLDS, tolerance=tolerance)[0]
        for tolerance in (1e-14, 1e-4)
    )
    assert replace(quick, validation=()) == replace(exact, validation=())


def test_the_order_is_numpys_with_any_seed() -> None:
    book = Book()
    task = cv_task(book)
    (score,) = evaluate_sentences(book, [task], regularisations=PATH, folds=FOLDS, seed=7, tolerance=1e-14)
    same(score, plain(task, book, PATH, FOLDS, seed=7))
    assert score.folds != evaluate_sentences(book, [task], regularisations=PATH, folds=FOLDS)[0].folds


@given(n=st.integers(2, 300), folds=st.integers(2, 12))
def test_folds_by_counting(n: int, folds: int) -> None:
    if n < folds:
        with pytest.raises(ValueError, match=f"a sample for each of {folds} folds; got {n}"):
            fold_masks(n, folds)
        return
    masks = fold_masks(n, folds)
    sample, sizes = 0, []
    for fold in range(folds):
        size = n // folds + (1 if fold < n % folds else 0)
        sizes.append(size)
        for place in range(n):
            assert bool(masks[fold, place]) == (sample <= place < sample + size)
        sample += size
    assert sample == n
    if n - max(sizes) >= folds:
        rest = [place for place in range(n) if not masks[1, place]]
        inner = inner_fold_masks(masks[1], folds)
        assert not bool((inner & masks[1]).any())
        for mask, (_, held) in zip(inner, KFold(folds).split(rest), strict=True):
            assert mask.nonzero().flatten().tolist() == [rest[place] for place in held]


def test_the_first_of_equals_is_taken() -> None:
    """Separable vectors: every C has the best score."""
    book = Book()
    x, y = clouds(80, 3, 2, spread=0.01)
    task = Task("easy", "cv", book.add(x), y.tolist())
    for path in (PATH, PATH[::-1]):
        (score,) = evaluate_sentences(book, [task], regularisations=path, folds=FOLDS)
        assert score.accuracy == 1
        assert score.regularisations == (path[0],) * FOLDS


def test_f1_counts_what_is_found_and_what_is_there() -> None:
    found, y = torch.tensor([1, 1, 1, 0, 0]), torch.tensor([1, 0, 0, 1, 0])
    assert sentence_tasks._f1(found, y) == pytest.approx(f1_score(y, found))
    assert sentence_tasks._f1(torch.zeros(3), torch.zeros(3)) == 0


def test_progress_and_calls() -> None:
    book = Book()
    tasks = [cv_task(book), split_task(book), pairs_task(book)]
    seen: list[tuple[int, int, str]] = []
    evaluate_sentences(book, tasks, regularisations=PATH, folds=FOLDS, progress=lambda *now: seen.append(now))
    assert book.calls == 3
    fits = 16 * 3 + 4, 3 * (4 * 3 + 1), 4 * 3 + 1
    assert {total for _, total, _ in seen} == {sum(fits)}
    assert [done for done, _, _ in seen] == sorted(done for done, _, _ in seen)
    assert [now for now in seen if now[2].endswith("encoding")] == [
        (0, sum(fits), "cv: encoding"),
        (fits[0], sum(fits), "split: encoding"),
        (fits[0] + fits[1], sum(fits), "pairs: encoding"),
    ]
    assert (fits[0] - 4, sum(fits), "cv: choosing C") in seen
    assert seen[-1] == (sum(fits), sum(fits), "pairs: fitting")


@pytest.mark.parametrize(
    "vectors",
    [
        lambda x: x.half(),
        lambda x: (10 * x).int(),
        lambda x: x.tolist(),
        lambda x: x.numpy(),
        lambda x: x.clone().requires_grad_(),
    ],
)
def test_an_encoder_may_return_what_it_has(vectors: Any) -> None:
    book = Book()
    task = cv_task(book)
    (score,) = evaluate_sentences(
        lambda sentences: vectors(book(sentences)), [task], regularisations=[1.0], folds=FOLDS
    )
    assert score.accuracy > 0.6


@pytest.mark.parametrize(
    ("encode", "message"),
    [
        (lambda x: x[1:], r"cv: .* a vector for each of the 123 sentences; got shape \(122, 6\)"),
        (lambda x: x[:, 0], r"got shape \(123,\): return an \(n, d\) array or tensor"),
        (
            lambda x: torch.where(x > 2, math.nan, x),
            r"cv: sentence vectors must be finite; got NaN or inf in \d+ of",
        ),
        (lambda x: x[:, :0], r"n and d at least 1; got .* \(123, 0\)"),
    ],
)
def test_a_wrong_encoder_is_told(encode: Any, message: str) -> None:
    book = Book()
    task = cv_task(book)
    with pytest.raises(ValueError, match=message) as caught:
        evaluate_sentences(lambda sentences: encode(book(sentences)), [task])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "task_changes", "message"),
    [
        ({"regularisations": []}, {}, r"must hold a C and folds be at least 2; got \(\) and 10"),
        ({"folds": 1}, {}, "got .* and 1: the defaults"),
        ({"folds": 200}, {}, "cv: there must be a sample for each of 200 folds; got 123"),
        ({"seed": -1}, {}, "seed must be from 0 .*; got -1"),
        ({"regularisations": [0.0]}, {}, "C must be positive"),
        ({}, {"kind": "regression"}, "cv: a task must .* cv, split or pairs; got 123 and 'regression'"),
        ({}, {"labels": [0] * 122 + [1]}, "cv: every problem must have a training sample .* got none of class 1"),
        ({}, {"sentences": (), "labels": ()}, "cv: a task must have samples"),
    ],
)
def test_bad_input(changes: dict[str, Any], task_changes: dict[str, Any], message: str) -> None:
    book = Book()
    task = replace(cv_task(book), **task_changes)
    with pytest.raises(ValueError, match=message) as caught:
        evaluate_sentences(book, [task], **changes)
    assert "\n" not in str(caught.value)


def test_every_score_is_told_when_it_is_there() -> None:
    task = Task("a", "cv", tuple(f"{place}" for place in range(40)), tuple(place % 2 for place in range(40)))
    told: list[str] = []

    def encode(sentences: list[str]) -> torch.Tensor:
        told.append("encoded")
        return torch.tensor([[float(sentence), float(sentence) % 2] for sentence in sentences])

    tasks = [task, replace(task, name="b")]
    evaluate_sentences(
        encode, tasks, folds=2, regularisations=[1.0], on_score=lambda score: told.append(score.name)
    )
    assert told == ["encoded", "a", "encoded", "b"]


def test_a_split_without_test_samples_is_refused() -> None:
    task = Task("mine", "split", ("a", "b") * 10, (0, 1) * 10)
    with pytest.raises(ValueError, match="mine: a task of kind split must have test samples; got none"):
        evaluate_sentences(lambda sentences: torch.ones(len(sentences), 2), [task])


def test_scores_are_written_one_by_one_beside_what_was_there(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run", {})
    (run.folder / "evaluation.json").write_text(json.dumps({"knn": 0.5, "tasks": {"CR": {"accuracy": 0.25}}}))
    book = Book()
    write_scores(run, book, [replace(split_task(book), name="TREC"), replace(pairs_task(book), name="MSRP")])
    found = json.loads((run.folder / "evaluation.json").read_text())
    assert (found["knn"], found["tasks"]["CR"]) == (0.5, {"accuracy": 0.25})
    assert found["tasks"]["TREC"].keys() == {"accuracy", "folds", "C"}
    assert found["tasks"]["MSRP"].keys() == {"accuracy", "f1", "folds", "C"}
