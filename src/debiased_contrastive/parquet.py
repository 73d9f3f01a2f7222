"""Opening .parquet files without reading more of them at once than is wanted."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def pyarrow_of(extra: str) -> Any:
    """The library, or which of our extras brings it."""
    try:
        import pyarrow.parquet  # type: ignore[import-untyped]
    except ImportError:
        raise ValueError(f"reading .parquet needs pyarrow: pip install 'debiased-contrastive[{extra}]'") from None
    return pyarrow


@contextmanager
def opened(path: Path, extra: str) -> Iterator[Any]:
    """The file as pyarrow's ParquetFile."""
    arrow = pyarrow_of(extra)
    try:
        # Otherwise a whole row group of a column is read at once, and often there is one.
        with arrow.parquet.ParquetFile(path, buffer_size=2**20, pre_buffer=False) as file:
            yield file
    except (arrow.ArrowException, OSError) as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise ValueError(f"{path} must be a whole .parquet file: {reason}; write it again") from error
