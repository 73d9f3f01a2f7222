"""One pass over embeddings of any size: every row is looked at, some are kept."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from debiased_contrastive.auditing.reading import Rows, rows_of

FEWEST = 50
"""Rows below which nothing can be said."""
KEPT = 20_000
"""Rows that are kept at least, if there are as many."""
MOST_BYTES = 2**29
"""Size that the kept rows may have in memory."""

Indices = npt.NDArray[np.int64]
Shown = Callable[[int, int, str], None]
"""Told how much of how much is done, and of what."""


@dataclass(frozen=True)
class Sample:
    """Rows that were drawn at random, as unit vectors, and what is known of each."""

    z: Tensor
    """(s, d)"""
    index: Tensor
    """(s,) where each stands in the file."""
    positive: Tensor | None
    """(s, d) a positive of each, if pairs are given."""
    positive_index: Tensor
    """(s,) where that stands in the file; -1 if it is from elsewhere or there is none."""
    labels: Tensor | None
    """(s,) class numbers."""

    def __len__(self) -> int:
        return len(self.z)


@dataclass(frozen=True)
class Pairs:
    """Where positives are from."""

    rows: Rows
    """A positive for each row; or, as `places`, (m, 2) whole numbers."""
    places: bool


def drawn(
    embeddings: Rows, pairs: Pairs | None, classes: Indices | None, *, wanted: int, seed: int, shown: Shown
) -> Sample:
    """Rows of the file, each with its positive and class; classes (n,), -1 = unknown: only known ones are drawn."""
    n, d = embeddings.shape
    generator = np.random.default_rng(seed)
    count = min(max(KEPT, wanted), max(FEWEST, MOST_BYTES // (4 * d)))
    known = np.arange(n) if classes is None else np.flatnonzero(classes >= 0)
    if pairs is not None and pairs.places:
        chosen, partner = _index_pairs(pairs.rows, n, known, count, generator)
        every, place = np.unique(np.concatenate([chosen, partner]), return_inverse=True)
        found = unit_rows_of(embeddings, every, shown)
        z, positive = found[place[: len(chosen)]], found[place[len(chosen) :]]
    else:
        chosen = np.sort(generator.choice(known, min(count, len(known)), replace=False, shuffle=False))
        partner = np.full(len(chosen), -1)
        z = unit_rows_of(embeddings, chosen, shown)
        positive = unit_rows_of(pairs.rows, chosen, shown) if pairs is not None else np.empty((0, d), np.float32)
    # In random order, so that any part of it is a random part.
    order = generator.permutation(len(chosen))
    return Sample(
        z=torch.from_numpy(z[order]),
        index=torch.from_numpy(chosen[order]),
        positive=None if pairs is None else torch.from_numpy(positive[order]),
        positive_index=torch.from_numpy(partner[order]),
        labels=None if classes is None else torch.from_numpy(classes[chosen[order]]),
    )


def unit_rows_of(rows: Rows, chosen: Indices, shown: Shown) -> npt.NDArray[np.float32]:
    """These rows, by rising index, as unit vectors; all rows are looked at, and bad ones refused."""
    kept = np.empty((len(chosen), rows.shape[1]), np.float32)
    start, bad, first = 0, 0, -1
    for block in rows.blocks():
        # A product with itself is finite and positive only for a row that has a direction.
        squares = np.einsum("nd,nd->n", block, block, dtype=np.float64)
        wrong = ~(np.isfinite(squares) & (squares > 0))
        if wrong.any():
            first = start + int(wrong.argmax()) if first < 0 else first
            bad += int(wrong.sum())
        low, high = np.searchsorted(chosen, (start, start + len(block)))
        here = chosen[low:high] - start
        with np.errstate(divide="ignore", invalid="ignore"):
            kept[low:high] = block[here] / np.sqrt(squares[here, None])
        start += len(block)
        shown(start, rows.shape[0], f"reading {rows.name}")
    if bad:
        raise ValueError(
            f"{rows.name} must hold finite rows that are not zero; got {bad} of {rows.shape[0]} that are not, the "
            f"first is row {first}: drop them, or look at the encoder that made them"
        )
    return kept


def checked_embeddings(source: Any, name: str, like: Rows | None = None) -> Rows:
    """A table of numbers, one embedding a row; as many and as wide as `like`, if that is given."""
    rows = rows_of(source, name)
    if len(rows.shape) != 2 or rows.dtype.kind not in "fiu" or rows.shape[1] < 2:
        raise ValueError(
            f"{rows.name} must hold numbers of shape (rows, features), at least two features; got {rows.dtype} of "
            f"shape {rows.shape}: one embedding a row"
        )
    if like is not None and rows.shape != like.shape:
        raise ValueError(
            f"{rows.name} must hold one positive for each row of {like.name}, shape {like.shape}, or whole numbers "
            f"(pairs, 2), the places of pairs in it; got {rows.dtype} of shape {rows.shape}"
        )
    if rows.shape[0] < FEWEST:
        raise ValueError(f"{rows.name} must have at least {FEWEST} rows to say anything; got {rows.shape[0]}")
    return rows


def checked_pairs(source: Any, embeddings: Rows) -> Pairs:
    """Positives of all rows, or the places (m, 2) of pairs among them."""
    rows = rows_of(source, "pairs")
    if rows.dtype.kind not in "iu" or len(rows.shape) != 2 or rows.shape[1] != 2:
        return Pairs(checked_embeddings(source, "pairs", embeddings), places=False)
    if rows.shape == embeddings.shape:
        raise ValueError(
            f"{rows.name} may be places of pairs or positives of two features, which cannot be told: give "
            "positives as fractions, with .astype(float), or one pair less"
        )
    return Pairs(rows, places=True)


def checked_labels(source: Any, embeddings: Rows) -> tuple[Indices, list[str]]:
    """Class numbers (n,), -1 = unknown, and the classes' names; unknown are empty words and negative numbers."""
    rows = rows_of(source, "labels")
    n = embeddings.shape[0]
    if rows.shape != (n,) and rows.shape != (n, 1):
        raise ValueError(
            f"{rows.name} must hold one label for each of the {n} rows of {embeddings.name}; got shape {rows.shape}"
        )
    values = np.concatenate(list(rows.blocks())).reshape(n)
    if values.dtype.kind == "S":
        values = np.char.decode(values, "utf-8", "replace")
    if values.dtype.kind == "f":
        if not ((np.abs(values) < 2**53) & (values == np.round(values))).all():
            raise ValueError(f"{rows.name} must hold whole numbers or words; got numbers with fractions or NaN")
        values = values.astype(np.int64)
    unknown = np.isin(values, ["", "-1"]) if values.dtype.kind == "U" else values < 0
    names, codes = np.unique(values[~unknown], return_inverse=True)
    if len(names) < 2 or len(codes) < FEWEST:
        raise ValueError(
            f"{rows.name} must name at least two classes of at least {FEWEST} rows together; got {len(names)} "
            f"classes of {len(codes)} rows"
        )
    classes = np.full(n, -1)
    classes[~unknown] = codes
    return classes, [str(name) for name in names]


def _index_pairs(
    pairs: Rows, n: int, known: Indices, count: int, generator: np.random.Generator
) -> tuple[Indices, Indices]:
    """Rows that have a pair, drawn at random, rising, and a partner of each."""
    places = np.concatenate(list(pairs.blocks())).astype(np.int64)
    wrong = (places < 0) | (places >= n) | (places[:, :1] == places[:, 1:])
    if wrong.any():
        first = int(wrong.any(1).argmax())
        raise ValueError(
            f"{pairs.name} must hold pairs of two different rows, from 0 to {n - 1}; got {places[first].tolist()} "
            f"in line {first}"
        )
    if len(known) < n:
        places = places[np.isin(places[:, 0], known)]
    # One pair for each anchor, else it would be among its own unlabeled samples.
    shuffled = generator.permutation(places)
    chosen, first_of = np.unique(shuffled[:, 0], return_index=True)
    if len(chosen) < FEWEST:
        raise ValueError(f"{pairs.name} must pair at least {FEWEST} different rows; got {len(chosen)}")
    picked = np.sort(generator.permutation(len(chosen))[:count])
    return chosen[picked], shuffled[first_of[picked], 1]
