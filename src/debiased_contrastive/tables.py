"""Tables in files and in memory, which may be larger than memory: they are read in blocks of rows, in order."""

import csv
import errno
import math
import os
import re
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from debiased_contrastive.files import import_pyarrow, open_parquet

Array = npt.NDArray[Any]
Reader = Callable[[int], Iterator[Array]]
"""From a number of rows to consecutive blocks of at most as many, from the start of the table."""

BLOCK_BYTES = 2**25
_LISTS = ("list<", "large_list<", "fixed_size_list<")


@dataclass(frozen=True)
class Table:
    """An array that is read in blocks."""

    name: str
    """For messages: `views.npz:z0` for a file, the given name for an array."""
    shape: tuple[int, ...]
    stored: np.dtype[Any]
    read: Reader

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the blocks, one that torch knows: float32 or float64 for fractions, in native byte order."""
        dtype = self.stored.newbyteorder("=")
        return np.dtype(np.float32 if dtype.itemsize <= 4 else np.float64) if dtype.kind == "f" else dtype

    def blocks(self) -> Iterator[Array]:
        """Consecutive blocks of rows, from the start each time; callers may change them."""
        row_bytes = max(1, math.prod(self.shape[1:]) * self.dtype.itemsize)
        # Copied, so that no block is a view of a file or of the caller's array.
        return (np.array(block, self.dtype, order="C") for block in self.read(max(1, BLOCK_BYTES // row_bytes)))


def open_table(source: Any, name: str) -> Table:
    """Open the table of a file, `FILE` or `FILE:NAME`, or of an array or tensor, which messages call `name`.

    NAME picks an array of .npz, a tensor of .safetensors, a column of .parquet. Without it, the only one is
    read, or the one called `name`. In .parquet that is the only column of lists, and where there is none, all
    columns of fractions side by side. In .csv, .tsv and .txt there is one label a line.
    """
    if isinstance(source, str | os.PathLike):
        table = _open_file(os.fspath(source), name)
    elif hasattr(source, "detach"):
        table = _tensor_table(name, tuple(source.shape), lambda rows: source[rows])
    else:
        table = _array_table(source, name)
    if not table.shape:
        raise ValueError(f"{table.name} must hold rows; got a single value of shape ()")
    if table.stored.kind not in "biufUS":
        raise ValueError(f"{table.name} must hold numbers or strings; got {table.stored}; convert it with .astype")
    return table


def _open_file(text: str, usual: str) -> Table:
    file, colon, name = text.rpartition(":")
    # Otherwise the colon belongs to the path, like that of a drive.
    named = colon and not os.path.exists(text) and (os.path.exists(file) or Path(file).suffix.lower() in _FORMATS)
    path = Path(file if named else text)
    if not path.exists():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
    known = ", ".join(_FORMATS)
    if path.is_dir():
        raise ValueError(f"{path} is a folder; expected a file that ends in one of {known}")
    if path.suffix.lower() not in _FORMATS:
        raise ValueError(f"{path} must end in one of {known}; got {path.suffix or 'no ending'!r}")
    if named and path.suffix.lower() not in (".npz", ".safetensors", ".parquet"):
        raise ValueError(f"{path} holds one array without a name; got {name!r}; write {path} alone")
    return _FORMATS[path.suffix.lower()](path, name if named else None, usual)


def _array_table(source: Any, name: str) -> Table:
    try:
        array = np.asarray(source)
    except ValueError:
        raise ValueError(f"{name} must have rows of one length; got rows of several") from None
    # Strings from pandas and pyarrow are objects.
    if array.dtype == object and array.ndim and all(isinstance(item, str) for item in array.flat):
        array = array.astype(str)
    return Table(name, array.shape, array.dtype, _by_slices(array.shape, lambda rows: array[rows]))


def _tensor_table(name: str, shape: tuple[int, ...], part: Callable[[slice], Any]) -> Table:
    """The table of a tensor; `part` returns any slice of its rows."""

    def plain(rows: slice) -> Array:
        tensor = part(rows).detach().cpu()
        # NumPy has no bfloat16.
        half = tensor.is_floating_point() and tensor.element_size() < 4
        return np.asarray((tensor.float() if half else tensor).numpy())

    # Read in parts, since the tensor may be on a device and larger than the memory here.
    dtype = plain(slice(0, 0)).dtype if shape else np.dtype(np.float32)
    return Table(name, shape, dtype, _by_slices(shape, plain))


def _by_slices(shape: tuple[int, ...], part: Callable[[slice], Array]) -> Reader:
    return lambda most: (part(slice(start, start + most)) for start in range(0, shape[0], most))


def _choose(path: Path, name: str | None, names: Sequence[str], usual: str) -> str:
    """Choose the array of this name, or without a name the only one, or the one of the usual name."""
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


def _open_labels(path: Path, _name: str | None, _usual: str) -> Table:
    """Open the labels of a text file, one a line: int64 if all are whole numbers, else strings."""
    try:
        text = path.read_text(encoding="utf-8-sig").rstrip("\n ")
    except UnicodeDecodeError:
        raise ValueError(f"{path} must be text in UTF-8; it is not; save it as UTF-8") from None
    delimiter = {".csv": ",", ".tsv": "\t"}.get(path.suffix.lower())
    found = []
    for number, line in enumerate(text.split("\n") if text else [], start=1):
        fields = _split_line(line, delimiter)
        if len(fields) != 1:
            raise ValueError(
                f"{path} must hold one label a line; line {number} holds {len(fields)}; "
                "embeddings go into .npy, .npz, .safetensors or .parquet"
            )
        found += fields
    # Stricter than int(), for which 1_10 and 11_0 are the same number.
    whole = all(re.fullmatch(r"[+-]?[0-9]{1,18}", label) for label in found)
    return _array_table(np.array([int(label) for label in found], np.int64) if whole else found, str(path))


def _split_line(line: str, delimiter: str | None) -> list[str]:
    if not line.strip():
        return []
    if delimiter is None:
        return [line.strip()]
    # Line by line, so that a quote that is never closed does not swallow the lines after it.
    fields = next(csv.reader([line], delimiter=delimiter)) if '"' in line else line.split(delimiter)
    return [field.strip() for field in fields]


def _open_safetensors(path: Path, name: str | None, usual: str) -> Table:
    with _safetensors_file(path) as file:
        chosen = _choose(path, name, list(file.keys()), usual)
        shape = tuple(file.get_slice(chosen).get_shape())

    def part(rows: slice) -> Any:
        # Opened anew for each block, so that the pages of those before do not stay in memory.
        with _safetensors_file(path) as file:
            return file.get_slice(chosen)[rows]

    return _tensor_table(f"{path}:{chosen}", shape, part)


@contextmanager
def _safetensors_file(path: Path) -> Iterator[Any]:
    try:
        from safetensors import SafetensorError, safe_open
    except ImportError:
        raise ValueError(
            "reading .safetensors needs safetensors: pip install 'debiased-contrastive[prior]'"
        ) from None
    try:
        with safe_open(path, "pt") as file:
            yield file
    except SafetensorError as error:
        raise ValueError(f"{path} must be a whole .safetensors file: {error}; write it again") from error


def _read_header(file: IO[bytes], name: object, size: int) -> tuple[tuple[int, ...], bool, np.dtype[Any], int]:
    """Shape, Fortran order, dtype and the place of the numbers of an array that np.save wrote in so many bytes."""
    try:
        version = np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, is_fortran, dtype = read(file)
    except (ValueError, EOFError, SyntaxError, tokenize.TokenError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(f"{name} must be an array saved by np.save: {reason}; write it again") from error
    if dtype.hasobject:
        raise ValueError(f"{name} holds Python objects, which are not read; save it as numbers or str with .astype")
    needed = file.tell() + math.prod(shape) * dtype.itemsize
    if size < needed:
        raise ValueError(f"{name} is cut off: its header asks for {needed} bytes; got {size}; write it again")
    return shape, is_fortran, dtype, file.tell()


def _open_npy(path: Path, _name: str | None, _usual: str) -> Table:
    with path.open("rb") as file:
        shape, is_fortran, dtype, start = _read_header(file, path, path.stat().st_size)

    def part(rows: slice) -> Array:
        # Mapped anew for each block, so that the pages of those before do not stay in memory.
        return np.memmap(path, dtype, "r", start, shape, order="F" if is_fortran else "C")[rows]

    if 0 in shape:  # nothing to map
        return _array_table(np.empty(shape, dtype), str(path))
    return Table(str(path), shape, dtype, _by_slices(shape, part))


def _open_npz(path: Path, name: str | None, usual: str) -> Table:
    """An array of a .npz file, compressed or not; it is never unpacked as a whole."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = [member[:-4] for member in archive.namelist() if member.endswith(".npy")]
            chosen = _choose(path, name, members, usual)
            with archive.open(f"{chosen}.npy") as file:
                size = archive.getinfo(f"{chosen}.npy").file_size
                shape, is_fortran, dtype, start = _read_header(file, f"{path}:{chosen}", size)
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError) as error:
        raise ValueError(f"{path} must be a whole .npz file: {error}; write it again with np.savez") from error
    if is_fortran and len(shape) > 1:
        raise ValueError(
            f"{path}:{chosen} must be stored row by row; got Fortran order; save it with np.ascontiguousarray"
        )

    def unpack(most: int) -> Iterator[Array]:
        try:
            with zipfile.ZipFile(path) as archive, archive.open(f"{chosen}.npy") as file:
                file.read(start)
                for first in range(0, shape[0], most):
                    part = (min(most, shape[0] - first), *shape[1:])
                    size = math.prod(part) * dtype.itemsize
                    # By parts: zipfile reads as many packed bytes as unpacked ones are asked for, and keeps them.
                    content = [file.read(min(2**20, size - done)) for done in range(0, size, 2**20)]
                    yield np.ndarray(part, dtype, b"".join(content))
        except (zipfile.BadZipFile, zlib.error, EOFError, TypeError) as error:
            raise ValueError(f"{path}:{chosen} is damaged: {error}; write it again with np.savez") from error

    return Table(f"{path}:{chosen}", shape, dtype, unpack)


