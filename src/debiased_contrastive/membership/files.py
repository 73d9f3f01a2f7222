"""Files with a row for every sample of a training: groups, or the embeddings of a guide."""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from debiased_contrastive.tables import open_table

Array = npt.NDArray[Any]


def read_rows(source: str, file: Path | None, samples: int) -> Array | None:
    """Read what the source, groups or guide, says of every sample; None where there is no file."""
    if file is None:
        return None
    return read_groups(file, samples) if source == "groups" else read_guide(file, samples)


def join_digest(digest: str, rows: Array | None) -> str:
    """A digest of the data and, if there are any, of the rows that were read beside them."""
    return digest if rows is None else hashlib.sha256(digest.encode() + rows.tobytes()).hexdigest()


def read_groups(path: Path, samples: int) -> Array:
    """Read (n, B) whole numbers or words, the groups of n samples."""
    rows = _read(path, "groups", samples).reshape(samples, -1)
    if rows.dtype.kind not in "iuUSb" or not rows.shape[1]:
        raise ValueError(
            f"{path} must hold groups, whole numbers or words, one or several for each sample; got {rows.dtype} of "
            f"shape {rows.shape}: embeddings are a guide"
        )
    return rows


def read_guide(path: Path, samples: int) -> Array:
    """Read (n, d) embeddings of n samples."""
    rows = _read(path, "features", samples)
    if rows.dtype.kind != "f" or rows.ndim != 2:
        raise ValueError(
            f"{path} must hold embeddings (n, d) of a guide; got {rows.dtype} of shape {rows.shape}: whole numbers "
            "and words are groups"
        )
    wrong = np.flatnonzero(~np.isfinite(rows).all(1))
    if len(wrong):
        raise ValueError(
            f"{path} must hold finite embeddings of a guide; got NaN or inf in {len(wrong):,} of {samples:,} rows, "
            f"the first is row {wrong[0]:,}, counted from 0: embed it again, or write zeros, which are unknown"
        )
    return rows


def _read(path: Path, name: str, samples: int) -> Array:
    table = open_table(path, name)
    if table.shape[0] != samples:
        raise ValueError(
            f"{path} must have a row for each of the {samples:,} samples that are trained on, in their order; got "
            f"{table.shape[0]:,}: write it for the same data"
        )
    return np.concatenate(list(table.blocks()))
