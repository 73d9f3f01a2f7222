"""Pickles of plain values and byte arrays, read without running anything that they name."""

import math
import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt

from debiased_contrastive.images.official import damaged


class ByteArray:
    """Stands in for a NumPy array while a pickle is read: `values` holds its uint8 content."""

    values: npt.NDArray[np.uint8]

    def __setstate__(self, state: object) -> None:
        """Take version, shape, type, order and bytes, as NumPy stores them."""
        match state:
            case (int(), tuple() as shape, _ByteType(), order, bytes() as content) if not order:
                if all(isinstance(n, int) and n >= 0 for n in shape) and math.prod(shape) == len(content):
                    self.values = np.frombuffer(content, np.uint8).reshape(shape)
                    return
        raise pickle.UnpicklingError("an array that is not plain bytes in C order")


class _ByteType:
    """Stands in for numpy.dtype("u1")."""

    def __setstate__(self, state: object) -> None:
        """Ignore byte order and alignment: one byte has neither."""


def _byte_type(name: object, *_flags: object) -> _ByteType:
    if name not in ("u1", b"u1"):
        raise pickle.UnpicklingError(f"an array of {name!r}, not of bytes")
    return _ByteType()


def _byte_array(*_prototype: object) -> ByteArray:
    return ByteArray()


def _latin_1(text: object, encoding: object) -> bytes:
    # Python 3 writes bytes in this form into pickles of protocol 2.
    if not isinstance(text, str) or encoding not in ("latin1", b"latin1"):
        raise pickle.UnpicklingError(f"text in {encoding!r}, not in latin1")
    return text.encode("latin1")


# Stand-ins, not NumPy's own: a dtype or ndarray with a forged state can crash the interpreter.
_ALLOWED: dict[tuple[str, str], Callable[..., object] | str] = {
    ("numpy.core.multiarray", "_reconstruct"): _byte_array,
    ("numpy._core.multiarray", "_reconstruct"): _byte_array,
    ("numpy", "ndarray"): "numpy.ndarray",
    ("numpy", "dtype"): _byte_type,
    ("_codecs", "encode"): _latin_1,
}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> object:
        if (module, name) not in _ALLOWED:
            raise pickle.UnpicklingError(f"it names {module}.{name}, which image data never needs; nothing was run")
        return _ALLOWED[module, name]


def unpickled(path: Path) -> object:
    """The value in a pickle, with byte strings of Python 2 as bytes and arrays as `ByteArray`."""
    with path.open("rb") as file:
        try:
            return _Unpickler(file, encoding="bytes").load()
        # A damaged stream may raise anything at all, as the documentation of pickle warns.
        except Exception as error:
            raise damaged(path, " ".join(str(error).split()) or type(error).__name__) from error
