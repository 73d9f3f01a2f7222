"""The Hessian of multinomial logistic regression as one Kronecker product, cheap to invert."""

from typing import NamedTuple

import torch
from torch import Tensor

SAMPLES_PER_FEATURE = 32
"""Rows for the second moments: the noise of their eigenvalues, some 20 %, costs less than more rows would."""

LARGEST_EXACT = 2048
"""Widest features whose second moments are decomposed whole, which takes about as long as ten passes."""

SMALLEST_SHARE = 1e-4
"""Curvature of a class direction, as a share of the largest: rare classes must not have endless steps."""


class Spectrum(NamedTuple):
    """Second moments of centred features: eigenvalues (q,), vectors (d, q), one value for all other."""

    values: Tensor
    vectors: Tensor
    rest: float


def second_moments(features: Tensor) -> Spectrum:
    """The spectrum of E[x x^T] for centred (n, d) features, estimated from rows at even distances.

    Features wider than the rows that are used are known only in the span of these rows. There the upper
    half of the spectrum is kept, and what is left of the variance is spread over all other directions.
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


def curvature_step(gradient: Tensor, covariance: Tensor, moments: Spectrum, penalty: float) -> Tensor:
    """The inverse of A (x) E[x x^T] + penalty, times a (k, d + 1) gradient, intercepts in the last column.

    The Hessian is E[(diag(p) - p p^T) (x) x x^T] + penalty. With the expectation of each factor by itself,
    A = E[diag(p) - p p^T] = `covariance`, the inverse takes two small eigendecompositions. At zero weights,
    where p is the same for all samples, this is the Hessian, and the step is Newton's.
    """
    values, vectors = torch.linalg.eigh(covariance)
    largest = values[-1].clamp_min(torch.finfo(values.dtype).tiny)
    curvatures = values.clamp_min(SMALLEST_SHARE * largest).unsqueeze(1)
    rotated = vectors.T @ gradient
    slopes, intercepts = rotated[:, :-1], rotated[:, -1:]
    elsewhere = 1 / (curvatures * moments.rest + penalty)
    inverse = 1 / (curvatures * moments.values + penalty)
    if moments.vectors.shape[1] == len(moments.vectors):
        slopes = (slopes @ moments.vectors * inverse) @ moments.vectors.T
    else:
        inside = slopes @ moments.vectors * (inverse - elsewhere)
        slopes = elsewhere * slopes + inside @ moments.vectors.T
    step: Tensor = vectors @ torch.cat([slopes, intercepts / curvatures], 1)
    return step
