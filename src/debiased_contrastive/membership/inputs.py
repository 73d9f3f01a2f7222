"""Features and labels as the sources take them: NumPy arrays or tensors, checked in one line."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from debiased_contrastive.evaluation.features import check_features

Features = npt.NDArray[Any] | Tensor
Labels = npt.NDArray[Any] | Tensor | Sequence[int]


def as_features(features: Features) -> Tensor:
    """(n, d) features as a tensor in memory; raise unless they are floating-point, finite and at least two rows."""
    # A copy, since arrays that were mapped from a file cannot be written to, of which torch warns.
    rows = features.detach().cpu() if isinstance(features, Tensor) else torch.from_numpy(np.array(features))
    check_features("features", rows)
    if len(rows) < 2:
        raise ValueError("features must have at least two rows; got one: a sample shares its class with another")
    return rows


def as_labels(labels: Labels, samples: int | None = None) -> Tensor:
    """(n,) labels as int64 in memory; raise unless they are whole numbers from -1 on, one for each sample."""
    values = labels.detach().cpu() if isinstance(labels, Tensor) else np.array(labels)
    whole = values.dtype.kind in "iu" if isinstance(values, np.ndarray) else _is_whole(values.dtype)
    if not whole or values.ndim != 1 or not len(values) or samples not in (None, len(values)):
        raise ValueError(
            f"labels must be one row of whole numbers, -1 = unknown, one for each sample{_number(samples)}; got "
            f"{values.dtype} of shape {tuple(values.shape)}: class numbers, neither names nor one-hot rows"
        )
    rows = (values if isinstance(values, Tensor) else torch.from_numpy(values.astype(np.int64))).long()
    if int(rows.min()) < -1:
        raise ValueError(f"labels must be at least -1, which is unknown; got {int(rows.min())}")
    return rows


def _is_whole(dtype: torch.dtype) -> bool:
    return not (dtype.is_floating_point or dtype.is_complex or dtype == torch.bool)


def _number(samples: int | None) -> str:
    return "" if samples is None else f" of {samples}"
