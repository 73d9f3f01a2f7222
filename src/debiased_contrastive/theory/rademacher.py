"""Empirical Rademacher complexity R_S = E_sigma sup_f <sigma, f(S)>, a sum as in the paper, by Monte Carlo."""

import math
from typing import NamedTuple

import torch
from torch import Tensor


class Estimate(NamedTuple):
    """A mean over draws."""

    value: float
    error: float
    """Its standard error."""


def finite_class_complexity(features: Tensor, draws: int, generator: torch.Generator) -> Estimate:
    """Of finitely many embeddings: features (f, n, d) of the same n samples under each of them."""
    flat = features.flatten(1)
    suprema = [(flat @ _signs(flat.shape[1:], generator).to(flat)).max() for _ in range(draws)]
    return _mean(torch.stack(suprema))


def linear_class_complexity(
    inputs: Tensor, out_dim: int, radius: float, draws: int, generator: torch.Generator
) -> Estimate:
    """Of all matrices A of Frobenius norm at most `radius`, x -> A x in R^out_dim: inputs (n, d).

    The supremum over A of <sigma, A x> is radius times the norm of sigma^T x.
    """
    suprema = [
        radius * (_signs((out_dim, len(inputs)), generator).to(inputs) @ inputs).norm() for _ in range(draws)
    ]
    return _mean(torch.stack(suprema))


def _signs(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    return torch.randint(2, shape, generator=generator) * 2 - 1


def _mean(values: Tensor) -> Estimate:
    if len(values) < 2:
        raise ValueError(f"draws must be at least 2, for an error; got {len(values)}")
    return Estimate(float(values.mean()), float(values.std()) / math.sqrt(len(values)))
