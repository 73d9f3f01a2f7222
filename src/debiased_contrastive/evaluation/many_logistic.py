"""Many logistic regressions on the same features, as folds and regularisations need: a pass serves all of them."""

import math
import warnings
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from debiased_contrastive.evaluation.curvature import SMALLEST_SHARE, Spectrum, second_moments
from debiased_contrastive.evaluation.features import check_features, working_dtype
from debiased_contrastive.evaluation.logistic import ELEMENTS, check_settings

MEMORY = 10
SHORTEST = 1e-6
"""Steps, as shares of the first one, below which no shorter one is tried."""
BYTES = 2**28
"""Of what is kept for problems that are solved at once, and of their logits in a tile."""
PASSES = 3
"""Second moments are decomposed in blocks of columns so wide that it costs about as many passes."""
MEMBERS = 4
"""Problems that differ in their rows alone, from which on it pays to solve one in the middle of them first."""


class Shared(NamedTuple):
    """What all problems share: centred features (n, d), their mean, and second moments of blocks of columns."""

    features: Tensor
    mean: Tensor
    blocks: tuple[Spectrum, ...]


class Problems(NamedTuple):
    """Weights (p, n) of the samples, their sums (p,), labels (p, n) or (1, n), penalties (p,) of the mean loss."""

    rows: Tensor
    sizes: Tensor
    labels: Tensor
    penalties: Tensor

    def at(self, places: Tensor) -> "Problems":
        """Some of the problems."""
        labels = self.labels if len(self.labels) == 1 else self.labels[places]
        return Problems(self.rows[places], self.sizes[places], labels, self.penalties[places])


class Points(NamedTuple):
    """(p, k, d + 1) weights, intercepts last, with values, gradients, and (p, k, k) covariances.

    These are E[diag(q) - q q^T] over the samples, q the probabilities; for k = 1, of two classes, E[q (1 - q)].
    """

    weights: Tensor
    values: Tensor
    gradients: Tensor
    covariances: Tensor

    def at(self, places: Tensor) -> "Points":
        """Some of the points."""
        return Points(*(part[places] for part in self))

    def where(self, chosen: Tensor, other: "Points") -> "Points":
        """These points where they are chosen, else the others."""
        if bool(chosen.all()):
            return self
        both = zip(self, other, strict=True)
        return Points(*(torch.where(chosen.view(-1, *[1] * (a.dim() - 1)), a, b) for a, b in both))


class Pairs(NamedTuple):
    """Steps and what they changed in the gradients, and one over their products; 0 takes a pair out."""

    steps: Tensor
    changes: Tensor
    inverses: Tensor

    def at(self, places: Tensor) -> "Pairs":
        """Some of the pairs."""
        return Pairs(*(part[places] for part in self))


class Descent(NamedTuple):
    """Problems on their way: their numbers, where they are, lengths of the next steps, and the last pairs."""

    numbers: Tensor
    problems: Problems
    here: Points
    lengths: Tensor
    pairs: tuple[Pairs, ...]

    def at(self, places: Tensor) -> "Descent":
        """Some of the problems."""
        pairs = tuple(pair.at(places) for pair in self.pairs)
        return Descent(
            self.numbers[places], self.problems.at(places), self.here.at(places), self.lengths[places], pairs
        )


@torch.no_grad()
def many_logistic_regressions(
    features: Tensor,
    labels: Tensor,
    rows: Tensor,
    C: Sequence[float],  # noqa: N803
    *,
    tolerance: float = 1e-5,
    max_passes: int = 500,
    shown: Callable[[int], None] | None = None,
) -> tuple[Tensor, Tensor]:
    """Weights (p, k, d) and biases (p, k) of p problems that share (n, d) features; k is 1 for two classes.

    Each minimises C sum_i rows_i loss_i + 1/2 ||weight||^2, the bias free, as scikit-learn's
    LogisticRegression(C) does with `rows` as its sample weights: for two classes with one vector, whose
    logits are those of class 1, for more of them multinomial. `rows` (p, n) are weights, or a mask of the
    samples that count. `labels` are (n,), or (p, n) where problems differ in them, as those of one class
    against the rest do.

    A problem is solved when the quadratic model expects to gain less than `tolerance`, in nats a sample:
    logits are then off by about sqrt(2 tolerance / (p (1 - p))). `shown` is called with the number of
    problems solved so far.

    >>> x, y = torch.tensor([[-2.0], [-1.0], [1.0], [2.0]]), torch.tensor([0, 0, 1, 1])
    >>> weights, biases = many_logistic_regressions(x, y, torch.ones(2, 4), [1.0, 100.0])
    >>> weights.shape, bool(weights[0] < weights[1])
    (torch.Size([2, 1, 1]), True)
    """
    check_features("features", features)
    shared = shared_by(len(rows), features)
    return solutions(shared, labels, rows, C, tolerance=tolerance, max_passes=max_passes, shown=shown)


