"""Anybody's sentence vectors on the six tasks of Section 5.3, by the protocol of the skip-thoughts evaluation."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from debiased_contrastive.evaluation.features import check_features, working_dtype
from debiased_contrastive.evaluation.folds import SEED, held_out, inner_held_out, shuffled
from debiased_contrastive.evaluation.logistic import check_settings
from debiased_contrastive.evaluation.many_logistic import Shared, shared_by, solutions

REGULARISATIONS = tuple(2.0**power for power in range(9))
FOLDS = 10
DECIDING, REPORTED = 1e-3, 1e-5
"""Tolerances of the fits that decide on C and of those that are reported, as shares of that of the first look."""
MARGIN = 0.005
"""By which a C may be behind the best after the first look and still be the best in the end."""

Encode = Callable[[list[str]], Any]
"""From n sentences to their vectors, an (n, d) array or tensor."""
Shown = Callable[[int, int, str], None]
"""Told how many fits of how many are done, and what is being done."""
_Score = Callable[[Tensor, Tensor], float]
_Seen = Callable[[int, str], None]


class SentenceTask(Protocol):
    """What a task must have; `data.sentence_tasks` reads such."""

    @property
    def name(self) -> str:
        """For results and errors."""

    @property
    def kind(self) -> str:
        """`"cv"`: nested cross-validation. `"split"`: train and test. `"pairs"`: train and test of pairs."""

    @property
    def sentences(self) -> Sequence[str]:
        """Of train, or all there are."""

    @property
    def labels(self) -> Sequence[int]:
        """Classes from 0."""

    @property
    def partners(self) -> Sequence[str]:
        """Second sentences of pairs."""

    @property
    def test_sentences(self) -> Sequence[str]:
        """Empty for cross-validation, as the other two."""

    @property
    def test_labels(self) -> Sequence[int]:
        """Classes from 0."""

    @property
    def test_partners(self) -> Sequence[str]:
        """Second sentences of pairs."""


@dataclass(frozen=True)
class TaskScore:
    """Scores of a task, as shares from 0 to 1."""

    name: str
    accuracy: float
    """Mean over the outer folds, or on test."""
    f1: float | None
    """Of class 1 on test, for pairs."""
    folds: tuple[float, ...]
    """Accuracy of each outer fold; empty where there is a test set."""
    regularisations: tuple[float, ...]
    """C of each outer fold, or the one for test."""
    validation: tuple[dict[float, float], ...]
    """For each of these what it was chosen by: C to the mean score over the inner folds."""


class _Settings(NamedTuple):
    path: tuple[float, ...]
    folds: int
    seed: int
    tolerance: float
    max_passes: int


class _Sets(NamedTuple):
    """Vectors and labels of train, in the order that folds are cut from, what fits share, and test."""

    x: Tensor
    y: Tensor
    shared: Shared
    test_x: Tensor
    test_y: Tensor


class _Fits(NamedTuple):
    """(f, t, d) weights and (f, t) biases; t is 1 for two classes, else one for each class against the rest."""

    weights: Tensor
    biases: Tensor

    def classes(self, x: Tensor, part: slice = slice(None)) -> Tensor:
        """(f, m), what some of the fits say of m vectors."""
        weights, biases = self.weights[part], self.biases[part]
        logits = torch.addmm(biases.reshape(-1, 1), weights.flatten(0, 1), x.T).view(*biases.shape, -1)
        return logits.argmax(1) if biases.shape[1] > 1 else (logits[:, 0] > 0).long()


@torch.no_grad()
def evaluate_sentences(
    encode: Encode,
    tasks: Sequence[SentenceTask],
    *,
    regularisations: Sequence[float] = REGULARISATIONS,
    folds: int = FOLDS,
    seed: int = SEED,
    tolerance: float = 1e-4,
    max_passes: int = 500,
    shown: Shown | None = None,
    on_score: Callable[[TaskScore], None] | None = None,
) -> tuple[TaskScore, ...]:
    """The scores of an encoder's sentence vectors on each task, by logistic regression on frozen vectors.

    - "cv" (MR, CR, SUBJ, MPQA): accuracy over contiguous folds of the samples, which are shuffled once. In
      each, C is chosen by the mean accuracy over as many folds of the rest.
    - "split" (TREC): C chosen by folds of train, shuffled once, fitted again to all of it; accuracy on test.
    - "pairs" (MSRP): the same on [|u - v|, u * v] of the vectors u, v of a pair, C chosen by F1.

    Of equally good `regularisations` the first is taken. More than two classes are fitted one against the
    rest, as scikit-learn's default was when the protocol was written. Its solver then, liblinear, penalised
    the intercept too; here it is free, as with today's default.

    `encode` is called once for each task, with the sentences as they stand in the files: to tokenise them is
    its part. `tolerance` and `max_passes` are those of `many_logistic_regressions` for a first look at every
    C; fits that decide or are reported are finer. `on_score` is called with each score when it is there.
    """
    settings = _Settings(tuple(map(float, regularisations)), folds, seed, tolerance, max_passes)
    _check(settings)
    counts = [_fit_count(task, settings) for task in tasks]
    scores = []
    for place, task in enumerate(tasks):
        seen = _seen(shown, sum(counts[:place]), sum(counts), task.name)
        seen(0, "encoding")
        sets = _sets(encode, task, counts[place], settings.seed)
        try:
            scores.append((_nested if task.kind == "cv" else _split)(task, sets, settings, seen))
        except ValueError as error:
            raise ValueError(f"{task.name}: {error}") from error
        if on_score is not None:
            on_score(scores[-1])
    return tuple(scores)


def _check(settings: _Settings) -> None:
    if not settings.path or settings.folds < 2:
        raise ValueError(
            f"regularisations must hold a C and folds be at least 2; got {settings.path} and {settings.folds}: the "
            "defaults are the protocol's"
        )
    if not 0 <= settings.seed < 2**32:
        raise ValueError(f"seed must be from 0 to 2^32 - 1; got {settings.seed}: the protocol's is {SEED}")
    check_settings(settings.path, settings.tolerance, settings.max_passes)


def _fit_count(task: SentenceTask, settings: _Settings) -> int:
    """The number of logistic regressions of a task: those that choose C and those that are reported."""
    if task.kind not in ("cv", "split", "pairs") or not task.labels:
        raise ValueError(
            f"{task.name}: a task must have samples and be of kind cv, split or pairs; got {len(task.labels)} and "
            f"{task.kind!r}: read it with debiased_contrastive.text.task_files"
        )
    if task.kind != "cv" and not task.test_labels:
        raise ValueError(f"{task.name}: a task of kind {task.kind} must have test samples; got none: use kind cv")
    reported = settings.folds if task.kind == "cv" else 1
    return reported * (1 + settings.folds * len(settings.path)) * _outputs(task.labels)


def _outputs(labels: Sequence[int]) -> int:
    """Logistic regressions for one choice of rows and C: one for two classes, else one for each class."""
    return 1 if max(labels) < 2 else 1 + max(labels)


def _seen(shown: Shown | None, before: int, total: int, name: str) -> _Seen:
    def seen(done: int, what: str) -> None:
        if shown is not None:
            shown(before + done, total, f"{name}: {what}")

    return seen


def _sets(encode: Encode, task: SentenceTask, fits: int, seed: int) -> _Sets:
    texts = (task.sentences, task.partners, task.test_sentences, task.test_partners)
    vectors = _encoded(encode, [sentence for text in texts for sentence in text], task.name)
    u, v, test_u, test_v = vectors.split([len(text) for text in texts])
    x, test_x = (_joined(u, v), _joined(test_u, test_v)) if task.kind == "pairs" else (u, test_u)
    order = torch.tensor(shuffled(len(x), seed), device=x.device)
    y, test_y = (torch.tensor(tuple(labels)).to(order) for labels in (task.labels, task.test_labels))
    x = x[order]
    return _Sets(x, y[order], shared_by(fits, x), test_x, test_y)


def _joined(u: Tensor, v: Tensor) -> Tensor:
    return torch.cat([(u - v).abs(), u * v], 1)


def _encoded(encode: Encode, sentences: list[str], name: str) -> Tensor:
    """(n, d) vectors, float32 or float64, after all checks."""
    found = encode(sentences)
    vectors = found.detach() if isinstance(found, Tensor) else torch.tensor(found)
    if vectors.dim() != 2 or len(vectors) != len(sentences):
        raise ValueError(
            f"{name}: the encoder must return a vector for each of the {len(sentences)} sentences; got shape "
            f"{tuple(vectors.shape)}: return an (n, d) array or tensor, in the order of the sentences"
        )
    vectors = vectors if vectors.is_floating_point() else vectors.float()
    check_features(f"{name}: sentence vectors", vectors)
    return vectors.to(working_dtype(vectors))


def _nested(task: SentenceTask, sets: _Sets, settings: _Settings, seen: _Seen) -> TaskScore:
    outer = held_out(len(sets.y), settings.folds)
    inner = torch.cat([inner_held_out(fold, settings.folds) for fold in outer])
    means, fits = _validation(sets, outer, inner, settings, _accuracy, seen)
    best = [_first_best(mean) for mean in means]
    fits = _reported(sets, outer, best, fits, settings, seen)
    scores = []
    for place, mask in enumerate(outer.to(sets.y.device)):
        found = fits.classes(sets.x[mask], slice(place, place + 1))[0]
        scores.append(_accuracy(found, sets.y[mask]))
    return TaskScore(task.name, math.fsum(scores) / len(scores), None, tuple(scores), tuple(best), tuple(means))


def _split(task: SentenceTask, sets: _Sets, settings: _Settings, seen: _Seen) -> TaskScore:
    inner = held_out(len(sets.y), settings.folds)
    nothing = torch.zeros_like(inner[:1])
    means, fits = _validation(sets, nothing, inner, settings, _f1 if task.kind == "pairs" else _accuracy, seen)
    best = _first_best(means[0])
    found = _reported(sets, nothing, [best], fits, settings, seen).classes(sets.test_x)[0]
    f1 = _f1(found, sets.test_y) if task.kind == "pairs" else None
    return TaskScore(task.name, _accuracy(found, sets.test_y), f1, (), (best,), tuple(means))


def _validation(
    sets: _Sets, outer: Tensor, inner: Tensor, settings: _Settings, score: _Score, seen: _Seen
) -> tuple[list[dict[float, float]], _Fits]:
    """For each mask `outer`, C to the mean score over its `folds` of the masks `inner`; and all the fits.

    After a first look at every C, only those that can be the best are fitted to the end.
    """
    path, folds, inner = settings.path, settings.folds, inner.to(sets.y.device)
    left_out = inner | outer.to(inner.device).repeat_interleave(folds, 0)
    rows, regularisations = (~left_out).repeat_interleave(len(path), 0), path * len(inner)
    fits = _fitted(sets, rows, regularisations, settings.tolerance, settings, lambda done: seen(done, "choosing C"))
    means = _means(_scores(sets, inner, fits, score), settings)
    margin = MARGIN + 2 / len(sets.y)
    winners = torch.tensor([[mean[C] >= max(mean.values()) - margin for C in path] for mean in means])
    # Where one alone can win, the choice is made.
    winners &= winners.sum(1, keepdim=True) > 1
    places = winners.repeat_interleave(folds, 0).flatten().nonzero().flatten().to(inner.device)
    if not len(places):
        return means, fits
    starts = _Fits(fits.weights[places], fits.biases[places])
    own, tolerance = [regularisations[place] for place in places.tolist()], DECIDING * settings.tolerance
    ended = _fitted(sets, rows[places], own, tolerance, settings, lambda _: None, starts)
    fits.weights[places], fits.biases[places] = ended
    return _means(_scores(sets, inner, fits, score), settings), fits


def _scores(sets: _Sets, held: Tensor, fits: _Fits, score: _Score) -> list[list[float]]:
    """For each mask the scores of its fits, one for each C, on what it holds out."""
    scores, count = [], len(fits.weights) // len(held)
    for place, mask in enumerate(held):
        found = fits.classes(sets.x[mask], slice(place * count, (place + 1) * count))
        scores.append([score(classes, sets.y[mask]) for classes in found])
    return scores


def _means(scores: list[list[float]], settings: _Settings) -> list[dict[float, float]]:
    """C to the mean over `folds` folds, for each so many."""
    # Summed exactly, since of equals the first is taken: the order of the folds must not tell them apart.
    means = []
    for start in range(0, len(scores), settings.folds):
        columns = zip(*scores[start : start + settings.folds], strict=True)
        means.append(
            {C: math.fsum(column) / settings.folds for C, column in zip(settings.path, columns, strict=True)}
        )
    return means


def _first_best(mean: dict[float, float]) -> float:
    return max(mean, key=lambda C: mean[C])  # noqa: N803


def _reported(
    sets: _Sets, outer: Tensor, best: list[float], fits: _Fits, settings: _Settings, seen: _Seen
) -> _Fits:
    """Fits with the best C to all that each mask `outer` leaves, on from the mean of those without a fold."""
    chosen, shape = len(fits.weights) * fits.weights.shape[1], (len(outer), settings.folds, len(settings.path))
    places = torch.arange(len(outer)), slice(None), torch.tensor([settings.path.index(C) for C in best])
    starts = _Fits(*(part.unflatten(0, shape)[places].mean(1) for part in fits))
    rows, tolerance = (~outer).to(sets.y.device), REPORTED * settings.tolerance
    return _fitted(sets, rows, best, tolerance, settings, lambda done: seen(chosen + done, "fitting"), starts)


def _fitted(
    sets: _Sets,
    rows: Tensor,
    regularisations: Sequence[float],
    tolerance: float,
    settings: _Settings,
    shown: Callable[[int], None],
    starts: _Fits | None = None,
) -> _Fits:
    """Fits to the rows of each (n,) mask, with its C; on from others where there are `starts`."""
    outputs, labels = _outputs(sets.y.tolist()), sets.y
    if outputs > 1:
        numbers = torch.arange(outputs, device=labels.device).unsqueeze(1)
        labels = (labels == numbers).to(torch.int8).repeat(len(rows), 1)
    weights, biases = solutions(
        sets.shared,
        labels,
        rows.repeat_interleave(outputs, 0),
        [C for C in regularisations for _ in range(outputs)],
        tolerance=tolerance,
        max_passes=settings.max_passes,
        shown=shown,
        starts=starts and (starts.weights.reshape(-1, 1, sets.x.shape[1]), starts.biases.reshape(-1, 1)),
    )
    return _Fits(weights.view(len(rows), outputs, -1), biases.view(len(rows), outputs))


def _accuracy(found: Tensor, y: Tensor) -> float:
    return int((found == y).sum()) / len(y)


def _f1(found: Tensor, y: Tensor) -> float:
    """Of class 1: the harmonic mean of precision and recall, 0 where there is nothing to find and nothing found."""
    agreed = int(((found == 1) & (y == 1)).sum())
    either = int((found == 1).sum()) + int((y == 1).sum())
    return 2 * agreed / either if either else 0.0
