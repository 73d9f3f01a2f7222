"""The paper's datasets in their official layouts: CIFAR-10, STL-10, a small Fashion-MNIST, and ImageNet-100."""

import math
import os
import pickle
import shutil
from collections.abc import Callable, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch

from debiased_contrastive.images.images import Images

Bytes = npt.NDArray[np.uint8]

_CLASSES = 10
_CIFAR10_FILES = {"train": [f"data_batch_{number}" for number in range(1, 6)], "test": ["test_batch"]}
_CIFAR10_IMAGES = 10_000  # in each file
_CIFAR10_PIXELS = 3 * 32 * 32
_STL10_SPLITS = ("train", "test", "unlabeled", "train+unlabeled")
_STL10_PIXELS = 3 * 96 * 96


def read_fashion_mnist(split: Literal["train", "test"]) -> Images:
    """Read the part of Fashion-MNIST inside the package: 2,000 training or 500 test images, 28 x 28 greyscale.

    >>> read_fashion_mnist("test").pixels.shape
    torch.Size([500, 1, 28, 28])
    """
    if split not in ("train", "test"):
        raise ValueError(f"split must be 'train' or 'test'; got {split!r}")
    resource = files("debiased_contrastive.images").joinpath("embedded/fashion_mnist_mini.npz")
    with resource.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
        return Images(
            torch.from_numpy(arrays[f"x_{split}"]).unsqueeze(1),
            torch.from_numpy(arrays[f"y_{split}"]).long(),
            tuple(str(name) for name in arrays["class_names"]),
        )


def read_cifar10(root: Path, split: Literal["train", "test"]) -> Images:
    """Read the 50,000 training or 10,000 test images of CIFAR-10, 32 x 32 in colour.

    `root` holds `cifar-10-batches-bin/` or `cifar-10-batches-py/`, or is one of them; where both are
    there the binary one is read. Pickles run nothing.
    """
    if split not in _CIFAR10_FILES:
        raise ValueError(f"split must be 'train' or 'test'; got {split!r}")
    folder, suffix = _cifar10_layout(Path(root))
    read = _read_binary_batch if suffix else _read_pickled_batch
    paths = [folder / f"{name}{suffix}" for name in _CIFAR10_FILES[split]]
    names = _read_class_names(folder / "batches.meta.txt") if suffix else _read_pickled_names(folder)
    # One allocation for all, filled batch by batch: the peak is one set and one file.
    pixels = np.empty((len(paths), _CIFAR10_IMAGES, 3, 32, 32), np.uint8)
    labels = np.empty((len(paths), _CIFAR10_IMAGES), np.int64)
    for place, path in enumerate(paths):
        images, classes = read(_require_file(path, f"{_CIFAR10_IMAGES:,} CIFAR-10 images"))
        if classes.max() >= _CLASSES:
            raise _damage(path, f"expected labels in 0..{_CLASSES - 1}, got {classes.max()}")
        pixels[place] = images.reshape(_CIFAR10_IMAGES, 3, 32, 32)
        labels[place] = classes
    return Images(torch.from_numpy(pixels.reshape(-1, 3, 32, 32)), torch.from_numpy(labels.reshape(-1)), names)


def _cifar10_layout(root: Path) -> tuple[Path, str]:
    """Find the folder with the batches, and their suffix."""
    for name, suffix in (("cifar-10-batches-bin", ".bin"), ("cifar-10-batches-py", "")):
        for folder in (root / name, root):
            if any((folder / f"{file}{suffix}").is_file() for part in _CIFAR10_FILES.values() for file in part):
                return folder, suffix
    raise FileNotFoundError(
        f"{root} holds no CIFAR-10: expected cifar-10-batches-bin/ or cifar-10-batches-py/ in it; "
        "download it with debiased train --download"
    )


def _read_binary_batch(path: Path) -> tuple[Bytes, Bytes]:
    expected, size = _CIFAR10_IMAGES * (1 + _CIFAR10_PIXELS), path.stat().st_size
    if size != expected:
        raise _damage(path, f"expected {expected:,} bytes, got {size:,}")
    rows = np.fromfile(path, np.uint8).reshape(_CIFAR10_IMAGES, 1 + _CIFAR10_PIXELS)
    return rows[:, 1:], rows[:, 0]