@torch.no_grad()
def shared_by(problems: int, features: Tensor) -> Shared:
    """What solutions of about so many problems share; it can serve several calls."""
    features = features.to(working_dtype(features))
    # The intercepts are free, so centring changes nothing but the condition of the problems.
    mean = features.mean(0)
    features = features - mean
    n, d = features.shape
    # A decomposition takes some 16 width^3 operations, a pass 4 n d for each problem.
    width = max(1, int(math.sqrt(PASSES * problems * n / 4)))
    width = math.ceil(d / math.ceil(d / width))
    return Shared(features, mean, tuple(second_moments(block) for block in features.split(width, 1)))


@torch.no_grad()
def solutions(
    shared: Shared,
    labels: Tensor,
    rows: Tensor,
    C: Sequence[float],  # noqa: N803
    *,
    tolerance: float = 1e-5,
    max_passes: int = 500,
    shown: Callable[[int], None] | None = None,
    starts: tuple[Tensor, Tensor] | None = None,
) -> tuple[Tensor, Tensor]:
    """Weights and biases, as `many_logistic_regressions` has them, on from others where there are `starts`."""
    check_settings(tuple(C), tolerance, max_passes)
    num_classes = _class_count(labels, rows, len(C), len(shared.features))
    problems = _problems(shared, labels, rows, C, num_classes)
    outputs = 1 if num_classes == 2 else num_classes
    if starts is None:
        begins, begin_of = _begins(shared, problems, C, outputs, tolerance, max_passes)
    else:
        weights, biases = starts
        begins = torch.cat([weights, (biases + weights @ shared.mean).unsqueeze(2)], 2)
        begin_of = torch.arange(len(rows), device=rows.device)
    weights, unsolved = _in_parts(shared, problems, begins, begin_of, tolerance, max_passes, shown)
    if unsolved:
        warnings.warn(
            f"{unsolved} of {len(rows)} logistic regressions stopped after {max_passes} passes, before their "
            "tolerance: raise max_passes or lower C",
            RuntimeWarning,
            stacklevel=3,
        )
    weights, biases = weights[..., :-1], weights[..., -1]
    biases = biases - weights @ shared.mean
    # A constant that all classes share changes no probability.
    return weights, biases - biases.mean(1, keepdim=True) if outputs > 1 else biases


def _class_count(labels: Tensor, rows: Tensor, p: int, n: int) -> int:
    """The number of classes, if labels and rows are fit for p problems of n samples."""
    if rows.shape != (p, n) or p < 1 or rows.dtype.is_complex or not bool((rows >= 0).all()):
        raise ValueError(
            f"rows must be a mask, or weights of at least 0, with shape ({p}, {n}): a row for each C, a column for "
            f"each sample; got {rows.dtype} {tuple(rows.shape)}: repeat the folds for every C"
        )
    dtype = labels.dtype
    if labels.shape not in ((n,), (p, n)) or dtype == torch.bool or dtype.is_floating_point or dtype.is_complex:
        raise ValueError(
            f"labels must be integers with shape ({n},), or ({p}, {n}) where problems differ in them; got {dtype} "
            f"{tuple(labels.shape)}: class numbers, not one-hot rows"
        )
    if int(labels.min()) < 0:
        raise ValueError(f"labels must be at least 0; got {int(labels.min())}: number classes from 0")
    num_classes, counted = max(2, 1 + int(labels.max())), rows > 0
    for label in range(num_classes):
        absent = (~(counted & (labels == label)).any(1)).nonzero().flatten().tolist()
        if absent:
            raise ValueError(
                f"every problem must have a training sample of each of {num_classes} classes; got none of class "
                f"{label} in {len(absent)} of {p} problems, first in number {absent[0]}: use fewer folds, or leave "
                "the class out"
            )
    return num_classes


