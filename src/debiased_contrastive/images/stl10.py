"""STL-10 in its official binary layout."""

from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch

from debiased_contrastive.images.images import Images
from debiased_contrastive.images.official import class_names, damaged, required

_PARTS = {
    "train": ("train",),
    "test": ("test",),
    "unlabeled": ("unlabeled",),
    "train+unlabeled": ("train", "unlabeled"),
}
_CLASSES = 10
_PIXELS = 3 * 96 * 96


def stl10(root: Path, split: Literal["train", "test", "unlabeled", "train+unlabeled"]) -> Images:
    """The images of a split, 96 x 96 in colour; the unlabeled ones have label -1.

    `root` holds `stl10_binary/`, or is it. "train+unlabeled" has the labelled images first; it takes
    2.9 GB of memory.
    """
    if split not in _PARTS:
        raise ValueError(f"split must be one of {', '.join(_PARTS)}; got {split!r}")
    folder = _folder(Path(root))
    names = class_names(folder / "class_names.txt", _CLASSES)
    stored = [_mapped(folder / f"{part}_X.bin") for part in _PARTS[split]]
    labels = [_labels(folder, part, len(images)) for part, images in zip(_PARTS[split], stored, strict=True)]
    pixels = np.empty((sum(map(len, stored)), 3, 96, 96), np.uint8)
    start = 0
    for images in stored:
        # Stored column by column; the copy turns them and is the only time the file is read.
        pixels[start : start + len(images)] = images.transpose(0, 1, 3, 2)
        start += len(images)
    return Images(torch.from_numpy(pixels), torch.from_numpy(np.concatenate(labels)), names)


def _folder(root: Path) -> Path:
    for folder in (root / "stl10_binary", root):
        if any((folder / f"{part}_X.bin").is_file() for part in ("train", "test", "unlabeled")):
            return folder
    raise FileNotFoundError(f"{root} holds no STL-10: expected stl10_binary/ in it; download it with --download")


def _mapped(path: Path) -> npt.NDArray[np.uint8]:
    size = required(path, "STL-10 images").stat().st_size
    if size == 0 or size % _PIXELS:
        raise damaged(path, f"expected a multiple of {_PIXELS:,} bytes, one image each, got {size:,}")
    return np.memmap(path, np.uint8, mode="r").reshape(-1, 3, 96, 96)


def _labels(folder: Path, part: str, count: int) -> npt.NDArray[np.int64]:
    """0..9 from the stored 1..10, or -1 for images that have no label."""
    if part == "unlabeled":
        return np.full(count, -1, np.int64)
    path = required(folder / f"{part}_y.bin", f"{count:,} labels")
    labels = np.fromfile(path, np.uint8).astype(np.int64)
    if len(labels) != count:
        raise damaged(path, f"expected {count:,} labels, one byte for each image, got {len(labels):,}")
    if labels.min() < 1 or labels.max() > _CLASSES:
        raise damaged(path, f"expected labels in 1..{_CLASSES}, got {labels.min()}..{labels.max()}")
    return labels - 1
