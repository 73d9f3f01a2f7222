"""Scores of sentence vectors on the six tasks of Section 5.2, by the protocol of the skip-thoughts evaluation."""

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from debiased_contrastive.evaluation.descent import CentredFeatures, centre
from debiased_contrastive.evaluation.features import check_features
from debiased_contrastive.evaluation.logistic import check_settings, logistic_regressions
from debiased_contrastive.files import write_atomically
from debiased_contrastive.numerics import working_dtype
from debiased_contrastive.runs import EVALUATION, Run
from debiased_contrastive.text.corpus import OnProgress
from debiased_contrastive.text.task_files import SentenceTask

REGULARISATIONS = tuple(2.0**power for power in range(9))
FOLDS = 10
SEED = 1234
"""Seed of the protocol's shuffles."""
CHOICE_TOLERANCE, FINAL_TOLERANCE = 1e-3, 1e-5
"""Tolerances of the fits that decide on C and of those that are reported, as shares of that of the first fits."""
CHOICE_MARGIN = 0.005
"""How far a C may be behind the best after the first fits and still be the best in the end."""

Encode = Callable[[list[str]], Any]
"""From n sentences to their vectors, an (n, d) array or tensor."""
_Measure = Callable[[Tensor, Tensor], float]
_Report = Callable[[int, str], None]


@dataclass(frozen=True)
class TaskScore:
    """Scores of a task, as shares from 0 to 1."""

    name: str
    accuracy: float
    """The mean accuracy over the outer folds, or the accuracy on test."""
    f1: float | None
    """F1 of class 1 on test, for pairs."""
    folds: tuple[float, ...]
    """Accuracy of each outer fold; empty where there is a test set."""
    regularisations: tuple[float, ...]
    """C of each outer fold, or the one for test."""
    validation: tuple[dict[float, float], ...]
    """For each chosen C, what it was chosen by: every C with its mean score over the inner folds."""

    def as_json(self) -> dict[str, Any]:
        """The score as run directories and results keep it, under its name."""
        f1 = {} if self.f1 is None else {"f1": self.f1}
        return {"accuracy": self.accuracy, **f1, "folds": self.folds, "C": self.regularisations}


class _Settings(NamedTuple):
    path: tuple[float, ...]
    folds: int
    seed: int
    tolerance: float
    max_passes: int


class _Sets(NamedTuple):
    """Vectors and labels of train, in the order that folds are cut from, its centred features, and test."""

    x: Tensor
    y: Tensor
    shared: CentredFeatures
    test_x: Tensor
    test_y: Tensor


class _Fits(NamedTuple):
    """(f, t, d) weights and (f, t) biases; t is 1 for two classes, else one for each class against the rest."""

    weights: Tensor
    biases: Tensor

    def classes(self, x: Tensor, part: slice = slice(None)) -> Tensor:
        """(f, m), the classes that some of the fits predict for m vectors."""
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
    progress: OnProgress | None = None,
    on_score: Callable[[TaskScore], None] | None = None,
) -> tuple[TaskScore, ...]:
    """Score an encoder's sentence vectors on each task, by logistic regression on frozen vectors.

    - "cv" (MR, CR, SUBJ, MPQA): accuracy over contiguous folds of the samples, which are shuffled once. In
      each, C is chosen by the mean accuracy over as many folds of the rest.
    - "split" (TREC): C chosen by folds of train, shuffled once, fitted again to all of it; accuracy on test.
    - "pairs" (MSRP): the same on [|u - v|, u * v] of the vectors u, v of a pair, C chosen by F1.

    More than two classes are fitted one against the rest, as scikit-learn's default was when the protocol was
    written. Its solver then, liblinear, penalised the intercept too; here it is free, as with today's default.

    Args:
        encode: From a list of n sentences to an (n, d) array or tensor. It is called once for each task, with the
            sentences as they are in the files, and must tokenise them.
        tasks: What `read_tasks` reads, or tasks of your own.
        regularisations: Values of C to choose from; of equally good ones the first is taken.
        folds: Outer and inner folds.
        seed: Seed of the shuffle, as NumPy's RandomState takes it.
        tolerance: Tolerance of the first fits for every C, in nats a sample; later fits are finer.
        max_passes: Most passes over the vectors for a fit.
        progress: Called with how many fits of how many are done, and what is being done.
        on_score: Called with each score as soon as it is known.

    Returns:
        The score of each task.

    Raises:
        ValueError: If a task, a setting or what the encoder returned does not fit.
    """
    settings = _Settings(tuple(map(float, regularisations)), folds, seed, tolerance, max_passes)
    _check_settings(settings)
    counts = [_count_fits(task, settings) for task in tasks]
    scores = []
    for place, task in enumerate(tasks):

        def report(done: int, what: str, before: int = sum(counts[:place]), name: str = task.name) -> None:
            if progress is not None:
                progress(before + done, sum(counts), f"{name}: {what}")

        report(0, "encoding")
        sets = _make_sets(encode, task, counts[place], settings.seed)
        try:
            scores.append(_score(task, sets, settings, report))
        except ValueError as error:
            raise ValueError(f"{task.name}: {error}") from error
        if on_score is not None:
            on_score(scores[-1])
    return tuple(scores)


