"""Many logistic regressions on the same features, minimised side by side: one pass over the features serves all."""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from debiased_contrastive.numerics import working_dtype

MEMORY = 20
"""Number of steps that L-BFGS remembers."""
SHORTEST_STEP = 1e-6
"""Share of a full step below which no shorter one is tried."""
BYTES = 2**28
"""Bytes for the problems that are solved at once, and for their logits in a tile."""
ELEMENTS = 2**20
"""Size of the tiles of a pass: each is read twice, the second time from the cache."""
MOMENT_PASSES = 3
"""Second moments are decomposed in blocks of columns whose width makes it cost about as many passes."""
SAMPLES_PER_FEATURE = 32
"""Rows for the second moments: the noise of their eigenvalues, about 20 %, costs less than more rows would."""
LARGEST_EXACT = 2048
"""Widest features whose second moments are decomposed whole, which takes about as long as ten passes."""
SMALLEST_SHARE = 1e-4
"""Smallest curvature of a class direction, as a share of the largest, so that rare classes have finite steps."""


class Spectrum(NamedTuple):
    """Second moments of centred features: eigenvalues (q,), vectors (d, q), one value for all other directions."""

    values: Tensor
    vectors: Tensor
    rest: float


class CentredFeatures(NamedTuple):
    """(n, d) features with mean 0, the (d,) mean that they had, and second moments of blocks of their columns."""

    x: Tensor
    mean: Tensor
    blocks: tuple[Spectrum, ...]


class Problems(NamedTuple):
    """Sample weights (p, n), their sums (p,), labels (p, n) or (1, n), and (p,) penalties beside the mean loss."""

    rows: Tensor
    sizes: Tensor
    labels: Tensor
    penalties: Tensor

    def at(self, places: Tensor) -> "Problems":
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


class Pairs(NamedTuple):
    """Steps, the changes of the gradients, and one over their products; 0 takes a pair out."""

    steps: Tensor
    changes: Tensor
    inverses: Tensor


class Descent(NamedTuple):
    """Problems in progress: their numbers, their points, the lengths of their next steps, and their last pairs."""

    numbers: Tensor
    problems: Problems
    here: Points
    lengths: Tensor
    pairs: tuple[Pairs, ...]

    def at(self, places: Tensor) -> "Descent":
        numbers, lengths = self.numbers[places], self.lengths[places]
        here = Points(*(part[places] for part in self.here))
        pairs = tuple(Pairs(*(part[places] for part in pair)) for pair in self.pairs)
        return Descent(numbers, self.problems.at(places), here, lengths, pairs)


def centre(features: Tensor, problems: int | None = None) -> CentredFeatures:
    """Centre (n, d) features for about so many problems; for None the second moments are decomposed whole."""
    features = features.to(working_dtype(features))
    # The intercepts are free, so centring only improves the condition of the problems.
    mean = features.mean(0)
    features = features - mean
    n, d = features.shape
    width = d
    if problems is not None:
        # A decomposition takes some 16 width^3 operations, a pass 4 n d for each problem.
        width = max(1, int(math.sqrt(MOMENT_PASSES * problems * n / 4)))
        width = math.ceil(d / math.ceil(d / width))
    return CentredFeatures(features, mean, tuple(second_moments(block) for block in features.split(width, 1)))


