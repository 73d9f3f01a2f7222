"""What labels, groups and ids say about classes."""

from collections import Counter
from collections.abc import Hashable, Iterable
from typing import Any

import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional as F

from debiased_contrastive.membership.inputs import Labels, as_labels
from debiased_contrastive.membership.knowledge import Knowledge
from debiased_contrastive.membership.quality import rate

NEARLY_ALL = 0.9
"""Share of the rows in one group, or alone in theirs, from which on a column says next to nothing."""


def from_labels(labels: Labels, *, num_classes: int | None = None) -> Knowledge:
    """One-hot membership of the samples whose class is known, zero rows for the others.

    With very many classes `from_groups(labels)` says the same in one number for each sample.

    Args:
        labels: (n,) class numbers from 0; -1 = unknown.
        num_classes: Number of classes; one more than the largest label if not given.

    >>> from_labels([1, -1, 0]).membership
    tensor([[0., 1.],
            [0., 0.],
            [1., 0.]])
    """
    classes = as_labels(labels)
    known = classes >= 0
    counted = 1 + int(classes.max())
    if num_classes is not None and not max(1, counted) <= num_classes:
        raise ValueError(
            f"num_classes must be above every label, at least 1; got {num_classes}, labels to {counted - 1}"
        )
    membership = F.one_hot(classes.clamp_min(0), num_classes or max(1, counted)).float() * known.unsqueeze(1)
    doubts = [] if bool(known.any()) else ["no label is known: the loss stays the biased one"]
    if int(known.sum()) > 1 and len(classes[known].unique()) == 1:
        doubts.append("all labels are of one class: no known sample is a negative of another")
    return rate(
        Knowledge(membership=membership, quality={"known": float(known.float().mean())}, warnings=tuple(doubts))
    )


def from_groups(*columns: Iterable[Any] | npt.NDArray[Any] | Tensor, labels: Labels | None = None) -> Knowledge:
    """Groups that samples share as partitions: product category, patient, session, near-duplicate cluster.

    q is the share of columns in which two samples agree; what is missing agrees with nothing.

    Args:
        *columns: Each (n,) ids, whole numbers or strings; missing: -1, "", None or NaN.
        labels: (n,) true classes, -1 = unknown, for the quality figures alone.

    >>> from_groups(["cat", "dog", "cat", ""], [7, 7, -1, 7]).partitions.tolist()
    [[0, 0], [1, 0], [0, -1], [-1, 0]]
    """
    coded, doubts = [], []
    for number, column in enumerate(columns):
        codes = _codes(column, number)
        coded.append(codes)
        doubts += _doubts(codes, number)
    lengths = [len(codes) for codes in coded]
    if not lengths or len(set(lengths)) > 1 or not lengths[0]:
        raise ValueError(f"columns must be there, with one id for each sample; got lengths {lengths}")
    partitions = torch.tensor(coded, dtype=torch.int32).T.contiguous()
    known = float((partitions >= 0).any(1).float().mean())
    return rate(Knowledge(partitions=partitions, quality={"known": known}, warnings=tuple(doubts)), labels)


def _codes(column: Iterable[Any] | npt.NDArray[Any] | Tensor, number: int) -> list[int]:
    values = column.tolist() if hasattr(column, "tolist") else list(column)
    seen: dict[Hashable, int] = {}
    try:
        return [-1 if _is_missing(value) else seen.setdefault(value, len(seen)) for value in values]
    except TypeError:
        raise ValueError(
            f"column {number} must be one row of whole numbers or strings; got something else: pass one by one"
        ) from None


def _is_missing(value: Any) -> bool:
    # Every negative number is unknown, as it is for the losses.
    return value is None or value == "" or value != value or (not isinstance(value, str) and value < 0)


def _doubts(codes: list[int], number: int) -> list[str]:
    sizes = Counter(code for code in codes if code >= 0)
    known = sum(sizes.values())
    if not known:
        return [f"column {number} has no ids: it says nothing"]
    largest = max(sizes.values())
    alone = sum(size for size in sizes.values() if size == 1)
    if known > 1 and largest > NEARLY_ALL * known:
        return [
            f"column {number} has one value in {largest / known:.0%} of its rows: nearly all would share a class"
        ]
    if alone > NEARLY_ALL * known:
        return [
            f"column {number} has a value of its own in {alone / known:.0%} of its rows: it says next to nothing"
        ]
    return []