def write_scores(
    run: Run, encode: Encode, tasks: Sequence[SentenceTask], progress: OnProgress | None = None
) -> None:
    """Score a run's encoder, and add the score of each task to the run's evaluation when it is done."""
    found = run.evaluation
    scores = found["tasks"] if isinstance(found.get("tasks"), dict) else {}

    def write(score: TaskScore) -> None:
        scores[score.name] = score.as_json()
        write_atomically(run.folder / EVALUATION, json.dumps({**found, "tasks": scores}, indent=2) + "\n")

    evaluate_sentences(encode, tasks, progress=progress, on_score=write)


def _check_settings(settings: _Settings) -> None:
    if not settings.path or settings.folds < 2:
        raise ValueError(
            f"regularisations must hold a C and folds be at least 2; got {settings.path} and {settings.folds}: the "
            "defaults are the protocol's"
        )
    if not 0 <= settings.seed < 2**32:
        raise ValueError(f"seed must be from 0 to 2^32 - 1; got {settings.seed}: the protocol's is {SEED}")
    check_settings(settings.path, settings.tolerance, settings.max_passes)


def _count_fits(task: SentenceTask, settings: _Settings) -> int:
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
    """The number of logistic regressions for given rows and C: one for two classes, else one for each class."""
    return 1 if max(labels) < 2 else 1 + max(labels)


def _make_sets(encode: Encode, task: SentenceTask, fits: int, seed: int) -> _Sets:
    texts = (task.sentences, task.partners, task.test_sentences, task.test_partners)
    vectors = _encode_checked(encode, [sentence for text in texts for sentence in text], task.name)
    u, v, test_u, test_v = vectors.split([len(text) for text in texts])
    x, test_x = (_join(u, v), _join(test_u, test_v)) if task.kind == "pairs" else (u, test_u)
    order = torch.from_numpy(np.random.RandomState(seed).permutation(len(x))).to(x.device)
    y, test_y = (torch.tensor(tuple(labels)).to(order) for labels in (task.labels, task.test_labels))
    x = x[order]
    return _Sets(x, y[order], centre(x, fits), test_x, test_y)


def _join(u: Tensor, v: Tensor) -> Tensor:
    return torch.cat([(u - v).abs(), u * v], 1)


def _encode_checked(encode: Encode, sentences: list[str], name: str) -> Tensor:
    """Encode to (n, d) vectors, float32 or float64, and check what the encoder returned."""
    returned = encode(sentences)
    vectors = returned.detach() if isinstance(returned, Tensor) else torch.tensor(returned)
    if vectors.dim() != 2 or len(vectors) != len(sentences):
        raise ValueError(
            f"{name}: the encoder must return a vector for each of the {len(sentences)} sentences; got shape "
            f"{tuple(vectors.shape)}: return an (n, d) array or tensor, in the order of the sentences"
        )
    vectors = vectors if vectors.is_floating_point() else vectors.float()
    check_features(f"{name}: sentence vectors", vectors)
    return vectors.to(working_dtype(vectors))


def fold_masks(n: int, folds: int) -> Tensor:
    """(folds, n) masks of contiguous parts; the first n mod `folds` of them have one sample more."""
    if n < folds:
        raise ValueError(f"there must be a sample for each of {folds} folds; got {n}: use fewer folds")
    numbers = torch.arange(folds)
    sizes = n // folds + (numbers < n % folds).long()
    return numbers.repeat_interleave(sizes) == numbers.unsqueeze(1)


def inner_fold_masks(outer: Tensor, folds: int) -> Tensor:
    """(folds, n) masks of contiguous parts of what an outer fold, an (n,) mask, leaves."""
    masks = torch.zeros(folds, len(outer), dtype=torch.bool)
    masks[:, ~outer] = fold_masks(int((~outer).sum()), folds)
    return masks


def _score(task: SentenceTask, sets: _Sets, settings: _Settings, report: _Report) -> TaskScore:
    is_cv, is_pairs, n = task.kind == "cv", task.kind == "pairs", len(sets.y)
    outer = fold_masks(n, settings.folds) if is_cv else torch.zeros(1, n, dtype=torch.bool)
    inner = torch.cat([inner_fold_masks(fold, settings.folds) for fold in outer])
    means, fits = _validate(sets, outer, inner, settings, _f1 if is_pairs else _accuracy, report)
    best = tuple(max(mean, key=mean.__getitem__) for mean in means)
    fits = _fit_final(sets, outer, best, fits, settings, report)
    if not is_cv:
        predicted = fits.classes(sets.test_x)[0]
        f1 = _f1(predicted, sets.test_y) if is_pairs else None
        return TaskScore(task.name, _accuracy(predicted, sets.test_y), f1, (), best, tuple(means))
    scores = []
    for place, mask in enumerate(outer.to(sets.y.device)):
        predicted = fits.classes(sets.x[mask], slice(place, place + 1))[0]
        scores.append(_accuracy(predicted, sets.y[mask]))
    return TaskScore(task.name, math.fsum(scores) / len(scores), None, tuple(scores), best, tuple(means))