def _open_parquet(path: Path, name: str | None, usual: str) -> Table:
    """A column of numbers, of strings or of lists of numbers, or all columns of fractions side by side."""
    types = import_pyarrow("prior").types
    with open_parquet(path, "prior") as file:
        kinds, length = {field.name: field.type for field in file.schema_arrow}, file.metadata.num_rows
    # The columns that pandas adds for its index are no data.
    kinds = {each: kind for each, kind in kinds.items() if not each.startswith("__index_level_")}
    lists = [each for each, kind in kinds.items() if str(kind).startswith(_LISTS)]
    if name is None and not lists and usual not in kinds:
        # Whole numbers beside fractions are ids or labels; all are features if all are whole numbers.
        fractions = [each for each, kind in kinds.items() if types.is_floating(kind)]
        features = fractions or (list(kinds) if all(types.is_integer(kind) for kind in kinds.values()) else [])
        if len(features) > 1:
            dtype = np.result_type(*(kinds[each].to_pandas_dtype() for each in features))
            return Table(str(path), (length, len(features)), dtype, lambda most: _stack(path, features, most))
    chosen = _choose(path, name, lists if lists and name is None and usual not in kinds else list(kinds), usual)
    return _open_column(path, chosen, kinds[chosen], length)


def _open_column(path: Path, name: str, kind: Any, length: int) -> Table:
    types = import_pyarrow("prior").types
    full = f"{path}:{name}"
    if str(kind).startswith(_LISTS) and (types.is_integer(kind.value_type) or types.is_floating(kind.value_type)):
        if types.is_fixed_size_list(kind):
            width = int(kind.list_size)
        else:
            first = next(_read_columns(path, [name], 1), None)
            width = 0 if first is None else len(_to_numpy(first[0], full, 0)[0])
        dtype = np.dtype(kind.value_type.to_pandas_dtype())
        return Table(full, (length, width), dtype, lambda most: _read_lists(path, name, width, most))

    def scalars(most: int) -> Iterator[Array]:
        return (block[:, 0] for block in _stack(path, [name], most))

    if types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind):
        return Table(full, (length,), np.dtype(kind.to_pandas_dtype()), scalars)
    inner = kind.value_type if types.is_dictionary(kind) else kind
    if not (types.is_string(inner) or types.is_large_string(inner)):
        raise ValueError(
            f"{full} must hold numbers, strings or lists of numbers; got {kind}; cast it to one of them"
        )
    widest = np.dtype("U1")
    for block in scalars(2**16):
        widest = np.promote_types(widest, block.astype(str).dtype)
    return Table(full, (length,), widest, scalars)


