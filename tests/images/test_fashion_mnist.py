"""Fashion-MNIST is read from the official IDX files, and every kind of damage is named."""

import gzip
import os
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from debiased_contrastive.images.fashion_mnist import read_whole_fashion_mnist
from debiased_contrastive.images.settings import Data
from debiased_contrastive.images.sources import read_probe_images, read_training_images

COUNTS = {"train": 20, "t10k": 10}
IMAGES, LABELS = "train-images-idx3-ubyte", "train-labels-idx1-ubyte"


def pixels(part: str) -> Any:
    return np.random.default_rng(len(part)).integers(0, 256, (COUNTS[part], 28, 28), np.uint8)


def image_file(part: str) -> bytes:
    return struct.pack(">4I", 0x803, COUNTS[part], 28, 28) + bytes(pixels(part))


def label_file(part: str) -> bytes:
    return struct.pack(">2I", 0x801, COUNTS[part]) + bytes(place % 10 for place in range(COUNTS[part]))


def write(folder: Path, packed: bool = False) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for part in COUNTS:
        for name, content in (("images-idx3", image_file(part)), ("labels-idx1", label_file(part))):
            path = folder / f"{part}-{name}-ubyte{'.gz' if packed else ''}"
            path.write_bytes(gzip.compress(content) if packed else content)
    return folder


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("folder", ["", "fashion-mnist", "FashionMNIST/raw"])
def test_both_parts_are_read_from_each_layout(tmp_path: Path, folder: str, packed: bool) -> None:
    write(tmp_path / folder, packed)
    for split, part in (("train", "train"), ("test", "t10k")):
        images = read_whole_fashion_mnist(tmp_path, split)  # type: ignore[arg-type]
        np.testing.assert_array_equal(images.pixels.numpy()[:, 0], pixels(part))
        assert images.labels is not None
        assert images.labels.tolist() == [place % 10 for place in range(COUNTS[part])]
        assert images.labels.dtype == torch.int64
        assert images.class_names[9] == "Ankle boot"


def test_the_settings_read_it(tmp_path: Path) -> None:
    data = Data("fashion-mnist", root=write(tmp_path), classes=(3, 1), per_class=1)
    assert torch.equal(
        read_training_images(data).batch(torch.arange(2))[:, 0], torch.from_numpy(pixels("train")[[1, 3]])
    )
    train, test = read_probe_images(data)
    assert train.class_names == test.class_names == ("Dress", "Trouser")
    assert len(train) == len(test) == 2


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        (IMAGES, b"", "expected the header of an IDX file of 1 to 60,000 x 28 x 28 bytes"),
        (IMAGES, label_file("train"), "expected the header"),
        (IMAGES, struct.pack(">4I", 0x803, 1, 32, 28) + bytes(32 * 28), "expected the header"),
        (IMAGES, struct.pack(">4I", 0x803, 0, 28, 28), "expected the header"),
        (IMAGES, struct.pack(">4I", 0x803, 2**32 - 1, 28, 28), "expected the header"),
        (IMAGES, image_file("train")[:-1], "expected 20 values of 784 bytes after its header, got another number"),
        (IMAGES, image_file("train") + b"x", "expected 20 values of 784 bytes after its header"),
        (LABELS, label_file("t10k"), "expected 20 labels, one for each image, got 10"),
        (LABELS, label_file("train")[:-1] + b"\x0a", "expected labels in 0..9, got 10"),
        (LABELS, b"\0\0\x08", "expected the header of an IDX file of 1 to 60,000 bytes"),
        (f"{IMAGES}.gz", b"no archive", "Not a gzipped file"),
        (f"{IMAGES}.gz", gzip.compress(image_file("train"))[:-9], "Compressed file ended before"),
        (f"{IMAGES}.gz", gzip.compress(image_file("train"))[:10] + b"\xff" * 99, "Error -3 while decompressing"),
        (f"{LABELS}.gz", gzip.compress(label_file("train") + bytes(10**6)), "expected 20 values of 1 bytes"),
    ],
)
def test_damage_is_named_in_one_line(tmp_path: Path, file: str, content: bytes, message: str) -> None:
    path = write(tmp_path) / file
    (tmp_path / file.removesuffix(".gz")).unlink()
    path.write_bytes(content)
    with pytest.raises(ValueError, match="is damaged") as caught:
        read_whole_fashion_mnist(tmp_path, "train")
    assert str(caught.value).startswith(f"{path} is damaged: {message}")
    assert str(caught.value).endswith("; get the official file again")
    assert "\n" not in str(caught.value)


def test_what_is_missing_and_a_wrong_split(tmp_path: Path) -> None:
    with pytest.raises(
        FileNotFoundError, match=r"holds no Fashion-MNIST: expected t10k-images-idx3-ubyte or .*\.gz"
    ):
        read_whole_fashion_mnist(tmp_path, "test")
    (write(tmp_path) / LABELS).unlink()
    with pytest.raises(FileNotFoundError, match="expected train-labels-idx1-ubyte or"):
        read_whole_fashion_mnist(tmp_path, "train")
    with pytest.raises(ValueError, match="must be 'train' or 'test'; got 'all'"):
        read_whole_fashion_mnist(tmp_path, "all")  # type: ignore[arg-type]


def test_the_real_set() -> None:
    root = os.environ.get("DEBIASED_FASHION")
    if root is None:
        pytest.skip("DEBIASED_FASHION names no folder with the official files of Fashion-MNIST")
    for split, count in (("train", 6000), ("test", 1000)):
        images = read_whole_fashion_mnist(Path(root), split)  # type: ignore[arg-type]
        assert images.labels is not None
        assert images.labels.bincount().tolist() == [count] * 10
        # Real pictures: dark border, bright centre.
        assert images.pixels[..., 8:20, 10:18].float().mean() > 4 * images.pixels[..., 0].float().mean()
