"""Arrays in files of NumPy and safetensors, and labels in lines of text."""

import csv
import json
import math
import re
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Blocks = Callable[[int], Iterator[Array]]

_SAFETENSORS = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    "BF16": "<u2",
    "I64": "<i8",
    "I32": "<i4",
    "I16": "<i2",
    "I8": "i1",
    "U8": "u1",
    "BOOL": "?",
}
_LONGEST_HEADER = 10**8  # the limit of the safetensors library


class Table(NamedTuple):
    """An array, and how to read it."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    blocks: Blocks
    """Consecutive blocks of at most so many rows."""


class _Header(NamedTuple):
    shape: tuple[int, ...]
    fortran: bool
    dtype: np.dtype[Any]
    start: int
    """Where the numbers begin."""


def sliced(shape: tuple[int, ...], part: Callable[[slice], Array]) -> Blocks:
    """Blocks of something that any slice of rows can be taken from."""
    return lambda most: (part(slice(start, start + most)) for start in range(0, shape[0], most))


def chosen(path: Path, name: str | None, names: Sequence[str], usual: str) -> str:
    """The array of this name; without a name the only one, or the one that has its usual name."""
    listed = ", ".join(names[:10]) + (f" and {len(names) - 10} more" if len(names) > 10 else "")
    if not names:
        raise ValueError(f"{path} must hold an array; it holds none")
    if name is not None:
        if name not in names:
            raise ValueError(f"{path} must hold {name!r}; it holds {listed}")
        return name
    if len(names) > 1 and usual not in names:
        raise ValueError(f"{path} holds several arrays: {listed}; choose one by {path}:NAME")
    return names[0] if len(names) == 1 else usual


def npy(path: Path, name: str | None, _usual: str) -> Table:
    """The array of a .npy file."""
    _without_name(path, name)
    with path.open("rb") as file:
        header = _header(file, path, path.stat().st_size)
    return Table(str(path), header.shape, header.dtype, _mapped(path, header))


def npz(path: Path, name: str | None, usual: str) -> Table:
    """An array of a .npz file, compressed or not; it is never unpacked as a whole."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = [member[:-4] for member in archive.namelist() if member.endswith(".npy")]
            name = chosen(path, name, members, usual)
            with archive.open(f"{name}.npy") as file:
                header = _header(file, f"{path}:{name}", archive.getinfo(f"{name}.npy").file_size)
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError) as error:
        raise ValueError(f"{path} must be a whole .npz file: {error}; write it again with np.savez") from error
    if header.fortran and len(header.shape) > 1:
        raise ValueError(
            f"{path}:{name} must be stored row by row; got Fortran order; save it with np.ascontiguousarray"
        )
    return Table(f"{path}:{name}", header.shape, header.dtype, lambda most: _unpacked(path, name, header, most))


def safetensors(path: Path, name: str | None, usual: str) -> Table:
    """A tensor of a .safetensors file."""
    tensors, origin = _safetensors_header(path)
    name = chosen(path, name, list(tensors), usual)
    full = f"{path}:{name}"
    try:
        kind, shape = str(tensors[name]["dtype"]), tuple(int(length) for length in tensors[name]["shape"])
        first, last = (int(offset) for offset in tensors[name]["data_offsets"])
    except (KeyError, TypeError, ValueError, OverflowError):
        raise ValueError(f"{full} must have dtype, shape and data_offsets in the header; write it again") from None
    if kind not in _SAFETENSORS:
        raise ValueError(
            f"{full} must have a dtype among {', '.join(_SAFETENSORS)}; got {kind}; cast it before saving"
        )
    dtype = np.dtype(_SAFETENSORS[kind])
    fits = min(first, *shape, 0) == 0 and last - first == math.prod(shape) * dtype.itemsize
    if not fits or origin + last > path.stat().st_size:
        raise ValueError(f"{full} is cut off, or its header does not fit its numbers; write it again")
    blocks = _mapped(path, _Header(shape, False, dtype, origin + first))
    if kind == "BF16":
        return Table(full, shape, np.dtype(np.float32), lambda most: map(_from_bfloat16, blocks(most)))
    return Table(full, shape, dtype, blocks)