def _read_lists(path: Path, name: str, width: int, most: int) -> Iterator[Array]:
    from pyarrow.compute import list_value_length  # type: ignore[import-untyped]

    full, done = f"{path}:{name}", 0
    for (column,) in _read_columns(path, [name], most):
        # As floats, so that a null becomes NaN.
        lengths = list_value_length(column).cast("float64").to_numpy(zero_copy_only=False)
        wrong = np.flatnonzero(lengths != width)
        if len(wrong):
            what = "is null" if np.isnan(lengths[wrong[0]]) else f"has {lengths[wrong[0]]:.0f}"
            row = f"row {done + wrong[0]}, from 0, {what}"
            raise ValueError(f"{full} must hold lists of one length, here {width}; {row}")
        yield _to_numpy(column.flatten(), full, done, width).reshape(len(column), width)
        done += len(column)


def _stack(path: Path, names: Sequence[str], most: int) -> Iterator[Array]:
    """Read these columns side by side."""
    done = 0
    for columns in _read_columns(path, names, most):
        found = [_to_numpy(column, f"{path}:{name}", done) for name, column in zip(names, columns, strict=True)]
        yield np.stack(found, axis=1)
        done += len(found[0])


def _read_columns(path: Path, names: Sequence[str], most: int) -> Iterator[list[Any]]:
    with open_parquet(path, "prior") as file:
        # Fewer rows than allowed, since pyarrow takes about ten times the memory of a batch of lists.
        for batch in file.iter_batches(batch_size=max(1, most // 8), columns=list(names)):
            yield [batch.column(name) for name in names]


def _to_numpy(column: Any, full: str, done: int, width: int = 1) -> Array:
    """The values of a column without nulls, `width` of them for each row after the first `done`."""
    if column.null_count:
        place = int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0]) // width
        raise ValueError(f"{full} must hold no nulls; row {done + place}, from 0, has one; drop or fill such rows")
    return np.asarray(column.to_numpy(zero_copy_only=False))


_FORMATS: dict[str, Callable[[Path, str | None, str], Table]] = {
    ".npy": _open_npy,
    ".npz": _open_npz,
    ".safetensors": _open_safetensors,
    ".parquet": _open_parquet,
    ".csv": _open_labels,
    ".tsv": _open_labels,
    ".txt": _open_labels,
}