def second_moments(features: Tensor) -> Spectrum:
    """The spectrum of E[x x^T] for centred (n, d) features, estimated from rows at even distances.

    With fewer rows than features, only the span of the rows is known. There the upper half of the spectrum is
    kept, and the rest of the variance is spread over all other directions.
    """
    n, d = features.shape
    wanted = SAMPLES_PER_FEATURE * d if d <= LARGEST_EXACT else LARGEST_EXACT
    rows = features[:: max(1, n // wanted)][:wanted]
    wide = len(rows) < d
    values, vectors = torch.linalg.eigh((rows @ rows.T if wide else rows.T @ rows) / len(rows))
    values = values.clamp_min(torch.finfo(values.dtype).eps * float(values[-1]))
    if not wide:
        return Spectrum(values, vectors, 0.0)
    kept = (len(values) + 1) // 2
    rest = float(values[:-kept].sum()) / (d - kept)
    scale = (len(rows) * values[-kept:]).clamp_min(torch.finfo(values.dtype).tiny).sqrt()
    return Spectrum(values[-kept:], rows.T @ vectors[:, -kept:] / scale, rest)


def minimise(
    features: CentredFeatures,
    problems: Problems,
    starts: Tensor,
    start_of: Tensor,
    *,
    tolerance: float,
    max_passes: int,
    relative: bool = False,
    progress: Callable[[int], None] | None = None,
) -> tuple[Tensor, int]:
    """(p, k, d + 1) weights that minimise mean loss + penalty / 2 ||w||^2, and how many were not solved.

    Problem i starts from `starts[start_of[i]]`. It is solved when the quadratic model expects to gain less than
    `tolerance`, in nats a sample, or that many times its value if `relative`. `progress` gets how many are solved.
    """
    weights = starts.new_empty(len(start_of), *starts.shape[1:])
    # Besides its pairs a descent holds about twelve vectors for each problem.
    room = max(1, BYTES // ((2 * MEMORY + 12) * starts[0].numel() * starts.element_size()))
    # Smaller gains would be lost in the rounding of the gradients.
    tolerance = max(tolerance, torch.finfo(weights.dtype).eps ** 1.5)
    unsolved = 0
    for part in torch.arange(len(start_of), device=start_of.device).split(room):
        own = problems.at(part)
        here = evaluate(features, own, starts, start_of[part])
        descent, last = Descent(part, own, here, torch.ones_like(here.values), ()), None
        for _ in range(1, max_passes):
            if descent.here is not last:
                directions = _directions(features, descent)
                slopes = _dot(descent.here.gradients, directions)
            # -slope / 2 is what the model expects to gain. Where short steps fail too, rounding hides the way.
            limits = 2 * tolerance * descent.here.values if relative else 2 * tolerance
            solved = (-slopes <= limits) | (descent.lengths < SHORTEST_STEP)
            if bool(solved.any()):
                weights[descent.numbers[solved]] = descent.here.weights[solved]
                left = (~solved).nonzero().flatten()
                descent, directions, slopes = descent.at(left), directions[left], slopes[left]
                if progress is not None:
                    progress(int(part[-1]) + 1 - len(left))
                if not len(left):
                    break
            last = descent.here
            descent = _step(features, descent, directions, slopes)
        weights[descent.numbers] = descent.here.weights
        unsolved += len(descent.numbers)
    return weights, unsolved


def _step(features: CentredFeatures, descent: Descent, directions: Tensor, slopes: Tensor) -> Descent:
    """Try one step of every problem, in one pass; where it fails, the next step is shorter."""
    numbers, problems, here, lengths, pairs = descent
    there = evaluate(features, problems, here.weights + lengths[:, None, None] * directions)
    ends = _dot(there.gradients, directions)
    # By convexity the value is lower if the slope is still negative; otherwise it is compared.
    slack = 10 * torch.finfo(ends.dtype).eps * here.values.abs()
    accepted = (ends <= 0) | ((ends <= -slopes / 2) & (there.values <= here.values + slack))
    # Where the slope would be zero if it were linear. In this order a NaN, from overflow, becomes 0.1.
    shorter = slopes / (slopes - ends)
    lengths = torch.where(accepted, 1.0, lengths * torch.where(shorter > 0.1, shorter, 0.1))
    if not bool(accepted.any()):
        return descent._replace(lengths=lengths)
    if not bool(accepted.all()):
        both = zip(there, here, strict=True)
        there = Points(*(torch.where(accepted.view(-1, *[1] * (new.dim() - 1)), new, old) for new, old in both))
    steps, changes = there.weights - here.weights, there.gradients - here.gradients
    products = _dot(steps, changes)
    pair = Pairs(steps, changes, torch.where(products > 0, 1 / products, 0.0))
    return Descent(numbers, problems, there, lengths, (*pairs, pair)[-MEMORY:])


def evaluate(features: CentredFeatures, problems: Problems, weights: Tensor, of: Tensor | None = None) -> Points:
    """Values, gradients and covariances in one pass over the features.

    With `of`, problem p has the weights at `of[p]`: those that several share are multiplied once.
    """
    (_, outputs, width), d = weights.shape, features.x.shape[1]
    own = weights if of is None else weights[of]
    slopes, intercepts = weights[..., :-1].reshape(-1, d), weights[..., -1].reshape(-1, 1)
    losses, products = torch.zeros_like(problems.sizes), weights.new_zeros(2, len(own), outputs, outputs)
    # Intercepts are kept apart: products into rows of an odd length are slower.
    slope_sums, intercept_sums = torch.zeros_like(own[..., :-1]), weights.new_zeros(*own.shape[:2], 1)
    terms = _binary_terms if outputs == 1 else _multinomial_terms
    for tile in _tiles(features.x, own.numel() // width):
        x = features.x[tile]
        # Classes come first: with few of them the other layout takes twice as long.
        logits = torch.addmm(intercepts, slopes, x.T).view(len(weights), outputs, -1)
        logits = logits if of is None else logits[of]
        loss, residuals = terms(logits, problems.labels[:, tile], problems.rows[:, tile].to(x.dtype), products)
        losses += loss
        slope_sums.view(-1, d).addmm_(residuals.flatten(0, 1), x)
        intercept_sums += residuals.sum(2, keepdim=True)
    sizes, penalties = problems.sizes[:, None, None], problems.penalties[:, None, None]
    gradients = torch.cat([slope_sums / sizes + penalties * own[..., :-1], intercept_sums / sizes], 2)
    values = losses / problems.sizes + problems.penalties / 2 * own[..., :-1].square().sum((1, 2))
    # With q = e_y + r: diag(q) - q q^T = diag(r) - r r^T - r e_y^T - e_y r^T.
    covariances = torch.diag_embed(intercept_sums.squeeze(2)) - products[0] - products[1] - products[1].mT
    return Points(own, values, gradients, (products[0] if outputs == 1 else covariances) / sizes)


def _tiles(features: Tensor, logits: int) -> list[slice]:
    """Tiles of samples whose features stay in the cache between two products, with about eight numbers a logit."""
    n, d = features.shape
    rows = max(1, min(ELEMENTS // d, BYTES // (8 * logits * features.element_size())))
    return [slice(start, start + rows) for start in range(0, n, rows)]


def _binary_terms(logits: Tensor, labels: Tensor, rows: Tensor, products: Tensor) -> tuple[Tensor, Tensor]:
    """Loss (p,) and residuals (p, 1, m) of m samples; adds q (1 - q) to products[0]; logits are of class 1."""
    signs = 1 - 2 * labels.to(logits.dtype)
    margins = logits.squeeze(1) * signs
    # The probability of the other class, exact even if it is small.
    wrong = margins.sigmoid()
    losses = torch.linalg.vecdot(F.softplus(margins, threshold=50.0), rows)
    weighted = rows * wrong
    products[0, :, 0, 0] += torch.linalg.vecdot(weighted, 1 - wrong)
    return losses, weighted.mul_(signs).unsqueeze(1)


def _multinomial_terms(logits: Tensor, labels: Tensor, rows: Tensor, products: Tensor) -> tuple[Tensor, Tensor]:
    """The same for k classes: residuals r (p, k, m); adds r r^T to products[0] and r e_y^T to products[1]."""
    log_q = logits.log_softmax(1)
    label = labels.unsqueeze(1).expand(len(logits), 1, -1)
    log_right = log_q.gather(1, label)
    # q - 1 and log q of the label are computed from the other classes: near q = 1, where separable data lead, they
    # would be lost in rounding.
    residuals = log_q.exp_().scatter_(1, label, 0.0)
    wrong = residuals.sum(1, keepdim=True)
    losses = -torch.where(wrong < 0.5, torch.log1p(-wrong), log_right)
    residuals.scatter_(1, label, -wrong)
    weighted = residuals * rows.unsqueeze(1)
    products[0] += weighted @ residuals.mT
    products[1].scatter_add_(2, label.expand_as(weighted), weighted)
    return torch.linalg.vecdot(losses.squeeze(1), rows), weighted


def _directions(features: CentredFeatures, descent: Descent) -> Tensor:
    """The two loops of L-BFGS; they lead downhill, as every pair has a positive product or no influence."""
    vectors, factors = descent.here.gradients.clone(), []
    for pair in reversed(descent.pairs):
        factors.append((_dot(pair.steps, vectors) * pair.inverses).view(-1, 1, 1))
        vectors.addcmul_(factors[-1], pair.changes, value=-1)
    vectors = curvature_step(features.blocks, vectors, descent.here.covariances, descent.problems.penalties)
    for pair, factor in zip(descent.pairs, reversed(factors), strict=True):
        others = (_dot(pair.changes, vectors) * pair.inverses).view(-1, 1, 1)
        vectors.addcmul_(factor - others, pair.steps)
    return -vectors


def curvature_step(blocks: tuple[Spectrum, ...], vectors: Tensor, covariances: Tensor, penalties: Tensor) -> Tensor:
    """(p, k, d + 1) vectors times the inverse of the model A (x) E[x x^T] + penalty of the Hessian.

    The Hessian is E[(diag(q) - q q^T) (x) x x^T] + penalty. With the expectation of each factor by itself,
    A = E[diag(q) - q q^T] = `covariances`, the inverse takes two small eigendecompositions. At zero weights,
    where q is the same for all samples, this is the Hessian, and the step is Newton's.
    """
    is_binary = vectors.shape[1] == 1
    if not is_binary:
        covariances, classes = torch.linalg.eigh(covariances)
        covariances = covariances.clamp_min(SMALLEST_SHARE * covariances[:, -1:]).unsqueeze(2)
        vectors = classes.mT @ vectors
    curvatures, penalties = covariances.clamp_min(torch.finfo(vectors.dtype).tiny), penalties[:, None, None]
    parts, start = [], 0
    for values, axes, rest in blocks:
        part = vectors[..., start : start + len(axes)]
        start += len(axes)
        turned, inverse = part @ axes, 1 / (curvatures * values + penalties)
        if axes.shape[0] == axes.shape[1]:
            parts.append((turned * inverse) @ axes.T)
        else:
            elsewhere = 1 / (curvatures * rest + penalties)
            parts.append(elsewhere * part + (turned * (inverse - elsewhere)) @ axes.T)
    steps = torch.cat([*parts, vectors[..., start:] / curvatures], 2)
    return steps if is_binary else classes @ steps


def _dot(first: Tensor, second: Tensor) -> Tensor:
    return (first * second).sum((1, 2))
