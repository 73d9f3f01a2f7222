"""STL-10 is read from its official layout: columns first, labels from 1, the unlabeled ones -1."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from debiased_contrastive.images.stl10 import stl10

COUNTS = {"train": 4, "test": 3, "unlabeled": 5}
NAMES = ["airplane", "bird", "car", "cat", "deer", "dog", "horse", "monkey", "ship", "truck"]


def upright(part: str) -> Any:
    """(n, 3, 96, 96) with rows before columns, as an image is looked at."""
    return np.random.default_rng(len(part)).integers(0, 256, (COUNTS[part], 3, 96, 96), np.uint8)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "stl10_binary"
    folder.mkdir()
    for part, count in COUNTS.items():
        # Column-major: in the file the row runs fastest, then the column, then the colour.
        stored = b"".join(image.ravel(order="F").tobytes() for image in upright(part).transpose(0, 2, 3, 1))
        (folder / f"{part}_X.bin").write_bytes(stored)
        if part != "unlabeled":
            (folder / f"{part}_y.bin").write_bytes(bytes(range(1, count)) + b"\x0a")
    (folder / "class_names.txt").write_text("\n".join(NAMES) + "\n")
    return tmp_path


@pytest.mark.parametrize(
    ("split", "parts", "labels"),
    [
        ("train", ["train"], [0, 1, 2, 9]),
        ("test", ["test"], [0, 1, 9]),
        ("unlabeled", ["unlabeled"], [-1] * 5),
        ("train+unlabeled", ["train", "unlabeled"], [0, 1, 2, 9] + [-1] * 5),
    ],
)
def test_each_split_stands_upright(root: Path, split: Any, parts: list[str], labels: list[int]) -> None:
    for place in (root, root / "stl10_binary"):
        images = stl10(place, split)
        np.testing.assert_array_equal(images.pixels.numpy(), np.concatenate([upright(part) for part in parts]))
        assert images.labels is not None
        assert images.labels.tolist() == labels
        assert images.class_names == tuple(NAMES)
        assert images.pixels.is_contiguous()


def test_the_files_are_free_once_read(root: Path) -> None:
    images = stl10(root, "unlabeled")
    (root / "stl10_binary" / "unlabeled_X.bin").write_bytes(b"")
    np.testing.assert_array_equal(images.pixels.numpy(), upright("unlabeled"))


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("train_X.bin", b"x" * 27_649, "expected a multiple of 27,648 bytes, one image each, got 27,649"),
        ("train_X.bin", b"", "got 0"),
        ("train_y.bin", b"\x01\x02", "expected 4 labels, one byte for each image, got 2"),
        ("train_y.bin", b"\x01\x02\x03\x0b", "expected labels in 1..10, got 1..11"),
        ("train_y.bin", b"\x01\x02\x03\x00", "expected labels in 1..10, got 0..3"),
        ("class_names.txt", b"cat\n", "expected the names of 10 classes"),
        ("train_X.bin", None, "expected STL-10 images"),
        ("train_y.bin", None, "expected 4 labels"),
        ("class_names.txt", None, "expected the names of 10 classes"),
    ],
)
def test_damage_is_named(root: Path, file: str, content: bytes | None, message: str) -> None:
    path = root / "stl10_binary" / file
    if content is None:
        path.unlink()
        kind: type[Exception] = FileNotFoundError
        remedy = "download it with --download"
    else:
        path.write_bytes(content)
        kind, remedy = ValueError, "delete it and download it again with --download"
    with pytest.raises(kind) as caught:
        stl10(root, "train+unlabeled")
    assert str(caught.value).startswith(str(path))
    assert message in str(caught.value)
    assert str(caught.value).endswith(remedy)
    assert "\n" not in str(caught.value)


def test_a_folder_without_it_and_a_wrong_split(tmp_path: Path, root: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"holds no STL-10: .*; download it with --download"):
        stl10(tmp_path / "elsewhere", "test")
    with pytest.raises(ValueError, match="one of train, test, unlabeled, train\\+unlabeled; got 'all'"):
        stl10(root, "all")  # type: ignore[arg-type]