def _validate(
    sets: _Sets, outer: Tensor, inner: Tensor, settings: _Settings, measure: _Measure, report: _Report
) -> tuple[list[dict[float, float]], _Fits]:
    """For each mask `outer`, every C with its mean score over the masks `inner` within it; and all the fits.

    After first fits for every C, only those that can be the best are fitted to the end.
    """
    path, folds, inner = settings.path, settings.folds, inner.to(sets.y.device)
    left_out = inner | outer.to(inner.device).repeat_interleave(folds, 0)
    rows, regularisations = (~left_out).repeat_interleave(len(path), 0), path * len(inner)
    fits = _fit(sets, rows, regularisations, settings.tolerance, settings, lambda done: report(done, "choosing C"))
    means = _mean_scores(sets, inner, fits, settings, measure)
    margin = CHOICE_MARGIN + 2 / len(sets.y)
    winners = torch.tensor([[mean[C] >= max(mean.values()) - margin for C in path] for mean in means])
    # Where only one can win, the choice is made.
    winners &= winners.sum(1, keepdim=True) > 1
    places = winners.repeat_interleave(folds, 0).flatten().nonzero().flatten().to(inner.device)
    if not len(places):
        return means, fits
    starts = _Fits(fits.weights[places], fits.biases[places])
    own, tolerance = [regularisations[place] for place in places.tolist()], CHOICE_TOLERANCE * settings.tolerance
    ended = _fit(sets, rows[places], own, tolerance, settings, lambda _: None, starts)
    fits.weights[places], fits.biases[places] = ended
    return _mean_scores(sets, inner, fits, settings, measure), fits


def _mean_scores(
    sets: _Sets, inner: Tensor, fits: _Fits, settings: _Settings, measure: _Measure
) -> list[dict[float, float]]:
    """For each outer fold, every C with the mean score of its fits on what the inner folds hold out."""
    (path, folds), scores = settings[:2], []
    for place, mask in enumerate(inner):
        predicted = fits.classes(sets.x[mask], slice(place * len(path), (place + 1) * len(path)))
        scores.append([measure(classes, sets.y[mask]) for classes in predicted])
    # The sum is exact, so that the order of the folds does not decide between equally good C.
    by_c = (
        zip(path, zip(*scores[start : start + folds], strict=True), strict=True)
        for start in range(0, len(scores), folds)
    )
    return [{C: math.fsum(values) / folds for C, values in pairs} for pairs in by_c]


def _fit_final(
    sets: _Sets, outer: Tensor, best: tuple[float, ...], fits: _Fits, settings: _Settings, report: _Report
) -> _Fits:
    """Fit with the best C to all that each mask `outer` leaves, starting from the mean of the inner folds' fits."""
    chosen, shape = len(fits.weights) * fits.weights.shape[1], (len(outer), settings.folds, len(settings.path))
    places = torch.arange(len(outer)), slice(None), torch.tensor([settings.path.index(C) for C in best])
    starts = _Fits(*(part.unflatten(0, shape)[places].mean(1) for part in fits))
    rows, tolerance = (~outer).to(sets.y.device), FINAL_TOLERANCE * settings.tolerance
    return _fit(sets, rows, best, tolerance, settings, lambda done: report(chosen + done, "fitting"), starts)


def _fit(
    sets: _Sets,
    rows: Tensor,
    regularisations: Sequence[float],
    tolerance: float,
    settings: _Settings,
    progress: Callable[[int], None],
    starts: _Fits | None = None,
) -> _Fits:
    """Fit to the rows of each (n,) mask, with its C, starting from `starts` if given."""
    outputs, labels = _outputs(sets.y.tolist()), sets.y
    if outputs > 1:
        numbers = torch.arange(outputs, device=labels.device).unsqueeze(1)
        labels = (labels == numbers).to(torch.int8).repeat(len(rows), 1)
    weights, biases = logistic_regressions(
        sets.shared,
        labels,
        rows.repeat_interleave(outputs, 0),
        [C for C in regularisations for _ in range(outputs)],
        tolerance=tolerance,
        max_passes=settings.max_passes,
        progress=progress,
        starts=starts and (starts.weights.reshape(-1, 1, sets.x.shape[1]), starts.biases.reshape(-1, 1)),
    )
    return _Fits(weights.view(len(rows), outputs, -1), biases.view(len(rows), outputs))


def _accuracy(predicted: Tensor, y: Tensor) -> float:
    return int((predicted == y).sum()) / len(y)


def _f1(predicted: Tensor, y: Tensor) -> float:
    """Harmonic mean of precision and recall of class 1; 0 if class 1 is neither there nor predicted."""
    agreed = int(((predicted == 1) & (y == 1)).sum())
    either = int((predicted == 1).sum()) + int((y == 1).sum())
    return 2 * agreed / either if either else 0.0