def _problems(
    shared: Shared,
    labels: Tensor,
    rows: Tensor,
    C: Sequence[float],  # noqa: N803
    num_classes: int,
) -> Problems:
    sizes = rows.sum(1, dtype=shared.features.dtype)
    labels = labels.to(torch.int8 if num_classes == 2 else torch.long)
    labels = labels.unsqueeze(0) if labels.dim() == 1 else labels
    return Problems(rows, sizes, labels, 1 / (torch.tensor(tuple(C)).to(sizes) * sizes))


def _begins(
    shared: Shared,
    problems: Problems,
    C: Sequence[float],  # noqa: N803
    outputs: int,
    tolerance: float,
    max_passes: int,
) -> tuple[Tensor, Tensor]:
    """Weights to start from, and the place of each problem's own among them.

    Problems that differ in their rows alone start at the minimum of the mean of their objectives: one
    problem more, which saves each of them a part of its passes.
    """
    zero = shared.features.new_zeros(1, outputs, shared.features.shape[1] + 1)
    group_of = _groups(problems.labels, C)
    groups = 1 + int(group_of.max())
    if groups * MEMBERS > len(group_of):
        return zero, torch.zeros_like(group_of)
    members = F.one_hot(group_of).T.to(zero.dtype)
    rows, first = members @ problems.rows.to(zero.dtype), members.argmax(1)
    rows /= members.sum(1, keepdim=True)
    sizes = rows.sum(1)
    middle = problems.at(first)
    middle = Problems(rows, sizes, middle.labels, middle.penalties * middle.sizes / sizes)
    return _in_parts(shared, middle, zero, torch.zeros_like(first), tolerance, max_passes)[0], group_of


def _groups(labels: Tensor, C: Sequence[float]) -> Tensor:  # noqa: N803
    """(p,) numbers from 0, the same for problems with the same C and labels."""
    kinds = torch.tensor(tuple(C), dtype=torch.float64, device=labels.device).unique(return_inverse=True)[1]
    if len(labels) > 1:
        kinds = kinds * len(labels) + labels.unique(dim=0, return_inverse=True)[1]
    groups: Tensor = kinds.unique(return_inverse=True)[1]
    return groups


