"""Tables that may be larger than memory, read once, in order, in blocks of rows."""

import errno
import math
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from debiased_contrastive.auditing.formats import Array, Table, labels, npy, npz, safetensors, sliced
from debiased_contrastive.auditing.parquet import parquet

BLOCK_BYTES = 2**25

_FORMATS: dict[str, Callable[[Path, str | None, str], Table]] = {
    ".npy": npy,
    ".npz": npz,
    ".safetensors": safetensors,
    ".parquet": parquet,
    ".csv": labels,
    ".tsv": labels,
    ".txt": labels,
}


@dataclass(frozen=True)
class Rows:
    """A table on disk or in memory, read in blocks of rows."""

    name: str
    """For messages: `views.npz:z0` for a file, the given name for an array."""
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    """Of the blocks: fractions come as float32 or float64, all else as it is, in the order of this machine."""
    blocks: Callable[[], Iterator[Array]]
    """Consecutive blocks of rows, from the start each time it is called; whoever reads one may change it."""


def rows_of(source: Any, name: str) -> Rows:
    """The rows of a file, `FILE` or `FILE:NAME`, or of an array or tensor, which messages call `name`.

    NAME picks an array of .npz, a tensor of .safetensors, a column of .parquet. Without it, the only one is
    read, or the one called `name`. Of .parquet that is the only column of lists, and where there is none, all
    columns of fractions side by side. In .csv, .tsv and .txt there is one label a line.
    """
    if isinstance(source, str | os.PathLike):
        table = _file(os.fspath(source), name)
    elif hasattr(source, "detach"):
        table = _tensor(source, name)
    else:
        table = _array(source, name)
    if table.dtype.kind not in "biufUS":
        raise ValueError(f"{table.name} must hold numbers or strings; got {table.dtype}; convert it with .astype")
    if not table.shape:
        raise ValueError(f"{table.name} must hold rows; got a single value of shape ()")
    return _in_blocks(table)


def _in_blocks(table: Table) -> Rows:
    # Neither another byte order nor long doubles are dtypes that torch knows.
    dtype = table.dtype.newbyteorder("=")
    if dtype.kind == "f":
        dtype = np.dtype(np.float32 if dtype.itemsize <= 4 else np.float64)

    def blocks() -> Iterator[Array]:
        row_bytes = max(1, math.prod(table.shape[1:]) * dtype.itemsize)
        # Copied, so that no block is a view of a file or of the caller's array.
        return (np.array(block, dtype, order="C") for block in table.blocks(max(1, BLOCK_BYTES // row_bytes)))

    return Rows(table.name, table.shape, dtype, blocks)


def _file(text: str, usual: str) -> Table:
    path, name = _split(text)
    if not path.exists():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
    known = ", ".join(_FORMATS)
    if path.is_dir():
        raise ValueError(f"{path} is a folder; expected a file that ends in one of {known}")
    if path.suffix.lower() not in _FORMATS:
        raise ValueError(f"{path} must end in one of {known}; got {path.suffix or 'no ending'!r}")
    return _FORMATS[path.suffix.lower()](path, name, usual)


def _split(text: str) -> tuple[Path, str | None]:
    file, colon, name = text.rpartition(":")
    # Else the colon belongs to the path, as that of a drive does.
    named = colon and not os.path.exists(text) and (os.path.exists(file) or Path(file).suffix.lower() in _FORMATS)
    return (Path(file), name) if named else (Path(text), None)


def _array(source: Any, name: str) -> Table:
    try:
        array = np.asarray(source)
    except ValueError:
        raise ValueError(f"{name} must have rows of one length; got rows of several") from None
    # So do pandas and pyarrow hand over strings.
    if array.dtype == object and array.ndim and all(isinstance(item, str) for item in array.flat):
        array = array.astype(str)
    return Table(name, array.shape, array.dtype, sliced(array.shape, lambda rows: array[rows]))


def _tensor(tensor: Any, name: str) -> Table:
    # By parts, since the tensor may be on a device and larger than the memory here.
    blocks = sliced(tuple(tensor.shape), lambda rows: _from_torch(tensor[rows]))
    return Table(name, tuple(tensor.shape), _from_torch(tensor.new_empty(0)).dtype, blocks)


def _from_torch(tensor: Any) -> Array:
    plain = tensor.detach().cpu()
    # NumPy has no bfloat16.
    half = plain.is_floating_point() and plain.element_size() < 4
    array: Array = (plain.float() if half else plain).numpy()
    return array
