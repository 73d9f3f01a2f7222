"""Fashion-MNIST from its four official IDX files, compressed or not."""

import gzip
import math
import zlib
from pathlib import Path
from typing import Literal

import numpy as np
import torch

from debiased_contrastive.images.datasets import Bytes, read_fashion_mnist
from debiased_contrastive.images.images import Images

_FILES = {"train": "train", "test": "t10k"}
_LARGEST = 60_000
_CLASSES = 10


def read_whole_fashion_mnist(root: Path, split: Literal["train", "test"]) -> Images:
    """Read the 60,000 training or 10,000 test images of Fashion-MNIST, 28 x 28 greyscale.

    `root` holds the official files `train-images-idx3-ubyte` and so on, with or without `.gz`, or has them in
    `fashion-mnist/` or, as torchvision leaves them, in `FashionMNIST/raw/`.
    """
    if split not in _FILES:
        raise ValueError(f"split must be 'train' or 'test'; got {split!r}")
    path = _find(Path(root), f"{_FILES[split]}-images-idx3-ubyte")
    pixels = _read_idx(path, (28, 28))
    path = _find(path.parent, f"{_FILES[split]}-labels-idx1-ubyte")
    labels = _read_idx(path, ())
    if len(labels) != len(pixels):
        raise _damage(path, f"expected {len(pixels):,} labels, one for each image, got {len(labels):,}")
    if labels.max() >= _CLASSES:
        raise _damage(path, f"expected labels in 0..{_CLASSES - 1}, got {labels.max()}")
    names = read_fashion_mnist("test").class_names
    return Images(torch.from_numpy(pixels).unsqueeze(1), torch.from_numpy(labels.astype(np.int64)), names)


def _find(root: Path, name: str) -> Path:
    for folder in (root, root / "fashion-mnist", root / "FashionMNIST" / "raw"):
        for path in (folder / name, folder / f"{name}.gz"):
            if path.is_file():
                return path
    raise FileNotFoundError(
        f"{root} holds no Fashion-MNIST: expected {name} or {name}.gz in it; get the four official files"
    )


def _read_idx(path: Path, shape: tuple[int, ...]) -> Bytes:
    """(n, *shape) bytes of an IDX file: 0, 0, 8 for bytes, the number of dimensions, each of them, the values."""
    head, size = 8 + 4 * len(shape), math.prod(shape)
    content = _read_at_most(path, head + _LARGEST * size + 1)
    sides = b"".join(side.to_bytes(4, "big") for side in shape)
    count = int.from_bytes(content[4:8], "big")
    if content[:4] != bytes([0, 0, 8, 1 + len(shape)]) or content[8:head] != sides or not 1 <= count <= _LARGEST:
        wanted = " x ".join(map(str, (f"1 to {_LARGEST:,}", *shape)))
        raise _damage(path, f"expected the header of an IDX file of {wanted} bytes")
    if len(content) != head + count * size:
        raise _damage(path, f"expected {count:,} values of {size:,} bytes after its header, got another number")
    return np.frombuffer(bytearray(content), np.uint8, offset=head).reshape(count, *shape)


def _read_at_most(path: Path, limit: int) -> bytes:
    # A small archive can unpack to any size, so no more is read than the official files can hold.
    try:
        if path.suffix != ".gz":
            with path.open("rb") as file:
                return file.read(limit)
        with gzip.open(path) as archive:
            return archive.read(limit)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise _damage(path, " ".join(str(error).split())) from error


def _damage(path: Path, problem: str) -> ValueError:
    return ValueError(f"{path} is damaged: {problem}; get the official file again")