def _read_pickled_batch(path: Path) -> tuple[Bytes, Bytes]:
    content = _unpickle_dict(path)
    data, labels = content.get("data"), content.get("labels")
    shape = (_CIFAR10_IMAGES, _CIFAR10_PIXELS)
    if not isinstance(data, ByteArray) or not hasattr(data, "values") or data.values.shape != shape:
        raise _damage(path, f"expected 'data' of {_CIFAR10_IMAGES:,} x {_CIFAR10_PIXELS:,} bytes")
    if (
        not isinstance(labels, list)
        or len(labels) != _CIFAR10_IMAGES
        or not all(isinstance(label, int) and 0 <= label < 256 for label in labels)
    ):
        raise _damage(path, f"expected 'labels' of {_CIFAR10_IMAGES:,} numbers in 0..{_CLASSES - 1}")
    return data.values, np.array(labels, np.uint8)


def _read_pickled_names(folder: Path) -> tuple[str, ...]:
    path = _require_file(folder / "batches.meta", f"the names of {_CLASSES} classes")
    names = _unpickle_dict(path).get("label_names")
    if not isinstance(names, list) or len(names) != _CLASSES:
        raise _damage(path, f"expected 'label_names' of {_CLASSES} classes")
    return tuple(name.decode("utf-8", "replace") if isinstance(name, bytes) else str(name) for name in names)


def _unpickle_dict(path: Path) -> dict[str, object]:
    content = unpickle(path)
    if not isinstance(content, dict):
        raise _damage(path, f"expected a dict, got {type(content).__name__}")
    # Python 2 wrote the keys as bytes, a copy made with Python 3 has them as text.
    return {key.decode("latin1") if isinstance(key, bytes) else str(key): value for key, value in content.items()}


def unpickle(path: Path) -> object:
    """Read a pickle of plain values and byte arrays without running anything that it names.

    Byte strings of Python 2 become bytes, and arrays `ByteArray`.
    """
    with path.open("rb") as file:
        try:
            return _Unpickler(file, encoding="bytes").load()
        # A damaged stream may raise anything at all, as the documentation of pickle warns.
        except Exception as error:
            raise _damage(path, " ".join(str(error).split()) or type(error).__name__) from error


class ByteArray:
    """Stands in for a NumPy array while a pickle is read: `values` holds its uint8 content."""

    values: Bytes

    def __setstate__(self, state: object) -> None:
        # Version, shape, type, order and bytes, as NumPy stores them.
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


def _encode_latin1(text: object, encoding: object) -> bytes:
    # Python 3 writes bytes in this form into pickles of protocol 2.
    if not isinstance(text, str) or encoding not in ("latin1", b"latin1"):
        raise pickle.UnpicklingError(f"text in {encoding!r}, not in latin1")
    return text.encode("latin1")


# Stand-ins, not NumPy's own: a dtype or ndarray with a forged state can crash the interpreter.
_ALLOWED_NAMES: dict[tuple[str, str], Callable[..., object] | str] = {
    ("numpy.core.multiarray", "_reconstruct"): lambda *_prototype: ByteArray(),
    ("numpy._core.multiarray", "_reconstruct"): lambda *_prototype: ByteArray(),
    ("numpy", "ndarray"): "numpy.ndarray",
    ("numpy", "dtype"): _byte_type,
    ("_codecs", "encode"): _encode_latin1,
}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> object:
        if (module, name) not in _ALLOWED_NAMES:
            raise pickle.UnpicklingError(f"it names {module}.{name}, which image data never needs; nothing was run")
        return _ALLOWED_NAMES[module, name]


def read_stl10(root: Path, split: Literal["train", "test", "unlabeled", "train+unlabeled"]) -> Images:
    """Read a split of STL-10, 96 x 96 in colour; unlabeled images have the label -1.

    `root` holds `stl10_binary/`, or is it. "train+unlabeled" has the labelled images first; it takes
    2.9 GB of memory.
    """
    if split not in _STL10_SPLITS:
        raise ValueError(f"split must be one of {', '.join(_STL10_SPLITS)}; got {split!r}")
    folder, parts = _stl10_folder(Path(root)), split.split("+")
    names = _read_class_names(folder / "class_names.txt")
    stored = [_map_stl10_images(folder / f"{part}_X.bin") for part in parts]
    labels = [_read_stl10_labels(folder, part, len(images)) for part, images in zip(parts, stored, strict=True)]
    pixels = np.empty((sum(map(len, stored)), 3, 96, 96), np.uint8)
    start = 0
    for images in stored:
        # Stored column by column; the copy turns them and is the only time the file is read.
        pixels[start : start + len(images)] = images.transpose(0, 1, 3, 2)
        start += len(images)
    return Images(torch.from_numpy(pixels), torch.from_numpy(np.concatenate(labels)), names)


