"""Columns of parquet files."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from debiased_contrastive.auditing.formats import Array, Table, chosen
from debiased_contrastive.parquet import opened, pyarrow_of


def parquet(path: Path, name: str | None, usual: str) -> Table:
    """A column of numbers, of strings or of lists of numbers, or all columns of fractions side by side."""
    with opened(path, "prior") as file:
        # What pandas adds for an index of its own is no data.
        kinds = {
            field.name: field.type for field in file.schema_arrow if not field.name.startswith("__index_level_")
        }
        length = file.metadata.num_rows
    lists = [each for each, kind in kinds.items() if _is_list(kind)]
    if name is None and not lists and usual not in kinds and (side_by_side := _features(kinds)):
        dtype = np.result_type(*(kinds[each].to_pandas_dtype() for each in side_by_side))
        return Table(str(path), (length, len(side_by_side)), dtype, lambda most: _stacked(path, side_by_side, most))
    name = chosen(path, name, lists if lists and name is None and usual not in kinds else list(kinds), usual)
    return _column(path, name, kinds[name], length)


def _features(kinds: dict[str, Any]) -> list[str]:
    """The columns of fractions, since whole numbers beside them are ids or labels; all if all are whole numbers."""
    fractions = [each for each, kind in kinds.items() if _pyarrow().types.is_floating(kind)]
    numbers = [each for each, kind in kinds.items() if _is_number(kind)]
    found = fractions or (numbers if len(numbers) == len(kinds) else [])
    return found if len(found) > 1 else []


def _column(path: Path, name: str, kind: Any, length: int) -> Table:
    full = f"{path}:{name}"
    if _is_list(kind) and _is_number(kind.value_type):
        width = _width(path, name, kind)
        dtype = np.dtype(kind.value_type.to_pandas_dtype())
        return Table(full, (length, width), dtype, lambda most: _lists(path, name, width, most))
    if _is_number(kind) or _pyarrow().types.is_boolean(kind):
        return Table(full, (length,), np.dtype(kind.to_pandas_dtype()), lambda most: _scalars(path, name, most))
    if not _is_string(kind):
        raise ValueError(
            f"{full} must hold numbers, strings or lists of numbers; got {kind}; cast it to one of them"
        )
    widest = np.dtype("U1")
    for block in _scalars(path, name, 2**16):
        widest = np.promote_types(widest, block.astype(str).dtype)
    return Table(full, (length,), widest, lambda most: _scalars(path, name, most))


def _width(path: Path, name: str, kind: Any) -> int:
    if _pyarrow().types.is_fixed_size_list(kind):
        return int(kind.list_size)
    first = next(_batches(path, [name], 1), None)
    return 0 if first is None else len(_numpy(first[0], f"{path}:{name}", 0)[0])


def _lists(path: Path, name: str, width: int, most: int) -> Iterator[Array]:
    from pyarrow.compute import list_value_length  # type: ignore[import-untyped]

    full, done = f"{path}:{name}", 0
    for (column,) in _batches(path, [name], most):
        # As floats, where a null is nan and so of no length.
        lengths = list_value_length(column).cast("float64").to_numpy(zero_copy_only=False)
        wrong = np.flatnonzero(lengths != width)
        if len(wrong):
            found = lengths[wrong[0]]
            what = "is null" if np.isnan(found) else f"has {found:.0f}"
            raise ValueError(
                f"{full} must hold lists of one length, here {width}; row {done + wrong[0]}, from 0, {what}"
            )
        yield _numpy(column.flatten(), full, done, width).reshape(len(column), width)
        done += len(column)


def _scalars(path: Path, name: str, most: int) -> Iterator[Array]:
    return (block[:, 0] for block in _stacked(path, [name], most))


def _stacked(path: Path, names: Sequence[str], most: int) -> Iterator[Array]:
    done = 0
    for columns in _batches(path, names, most):
        found = [_numpy(column, f"{path}:{name}", done) for name, column in zip(names, columns, strict=True)]
        yield np.stack(found, axis=1)
        done += len(found[0])


def _numpy(column: Any, full: str, done: int, width: int = 1) -> Array:
    """The values of a column without nulls, `width` of them for each row after the first `done`."""
    if column.null_count:
        place = int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0]) // width
        raise ValueError(f"{full} must hold no nulls; row {done + place}, from 0, has one; drop or fill such rows")
    array: Array = column.to_numpy(zero_copy_only=False)
    return array


def _batches(path: Path, names: Sequence[str], most: int) -> Iterator[list[Any]]:
    """These columns, at most so many rows at a time."""
    with opened(path, "prior") as file:
        # Fewer than there may be, since pyarrow takes about ten times the memory of a batch of lists.
        for batch in file.iter_batches(batch_size=max(1, most // 8), columns=list(names)):
            yield [batch.column(name) for name in names]


def _is_list(kind: Any) -> bool:
    types = _pyarrow().types
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _is_number(kind: Any) -> bool:
    types = _pyarrow().types
    return bool(types.is_integer(kind) or types.is_floating(kind))


def _is_string(kind: Any) -> bool:
    types = _pyarrow().types
    if types.is_dictionary(kind):
        return _is_string(kind.value_type)
    return bool(types.is_string(kind) or types.is_large_string(kind))


def _pyarrow() -> Any:
    return pyarrow_of("prior")
