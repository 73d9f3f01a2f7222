"""CIFAR-10 is read from both official layouts, and every kind of damage is named."""

import functools
import hashlib
import importlib.util
import os
import pickle
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from debiased_contrastive.images.cifar10 import cifar10
from debiased_contrastive.images.images import Images

NAMES = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
TRAIN = [f"data_batch_{number}" for number in range(1, 6)]


def batch(seed: int) -> tuple[Any, Any]:
    generator = np.random.default_rng(seed)
    rows = generator.integers(0, 256, (10_000, 3072), np.uint8)
    return rows, generator.integers(0, 10, 10_000).astype(np.uint8)


def write_binary(folder: Path, name: str, seed: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    rows, labels = batch(seed)
    (folder / f"{name}.bin").write_bytes(np.concatenate([labels[:, None], rows], 1).tobytes())
    (folder / "batches.meta.txt").write_text("\n".join(NAMES) + "\n\n")


def python_2_pickle(rows: Any, labels: Any) -> bytes:
    """The stream as Python 2 wrote it: byte strings, and the module names of old NumPy."""
    array = (
        b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"
        b"(K\x01M\x10'M\x00\x0c\x86cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R(K\x03U\x01|NNNJ\xff\xff\xff\xff"
        b"J\xff\xff\xff\xffK\x00tb\x89T" + struct.pack("<i", rows.nbytes) + rows.tobytes() + b"tb"
    )
    numbers = b"".join(b"K" + bytes([label]) for label in labels.tolist())
    return b"".join([b"\x80\x02}(U\x06labels](", numbers, b"eU\x04data", array, b"u."])


def write_pickle(folder: Path, name: str, seed: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(python_2_pickle(*batch(seed)))
    names = b"".join(b"U" + bytes([len(n)]) + n.encode() for n in NAMES)
    (folder / "batches.meta").write_bytes(b"\x80\x02}(U\x0blabel_names](" + names + b"eu.")


def assert_is_batch(images: Images, seed: int, place: int = 0) -> None:
    rows, labels = batch(seed)
    part = slice(10_000 * place, 10_000 * (place + 1))
    np.testing.assert_array_equal(images.pixels[part].numpy().reshape(10_000, -1), rows)
    assert images.labels is not None
    np.testing.assert_array_equal(images.labels[part].numpy(), labels)
    assert images.class_names == tuple(NAMES)


def test_the_training_split_is_five_files_in_order(tmp_path: Path) -> None:
    for seed, name in enumerate(TRAIN):
        write_binary(tmp_path / "cifar-10-batches-bin", name, seed)
    images = cifar10(tmp_path, "train")
    assert images.pixels.shape == (50_000, 3, 32, 32)
    for seed in range(5):
        assert_is_batch(images, seed, seed)


@pytest.mark.parametrize(("kind", "write"), [("bin", write_binary), ("py", write_pickle)])
def test_the_root_is_the_folder_or_its_parent(tmp_path: Path, kind: str, write: Any) -> None:
    write(tmp_path / f"cifar-10-batches-{kind}", "test_batch", 7)
    assert_is_batch(cifar10(tmp_path, "test"), 7)
    assert_is_batch(cifar10(tmp_path / f"cifar-10-batches-{kind}", "test"), 7)


def test_pickles_made_anew_with_python_3_are_read(tmp_path: Path) -> None:
    rows, labels = batch(3)
    (tmp_path / "test_batch").write_bytes(pickle.dumps({"data": rows, "labels": labels.tolist()}, 2))
    (tmp_path / "batches.meta").write_bytes(pickle.dumps({"label_names": NAMES}))
    assert_is_batch(cifar10(tmp_path, "test"), 3)


def one_line(root: Path, split: Any, kind: type[Exception]) -> str:
    with pytest.raises(kind) as caught:
        cifar10(root, split)
    message = str(caught.value)
    assert "\n" not in message
    assert kind is not FileNotFoundError or message.endswith("download it with --download")
    assert kind is not ValueError or message.endswith("delete it and download it again with --download")
    return message


def test_damaged_binaries_are_named(tmp_path: Path) -> None:
    assert one_line(tmp_path, "test", FileNotFoundError).startswith(f"{tmp_path} holds no CIFAR-10: expected")
    folder = tmp_path / "cifar-10-batches-bin"
    write_binary(folder, "test_batch", 0)
    path = folder / "test_batch.bin"
    assert str(folder / "data_batch_1.bin") in one_line(tmp_path, "train", FileNotFoundError)
    with path.open("r+b") as file:
        file.write(b"\x0a")
    assert one_line(tmp_path, "test", ValueError).startswith(f"{path} is damaged: expected labels in 0..9, got 10;")
    os.truncate(path, 30_729_999)
    assert "expected 30,730,000 bytes, got 30,729,999" in one_line(tmp_path, "test", ValueError)
    os.truncate(path, 0)
    assert "got 0;" in one_line(tmp_path, "test", ValueError)
    meta = folder / "batches.meta.txt"
    meta.write_text("cat\ndog\n")
    assert f"{meta} is damaged: expected the names of 10 classes" in one_line(tmp_path, "test", ValueError)
    meta.unlink()
    assert str(meta) in one_line(tmp_path, "test", FileNotFoundError)
    with pytest.raises(ValueError, match="split must be 'train' or 'test'; got 'valid'"):
        cifar10(tmp_path, "valid")  # type: ignore[arg-type]


def test_damaged_pickles_are_named(tmp_path: Path) -> None:
    folder = tmp_path / "cifar-10-batches-py"
    write_pickle(folder, "test_batch", 0)
    path = folder / "test_batch"
    assert str(folder / "data_batch_1") in one_line(tmp_path, "train", FileNotFoundError)
    os.truncate(path, 20_000_000)
    assert one_line(tmp_path, "test", ValueError).startswith(f"{path} is damaged: ")
    rows, labels = batch(0)
    good = {"data": rows, "labels": labels.tolist()}
    for changes, message in (
        ({"data": rows[:5]}, "expected 'data' of 10,000 x 3,072 bytes"),
        ({"data": [1, 2]}, "expected 'data' of 10,000 x 3,072 bytes"),
        ({"labels": [1, 2]}, "expected 'labels' of 10,000 numbers"),
        ({"labels": [*good["labels"][1:], -1]}, "expected 'labels' of 10,000 numbers in 0..9"),
        ({"labels": [*good["labels"][1:], 10]}, "expected labels in 0..9, got 10"),
    ):
        path.write_bytes(pickle.dumps({**good, **changes}, 4))
        assert f"{path} is damaged: {message}" in one_line(tmp_path, "test", ValueError)
    path.write_bytes(pickle.dumps([1, 2]))
    assert "expected a dict, got list" in one_line(tmp_path, "test", ValueError)
    (folder / "batches.meta").write_bytes(pickle.dumps({"label_names": ["cat"]}))
    assert "expected 'label_names' of 10 classes" in one_line(tmp_path, "test", ValueError)
    (folder / "batches.meta").unlink()
    assert str(folder / "batches.meta") in one_line(tmp_path, "test", FileNotFoundError)


def test_the_real_set_is_read_from_both_layouts(tmp_path: Path) -> None:
    source = os.environ.get("DEBIASED_TEST_DATA")
    if source is None:
        pytest.skip("DEBIASED_TEST_DATA names no folder with cifar10/ in it")
    spec = importlib.util.spec_from_file_location("load_cifar10", Path(source, "cifar10", "load_cifar10.py"))
    assert spec is not None
    assert spec.loader is not None
    loader = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loader)
    vars(loader)["load"] = functools.cache(loader.load)
    for kind in ("bin", "py"):
        loader.rebuild(kind, tmp_path / kind)
        for split in ("train", "test"):
            images = cifar10(tmp_path / kind, split)
            assert images.labels is not None
            pixels = np.ascontiguousarray(images.pixels.numpy().transpose(0, 2, 3, 1))
            labels = images.labels.numpy().astype(np.uint8)
            assert hashlib.sha256(pixels.tobytes()).hexdigest() == loader.SHA256[f"x_{split}"]
            assert hashlib.sha256(labels.tobytes()).hexdigest() == loader.SHA256[f"y_{split}"]
            assert images.class_names == tuple(NAMES)