def _in_parts(
    shared: Shared,
    problems: Problems,
    starts: Tensor,
    start_of: Tensor,
    tolerance: float,
    max_passes: int,
    shown: Callable[[int], None] | None = None,
) -> tuple[Tensor, int]:
    """(p, k, d + 1) weights and how many were not reached, for as many problems at once as there is room."""
    weights = starts.new_empty(len(start_of), *starts.shape[1:])
    # Besides its pairs a descent has some twelve vectors for each problem.
    room = max(1, BYTES // ((2 * MEMORY + 12) * starts[0].numel() * starts.element_size()))
    unsolved = 0
    for part in torch.arange(len(start_of), device=start_of.device).split(room):
        own = problems.at(part)
        here = evaluated(shared, own, starts, start_of[part])
        begun = Descent(part, own, here, torch.ones_like(here.values), ())
        unsolved += minimisers(shared, begun, weights, tolerance, max_passes, shown)
    return weights, unsolved


def minimisers(
    shared: Shared,
    descent: Descent,
    weights: Tensor,
    tolerance: float,
    max_passes: int,
    shown: Callable[[int], None] | None = None,
) -> int:
    """How many problems were not solved; the others' minima are in `weights`: L-BFGS for all side by side."""
    # Of smaller gains the rounding of the gradients would leave nothing.
    tolerance = max(tolerance, torch.finfo(weights.dtype).eps ** 1.5)
    done = int(descent.numbers[-1]) + 1
    for _ in range(1, max_passes):
        directions = _directions(shared, descent)
        slopes = _dot(descent.here.gradients, directions)
        # -slope / 2 is what the model expects to gain. Where short steps fail too, rounding hides the way.
        solved = (-slopes <= 2 * tolerance) | (descent.lengths < SHORTEST)
        if bool(solved.any()):
            weights[descent.numbers[solved]] = descent.here.weights[solved]
            kept = (~solved).nonzero().flatten()
            descent, directions, slopes = descent.at(kept), directions[kept], slopes[kept]
            if shown is not None:
                shown(done - len(kept))
            if not len(kept):
                return 0
        descent = _stepped(shared, descent, directions, slopes)
    weights[descent.numbers] = descent.here.weights
    return len(descent.numbers)


def _stepped(shared: Shared, descent: Descent, directions: Tensor, slopes: Tensor) -> Descent:
    """The descent after one pass, in which every problem tries one step; where it fails, the next is shorter."""
    numbers, problems, here, lengths, pairs = descent
    there = evaluated(shared, problems, here.weights + lengths[:, None, None] * directions)
    ends = _dot(there.gradients, directions)
    # Down for sure where it still leads down, by convexity, and else where the value says so.
    slack = 10 * torch.finfo(ends.dtype).eps * here.values.abs()
    accepted = (ends <= 0) | ((ends <= -slopes / 2) & (there.values <= here.values + slack))
    # Where the slope would be zero if it were linear. In this order a NaN, of overflow, is 0.1.
    shorter = slopes / (slopes - ends)
    lengths = torch.where(accepted, 1.0, lengths * torch.where(shorter > 0.1, shorter, 0.1))
    there = there.where(accepted, here)
    steps, changes = there.weights - here.weights, there.gradients - here.gradients
    products = _dot(steps, changes)
    pair = Pairs(steps, changes, torch.where(products > 0, 1 / products, 0.0))
    return Descent(numbers, problems, there, lengths, (*pairs, pair)[-MEMORY:])


def evaluated(shared: Shared, problems: Problems, weights: Tensor, of: Tensor | None = None) -> Points:
    """Values, gradients and covariances in one pass over the features.

    With `of`, problem p has the weights at `of[p]`: those that several share are multiplied once.
    """
    (_, outputs, width), d = weights.shape, shared.features.shape[1]
    own = weights if of is None else weights[of]
    slopes, intercepts = weights[..., :-1].reshape(-1, d), weights[..., -1].reshape(-1, 1)
    losses, covariances = torch.zeros_like(problems.sizes), weights.new_zeros(len(own), outputs, outputs)
    # Intercepts apart: products into rows of an odd length are slower.
    slope_sums, intercept_sums = torch.zeros_like(own[..., :-1]), weights.new_zeros(*own.shape[:2], 1)
    share = _binary_share if outputs == 1 else _multinomial_share
    for tile in _tiles(shared.features, own.numel() // width):
        x = shared.features[tile]
        logits = torch.addmm(intercepts, slopes, x.T).view(len(weights), outputs, -1)
        logits = logits if of is None else logits[of]
        loss, residuals, covariance = share(logits, problems.labels[:, tile], problems.rows[:, tile].to(x.dtype))
        losses += loss
        covariances += covariance
        slope_sums.view(-1, d).addmm_(residuals.flatten(0, 1), x)
        intercept_sums += residuals.sum(2, keepdim=True)
    sizes, penalties = problems.sizes[:, None, None], problems.penalties[:, None, None]
    gradients = torch.cat([slope_sums / sizes + penalties * own[..., :-1], intercept_sums / sizes], 2)
    values = losses / problems.sizes + problems.penalties / 2 * own[..., :-1].square().sum((1, 2))
    return Points(own, values, gradients, covariances / sizes)


def _tiles(features: Tensor, logits: int) -> list[slice]:
    """Samples whose features stay in the cache between their two products, with some eight numbers a logit."""
    n, d = features.shape
    rows = max(1, min(ELEMENTS // d, BYTES // (8 * logits * features.element_size())))
    return [slice(start, start + rows) for start in range(0, n, rows)]


def _binary_share(logits: Tensor, labels: Tensor, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Loss (p,), residuals (p, 1, m) and covariance (p, 1, 1) of m samples; logits are those of class 1."""
    signs = 1 - 2 * labels.to(logits.dtype)
    margins = logits.squeeze(1) * signs
    # The probability of the other class, exact also where it is small.
    wrong = margins.sigmoid()
    losses = torch.linalg.vecdot(F.softplus(margins, threshold=50.0), rows)
    weighted = rows * wrong
    covariances = torch.linalg.vecdot(weighted, 1 - wrong)
    return losses, weighted.mul_(signs).unsqueeze(1), covariances[:, None, None]


def _multinomial_share(logits: Tensor, labels: Tensor, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The same for k classes: loss (p,), residuals (p, k, m) and covariances (p, k, k)."""
    log_q = logits.log_softmax(1)
    label = labels.unsqueeze(1).expand(len(logits), 1, -1)
    log_right = log_q.gather(1, label)
    # As in logistic.py: near q = 1 what is left of 1 - q and log q comes from the other classes.
    residuals = log_q.exp_().scatter_(1, label, 0.0)
    wrong = residuals.sum(1, keepdim=True)
    losses = -torch.where(wrong < 0.5, torch.log1p(-wrong), log_right)
    residuals.scatter_(1, label, -wrong)
    rows = rows.unsqueeze(1)
    weighted = residuals * rows
    # With q = e_y + r: diag(q) - q q^T = diag(r) - r r^T - r e_y^T - e_y r^T.
    by_label = weighted @ F.one_hot(labels, logits.shape[1]).to(logits.dtype)
    covariances = torch.diag_embed(weighted.sum(2)) - weighted @ residuals.mT - by_label - by_label.mT
    return (losses * rows).sum((1, 2)), weighted, covariances


def _directions(shared: Shared, descent: Descent) -> Tensor:
    """The two loops of L-BFGS; downhill, as every pair has a positive product or no influence."""
    vectors, factors = descent.here.gradients.clone(), []
    for pair in reversed(descent.pairs):
        factors.append(_dot(pair.steps, vectors) * pair.inverses)
        vectors -= factors[-1][:, None, None] * pair.changes
    vectors = _curvature_step(shared, vectors, descent.here.covariances, descent.problems.penalties)
    for pair, factor in zip(descent.pairs, reversed(factors), strict=True):
        vectors += (factor - _dot(pair.changes, vectors) * pair.inverses)[:, None, None] * pair.steps
    return -vectors


def _curvature_step(shared: Shared, vectors: Tensor, covariances: Tensor, penalties: Tensor) -> Tensor:
    """(p, k, d + 1) vectors times the inverse of the Hessian's model, covariance (x) E[x x^T] + penalty.

    It is the model of curvature.py, with second moments that are taken in blocks of columns.
    """
    if vectors.shape[1] == 1:
        return _curvature_inverse(shared, vectors, covariances, penalties)
    curvatures, classes = torch.linalg.eigh(covariances)
    curvatures = curvatures.clamp_min(SMALLEST_SHARE * curvatures[:, -1:]).unsqueeze(2)
    steps: Tensor = classes @ _curvature_inverse(shared, classes.mT @ vectors, curvatures, penalties)
    return steps


def _curvature_inverse(shared: Shared, vectors: Tensor, curvatures: Tensor, penalties: Tensor) -> Tensor:
    """Vectors times the inverse of curvature E[x x^T] + penalty, with (p, k, 1) curvatures."""
    curvatures = curvatures.clamp_min(torch.finfo(vectors.dtype).tiny)
    penalties = penalties[:, None, None]
    steps, start = [], 0
    for values, axes, rest in shared.blocks:
        part = vectors[..., start : start + len(axes)]
        start += len(axes)
        turned, inverse = part @ axes, 1 / (curvatures * values + penalties)
        if axes.shape[0] == axes.shape[1]:
            steps.append((turned * inverse) @ axes.T)
        else:
            elsewhere = 1 / (curvatures * rest + penalties)
            steps.append(elsewhere * part + (turned * (inverse - elsewhere)) @ axes.T)
    return torch.cat([*steps, vectors[..., start:] / curvatures], 2)


def _dot(first: Tensor, second: Tensor) -> Tensor:
    products: Tensor = torch.linalg.vecdot(first.flatten(1), second.flatten(1))
    return products
