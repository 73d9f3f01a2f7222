"""A random sample of embeddings of any size, in one pass that checks every row."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from debiased_contrastive.tables import Array, Table, open_table

FEWEST_ROWS = 50
"""Smallest number of rows that is audited."""
KEPT_ROWS = 20_000
"""Number of rows that are sampled at least, if there are as many."""
KEPT_BYTES = 2**29
"""Largest memory of the sampled rows."""

Indices = npt.NDArray[np.int64]
Progress = Callable[[int, int, str], None]
"""Called with the amount done, the total amount, and what is being done."""


@dataclass(frozen=True)
class Sample:
    """Rows drawn at random, as unit vectors, with their positives and labels."""

    z: Tensor
    """(s, d)"""
    index: Tensor
    """(s,) place of each row in the file."""
    positive: Tensor | None
    """(s, d) a positive of each row, if pairs are given."""
    positive_index: Tensor
    """(s,) place of the positive in the file; -1 if it is from elsewhere or there is none."""
    labels: Tensor | None
    """(s,) class numbers."""

    def __len__(self) -> int:
        return len(self.z)


@dataclass(frozen=True)
class Pairs:
    """Positives, as rows or as places of rows."""

    rows: Table
    """A positive for each row, (n, d); or the places of pairs, (m, 2)."""
    are_places: bool


def draw_sample(
    embeddings: Table, pairs: Pairs | None, classes: Indices | None, *, wanted: int, seed: int, progress: Progress
) -> Sample:
    """Draw rows of the file with their positives and classes; classes (n,) of -1, unknown, are not drawn."""
    n, d = embeddings.shape
    generator = np.random.default_rng(seed)
    count = min(max(KEPT_ROWS, wanted), max(FEWEST_ROWS, KEPT_BYTES // (4 * d)))
    known = np.arange(n) if classes is None else np.flatnonzero(classes >= 0)
    if pairs is not None and pairs.are_places:
        chosen, partner = _draw_pairs(pairs.rows, n, known, count, generator)
        every, place = np.unique(np.concatenate([chosen, partner]), return_inverse=True)
        rows = read_unit_rows(embeddings, every, progress)
        z, positive = rows[place[: len(chosen)]], rows[place[len(chosen) :]]
    else:
        chosen = np.sort(generator.choice(known, min(count, len(known)), replace=False, shuffle=False))
        partner = np.full(len(chosen), -1)
        z = read_unit_rows(embeddings, chosen, progress)
        positive = z if pairs is None else read_unit_rows(pairs.rows, chosen, progress)
    # The order is random, so that any part is a random part.
    order = generator.permutation(len(chosen))
    return Sample(
        z=torch.from_numpy(z[order]),
        index=torch.from_numpy(chosen[order]),
        positive=None if pairs is None else torch.from_numpy(positive[order]),
        positive_index=torch.from_numpy(partner[order]),
        labels=None if classes is None else torch.from_numpy(classes[chosen[order]]),
    )


def read_unit_rows(rows: Table, chosen: Indices, progress: Progress) -> npt.NDArray[np.float32]:
    """Read the rows at these sorted places as unit vectors; raise if any row of the table is bad."""
    kept = np.empty((len(chosen), rows.shape[1]), np.float32)
    start, bad, first = 0, 0, -1
    for block in rows.blocks():
        # Only a row that has a direction has a finite and positive square.
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
        progress(start, rows.shape[0], f"reading {rows.name}")
    if bad:
        raise ValueError(
            f"{rows.name} must hold finite rows that are not zero; got {bad} of {rows.shape[0]} that are not, the "
            f"first is row {first}: drop them, or look at the encoder that made them"
        )
    return kept


def read_rows(rows: Table, chosen: Indices, progress: Progress) -> Array:
    """Read the rows at these sorted places as they are."""
    kept, start = [], 0
    for block in rows.blocks():
        low, high = np.searchsorted(chosen, (start, start + len(block)))
        kept.append(block[chosen[low:high] - start])
        start += len(block)
        progress(start, rows.shape[0], f"reading {rows.name}")
    return np.concatenate(kept)


def open_embeddings(source: Any, name: str, like: Table | None = None) -> Table:
    """Open a table with one embedding a row, of the shape of `like` if that is given."""
    rows = open_table(source, name)
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
    if rows.shape[0] < FEWEST_ROWS:
        raise ValueError(f"{rows.name} must have at least {FEWEST_ROWS} rows to say anything; got {rows.shape[0]}")
    return rows


def open_pairs(source: Any, embeddings: Table) -> Pairs:
    """Open positives of all rows, or the places (m, 2) of pairs among them."""
    rows = open_table(source, "pairs")
    if rows.dtype.kind not in "iu" or len(rows.shape) != 2 or rows.shape[1] != 2:
        return Pairs(open_embeddings(source, "pairs", embeddings), are_places=False)
    if rows.shape == embeddings.shape:
        raise ValueError(
            f"{rows.name} may be places of pairs or positives of two features, which cannot be told: give "
            "positives as fractions, with .astype(float), or one pair less"
        )
    return Pairs(rows, are_places=True)


def read_labels(source: Any, embeddings: Table) -> tuple[Indices, list[str]]:
    """Read class numbers (n,) and the classes' names; empty words and negative numbers are unknown, -1."""
    rows = open_table(source, "labels")
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
    if len(names) < 2 or len(codes) < FEWEST_ROWS:
        raise ValueError(
            f"{rows.name} must name at least two classes of at least {FEWEST_ROWS} rows together; got {len(names)} "
            f"classes of {len(codes)} rows"
        )
    classes = np.full(n, -1)
    classes[~unknown] = codes
    return classes, [str(name) for name in names]


def _draw_pairs(
    pairs: Table, n: int, known: Indices, count: int, generator: np.random.Generator
) -> tuple[Indices, Indices]:
    """Draw sorted places of rows that have a pair, and the place of a partner of each."""
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
    # One pair for each anchor, or else it would be among its own unlabeled samples.
    shuffled = generator.permutation(places)
    chosen, first_of = np.unique(shuffled[:, 0], return_index=True)
    if len(chosen) < FEWEST_ROWS:
        raise ValueError(f"{pairs.name} must pair at least {FEWEST_ROWS} different rows; got {len(chosen)}")
    picked = np.sort(generator.permutation(len(chosen))[:count])
    return chosen[picked], shuffled[first_of[picked], 1]