def _stl10_folder(root: Path) -> Path:
    for folder in (root / "stl10_binary", root):
        if any((folder / f"{part}_X.bin").is_file() for part in ("train", "test", "unlabeled")):
            return folder
    raise FileNotFoundError(
        f"{root} holds no STL-10: expected stl10_binary/ in it; download it with debiased train --download"
    )


def _map_stl10_images(path: Path) -> Bytes:
    size = _require_file(path, "STL-10 images").stat().st_size
    if size == 0 or size % _STL10_PIXELS:
        raise _damage(path, f"expected a multiple of {_STL10_PIXELS:,} bytes, one image each, got {size:,}")
    return np.memmap(path, np.uint8, mode="r").reshape(-1, 3, 96, 96)


def _read_stl10_labels(folder: Path, part: str, count: int) -> npt.NDArray[np.int64]:
    """0..9 from the stored 1..10, or -1 for images that have no label."""
    if part == "unlabeled":
        return np.full(count, -1, np.int64)
    path = _require_file(folder / f"{part}_y.bin", f"{count:,} labels")
    labels = np.fromfile(path, np.uint8).astype(np.int64)
    if len(labels) != count:
        raise _damage(path, f"expected {count:,} labels, one byte for each image, got {len(labels):,}")
    if labels.min() < 1 or labels.max() > _CLASSES:
        raise _damage(path, f"expected labels in 1..{_CLASSES}, got {labels.min()}..{labels.max()}")
    return labels - 1


def _require_file(path: Path, content: str) -> Path:
    if not path.is_file():
        raise FileNotFoundError(
            f"{path} is missing: expected {content}; download it with debiased train --download"
        )
    return path


def _damage(path: Path, problem: str) -> ValueError:
    return ValueError(
        f"{path} is damaged: {problem}; delete it and download it again with debiased train --download"
    )


def _read_class_names(path: Path) -> tuple[str, ...]:
    text = _require_file(path, f"the names of {_CLASSES} classes, one a line").read_text("utf-8", errors="replace")
    names = tuple(line.strip() for line in text.splitlines() if line.strip())
    if len(names) != _CLASSES:
        raise _damage(path, f"expected the names of {_CLASSES} classes, one a line, got {len(names)}")
    return names


def read_class_list(file: Path) -> tuple[str, ...]:
    """Read the names of class folders, one a line; blank lines and what follows a # do not count."""
    lines = (line.split("#")[0].strip() for line in file.read_text().splitlines())
    names = tuple(line for line in lines if line)
    twice = sorted({name for name in names if names.count(name) > 1})
    if not names or twice:
        raise ValueError(
            f"{file} must have the name of one class a line, each once; got {len(names)} names"
            + (f", {', '.join(twice[:3])} more than once" if twice else "")
        )
    wrong = [name for name in names if Path(name).name != name or name in (".", "..")]
    if wrong:
        raise ValueError(f"{file} must have names of folders, such as n02869837; got {wrong[0]!r}")
    return names


def link_subset(source: Path, classes: Sequence[str], out: Path) -> dict[str, int]:
    """Make a folder with links to some class folders, such as ImageNet-100 out of ImageNet; nothing is copied.

    Args:
        source: Class folders, or `train` and `val` with class folders each.
        classes: Names of the class folders to link.
        out: The folder to make; it appears whole or not at all.

    Returns:
        The number of classes in each part, "train" and "val", or "" where there are no parts.
    """
    if not source.is_dir():
        raise FileNotFoundError(f"{source} is not a folder; expected class folders, or train and val with them")
    if out.exists():
        raise FileExistsError(f"{out} is there already: remove it, or choose another --out")
    parts = [split for split in ("train", "val") if (source / split).is_dir()] or [""]
    for part in parts:
        missing = [name for name in classes if not (source / part / name).is_dir()]
        if missing:
            raise FileNotFoundError(
                f"{source / part} must have a folder for each class; {len(missing)} of {len(classes)} are missing, "
                f"such as {missing[0]}: validation images that lie beside each other must be sorted by class first"
            )
    out.parent.mkdir(parents=True, exist_ok=True)
    unfinished = out.with_name(f".{out.name}.{os.getpid()}")
    try:
        for part in parts:
            (unfinished / part).mkdir(parents=True)
            for name in classes:
                (unfinished / part / name).symlink_to((source / part / name).resolve(), target_is_directory=True)
        unfinished.rename(out)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise
    return dict.fromkeys(parts, len(classes))