def labels(path: Path, name: str | None, _usual: str) -> Table:
    """The labels of a text file, one a line: int64 where all are whole numbers, else strings."""
    _without_name(path, name)
    try:
        text = path.read_text(encoding="utf-8-sig").rstrip("\n ")
    except UnicodeDecodeError:
        raise ValueError(f"{path} must be text in UTF-8; it is not; save it as UTF-8") from None
    delimiter = {".csv": ",", ".tsv": "\t"}.get(path.suffix.lower())
    found = []
    for number, line in enumerate(text.split("\n") if text else [], start=1):
        fields = _fields(line, delimiter)
        if len(fields) != 1:
            raise ValueError(
                f"{path} must hold one label a line; line {number} holds {len(fields)}; "
                "embeddings go into .npy, .npz, .safetensors or .parquet"
            )
        found += fields
    # Not all that int() takes: 1_10 and 11_0 are two labels.
    whole = all(re.fullmatch(r"[+-]?[0-9]{1,18}", label) for label in found)
    array = np.array([int(label) for label in found], np.int64) if whole else np.array(found)
    return Table(str(path), array.shape, array.dtype, sliced(array.shape, lambda rows: array[rows]))


def _fields(line: str, delimiter: str | None) -> list[str]:
    if not line.strip():
        return []
    if delimiter is None:
        return [line.strip()]
    # Line by line, so that a quote that is never closed does not swallow the lines after it.
    fields = next(csv.reader([line], delimiter=delimiter)) if '"' in line else line.split(delimiter)
    return [field.strip() for field in fields]


def _safetensors_header(path: Path) -> tuple[dict[str, Any], int]:
    """Dtype, shape and place of every tensor, and where the places count from."""
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if length > min(path.stat().st_size - 8, _LONGEST_HEADER):
            raise ValueError(f"{path} must be a whole .safetensors file; its header is cut off; write it again")
        text = file.read(length)
    try:
        tensors = {name: entry for name, entry in json.loads(text).items() if name != "__metadata__"}
    except (ValueError, AttributeError, RecursionError):
        raise ValueError(
            f"{path} must be a .safetensors file; its header is no JSON object; write it again"
        ) from None
    return tensors, 8 + length


def _without_name(path: Path, name: str | None) -> None:
    if name is not None:
        raise ValueError(f"{path} holds one array without a name; got {name!r}; write {path} alone")


def _header(file: IO[bytes], name: object, size: int) -> _Header:
    """The header of an array in the format of np.save that has so many bytes, this file read up to its numbers."""
    try:
        version = np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, fortran, dtype = read(file)
    except (ValueError, EOFError, SyntaxError, tokenize.TokenError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(f"{name} must be an array saved by np.save: {reason}; write it again") from error
    if dtype.hasobject:
        raise ValueError(f"{name} holds Python objects, which are not read; save it as numbers or str with .astype")
    needed = file.tell() + math.prod(shape) * dtype.itemsize
    if size < needed:
        raise ValueError(f"{name} is cut off: its header asks for {needed} bytes; got {size}; write it again")
    return _Header(shape, fortran, dtype, file.tell())


def _mapped(path: Path, header: _Header) -> Blocks:
    shape, fortran, dtype, start = header

    def part(rows: slice) -> Array:
        if 0 in shape:  # nothing to map
            return np.empty(shape, dtype)[rows]
        # Anew for each block, so that the pages of those before do not stay in memory.
        return np.memmap(path, dtype, "r", start, shape, order="F" if fortran else "C")[rows]

    return sliced(shape, part)


def _unpacked(path: Path, name: str, header: _Header, most: int) -> Iterator[Array]:
    row_bytes = math.prod(header.shape[1:]) * header.dtype.itemsize
    try:
        with zipfile.ZipFile(path) as archive, archive.open(f"{name}.npy") as file:
            file.read(header.start)
            for start in range(0, header.shape[0], most):
                rows = min(most, header.shape[0] - start)
                content = _exactly(file, rows * row_bytes)
                yield np.ndarray((rows, *header.shape[1:]), header.dtype, content)
    except (zipfile.BadZipFile, zlib.error, EOFError, TypeError) as error:
        raise ValueError(f"{path}:{name} is damaged: {error}; write it again with np.savez") from error


def _exactly(file: IO[bytes], size: int) -> bytes:
    # Bit by bit, since zipfile takes as many packed bytes as it is asked for unpacked ones, and keeps the rest.
    return b"".join(file.read(min(2**20, size - start)) for start in range(0, size, 2**20))


def _from_bfloat16(bits: Array) -> Array:
    return (bits.astype(np.uint32) << 16).view(np.float32)
