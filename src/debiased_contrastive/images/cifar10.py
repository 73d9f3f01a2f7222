"""CIFAR-10 in its official binary or pickle layout."""

from collections.abc import Iterable
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch

from debiased_contrastive.images.images import Images
from debiased_contrastive.images.official import class_names, damaged, required
from debiased_contrastive.images.restricted_pickle import ByteArray, unpickled

Bytes = npt.NDArray[np.uint8]

_FILES = {"train": [f"data_batch_{number}" for number in range(1, 6)], "test": ["test_batch"]}
_CLASSES = 10
_IMAGES = 10_000  # in each file
_PIXELS = 3 * 32 * 32
_CONTENT = f"{_IMAGES:,} CIFAR-10 images"


def cifar10(root: Path, split: Literal["train", "test"]) -> Images:
    """50,000 training or 10,000 test images, 32 x 32 in colour.

    `root` holds `cifar-10-batches-bin/` or `cifar-10-batches-py/`, or is one of them; where both are
    there the binary one is read. Pickles run nothing.
    """
    if split not in _FILES:
        raise ValueError(f"split must be 'train' or 'test'; got {split!r}")
    folder, suffix = _layout(Path(root))
    read = _binary_batch if suffix else _pickle_batch
    paths = [folder / f"{name}{suffix}" for name in _FILES[split]]
    names = class_names(folder / "batches.meta.txt", _CLASSES) if suffix else _pickled_names(folder)
    pixels, labels = _joined((read(required(path, _CONTENT)) for path in paths), len(paths))
    return Images(torch.from_numpy(pixels), torch.from_numpy(labels), names)


def _layout(root: Path) -> tuple[Path, str]:
    """The folder with the batches, and their suffix."""
    for name, suffix in (("cifar-10-batches-bin", ".bin"), ("cifar-10-batches-py", "")):
        for folder in (root / name, root):
            if any((folder / f"{file}{suffix}").is_file() for files in _FILES.values() for file in files):
                return folder, suffix
    raise FileNotFoundError(
        f"{root} holds no CIFAR-10: expected cifar-10-batches-bin/ or cifar-10-batches-py/ in it; "
        "download it with --download"
    )


def _joined(batches: Iterable[tuple[Bytes, Bytes]], count: int) -> tuple[Bytes, npt.NDArray[np.int64]]:
    # One allocation for all, filled batch by batch: the peak is one set and one file.
    pixels = np.empty((count, _IMAGES, 3, 32, 32), np.uint8)
    labels = np.empty((count, _IMAGES), np.int64)
    for place, (images, classes) in enumerate(batches):
        pixels[place] = images.reshape(_IMAGES, 3, 32, 32)
        labels[place] = classes
    return pixels.reshape(-1, 3, 32, 32), labels.reshape(-1)


def _binary_batch(path: Path) -> tuple[Bytes, Bytes]:
    expected, size = _IMAGES * (1 + _PIXELS), path.stat().st_size
    if size != expected:
        raise damaged(path, f"expected {expected:,} bytes, got {size:,}")
    rows = np.fromfile(path, np.uint8).reshape(_IMAGES, 1 + _PIXELS)
    return rows[:, 1:], _checked_labels(path, rows[:, 0])


def _pickle_batch(path: Path) -> tuple[Bytes, Bytes]:
    content = _pickled_dict(path)
    data, labels = content.get("data"), content.get("labels")
    if not isinstance(data, ByteArray) or not hasattr(data, "values") or data.values.shape != (_IMAGES, _PIXELS):
        raise damaged(path, f"expected 'data' of {_IMAGES:,} x {_PIXELS:,} bytes")
    if (
        not isinstance(labels, list)
        or len(labels) != _IMAGES
        or not all(isinstance(label, int) and 0 <= label < 256 for label in labels)
    ):
        raise damaged(path, f"expected 'labels' of {_IMAGES:,} numbers in 0..{_CLASSES - 1}")
    return data.values, _checked_labels(path, np.array(labels, np.uint8))


def _checked_labels(path: Path, labels: Bytes) -> Bytes:
    if labels.max() >= _CLASSES:
        raise damaged(path, f"expected labels in 0..{_CLASSES - 1}, got {labels.max()}")
    return labels


def _pickled_names(folder: Path) -> tuple[str, ...]:
    path = required(folder / "batches.meta", f"the names of {_CLASSES} classes")
    names = _pickled_dict(path).get("label_names")
    if not isinstance(names, list) or len(names) != _CLASSES:
        raise damaged(path, f"expected 'label_names' of {_CLASSES} classes")
    return tuple(name.decode("utf-8", "replace") if isinstance(name, bytes) else str(name) for name in names)


def _pickled_dict(path: Path) -> dict[str, object]:
    content = unpickled(path)
    if not isinstance(content, dict):
        raise damaged(path, f"expected a dict, got {type(content).__name__}")
    # Python 2 wrote the keys as bytes, a copy made with Python 3 has them as text.
    return {key.decode("latin1") if isinstance(key, bytes) else str(key): value for key, value in content.items()}
