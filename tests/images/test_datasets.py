"""The official datasets are read from their layouts, subsets are linked, and every kind of damage is named."""

import functools
import hashlib
import importlib.util
import os
import pickle
import struct
import zipfile
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from debiased_contrastive.images.datasets import (
    link_subset,
    read_cifar10,
    read_class_list,
    read_fashion_mnist,
    read_stl10,
)
from debiased_contrastive.images.images import Images, read_image_folder

CIFAR10_NAMES = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
TRAIN = [f"data_batch_{number}" for number in range(1, 6)]


def drawn_batch(seed: int) -> tuple[Any, Any]:
    generator = np.random.default_rng(seed)
    rows = generator.integers(0, 256, (10_000, 3072), np.uint8)
    return rows, generator.integers(0, 10, 10_000).astype(np.uint8)


def write_binary(folder: Path, name: str, seed: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    rows, labels = drawn_batch(seed)
    (folder / f"{name}.bin").write_bytes(np.concatenate([labels[:, None], rows], 1).tobytes())
    (folder / "batches.meta.txt").write_text("\n".join(CIFAR10_NAMES) + "\n\n")


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
    (folder / name).write_bytes(python_2_pickle(*drawn_batch(seed)))
    names = b"".join(b"U" + bytes([len(n)]) + n.encode() for n in CIFAR10_NAMES)
    (folder / "batches.meta").write_bytes(b"\x80\x02}(U\x0blabel_names](" + names + b"eu.")


def assert_is_batch(images: Images, seed: int, place: int = 0) -> None:
    rows, labels = drawn_batch(seed)
    part = slice(10_000 * place, 10_000 * (place + 1))
    np.testing.assert_array_equal(images.pixels[part].numpy().reshape(10_000, -1), rows)
    assert images.labels is not None
    np.testing.assert_array_equal(images.labels[part].numpy(), labels)
    assert images.class_names == tuple(CIFAR10_NAMES)


def test_the_training_split_is_five_files_in_order(tmp_path: Path) -> None:
    for seed, name in enumerate(TRAIN):
        write_binary(tmp_path / "cifar-10-batches-bin", name, seed)
    images = read_cifar10(tmp_path, "train")
    assert images.pixels.shape == (50_000, 3, 32, 32)
    for seed in range(5):
        assert_is_batch(images, seed, seed)


@pytest.mark.parametrize(("kind", "write"), [("bin", write_binary), ("py", write_pickle)])
def test_the_root_is_the_folder_or_its_parent(tmp_path: Path, kind: str, write: Any) -> None:
    write(tmp_path / f"cifar-10-batches-{kind}", "test_batch", 7)
    assert_is_batch(read_cifar10(tmp_path, "test"), 7)
    assert_is_batch(read_cifar10(tmp_path / f"cifar-10-batches-{kind}", "test"), 7)


def test_pickles_made_anew_with_python_3_are_read(tmp_path: Path) -> None:
    rows, labels = drawn_batch(3)
    (tmp_path / "test_batch").write_bytes(pickle.dumps({"data": rows, "labels": labels.tolist()}, 2))
    (tmp_path / "batches.meta").write_bytes(pickle.dumps({"label_names": CIFAR10_NAMES}))
    assert_is_batch(read_cifar10(tmp_path, "test"), 3)


def one_line(root: Path, split: Any, kind: type[Exception]) -> str:
    with pytest.raises(kind) as caught:
        read_cifar10(root, split)
    message = str(caught.value)
    assert "\n" not in message
    assert kind is not FileNotFoundError or message.endswith("download it with debiased train --download")
    assert kind is not ValueError or message.endswith(
        "delete it and download it again with debiased train --download"
    )
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
        read_cifar10(tmp_path, "valid")  # type: ignore[arg-type]


def test_damaged_pickles_are_named(tmp_path: Path) -> None:
    folder = tmp_path / "cifar-10-batches-py"
    write_pickle(folder, "test_batch", 0)
    path = folder / "test_batch"
    assert str(folder / "data_batch_1") in one_line(tmp_path, "train", FileNotFoundError)
    os.truncate(path, 20_000_000)
    assert one_line(tmp_path, "test", ValueError).startswith(f"{path} is damaged: ")
    rows, labels = drawn_batch(0)
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
            images = read_cifar10(tmp_path / kind, split)
            assert images.labels is not None
            pixels = np.ascontiguousarray(images.pixels.numpy().transpose(0, 2, 3, 1))
            labels = images.labels.numpy().astype(np.uint8)
            assert hashlib.sha256(pixels.tobytes()).hexdigest() == loader.SHA256[f"x_{split}"]
            assert hashlib.sha256(labels.tobytes()).hexdigest() == loader.SHA256[f"y_{split}"]
            assert images.class_names == tuple(CIFAR10_NAMES)


COUNTS = {"train": 4, "test": 3, "unlabeled": 5}
STL10_NAMES = ["airplane", "bird", "car", "cat", "deer", "dog", "horse", "monkey", "ship", "truck"]


def upright(part: str) -> Any:
    """(n, 3, 96, 96) with rows before columns, as an image is looked at."""
    return np.random.default_rng(len(part)).integers(0, 256, (COUNTS[part], 3, 96, 96), np.uint8)


@pytest.fixture
def stl10_root(tmp_path: Path) -> Path:
    folder = tmp_path / "stl10_binary"
    folder.mkdir()
    for part, count in COUNTS.items():
        # Column-major: in the file the row runs fastest, then the column, then the colour.
        stored = b"".join(image.ravel(order="F").tobytes() for image in upright(part).transpose(0, 2, 3, 1))
        (folder / f"{part}_X.bin").write_bytes(stored)
        if part != "unlabeled":
            (folder / f"{part}_y.bin").write_bytes(bytes(range(1, count)) + b"\x0a")
    (folder / "class_names.txt").write_text("\n".join(STL10_NAMES) + "\n")
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
def test_each_split_stands_upright(stl10_root: Path, split: Any, parts: list[str], labels: list[int]) -> None:
    for place in (stl10_root, stl10_root / "stl10_binary"):
        images = read_stl10(place, split)
        np.testing.assert_array_equal(images.pixels.numpy(), np.concatenate([upright(part) for part in parts]))
        assert images.labels is not None
        assert images.labels.tolist() == labels
        assert images.class_names == tuple(STL10_NAMES)
        assert images.pixels.is_contiguous()


def test_the_files_are_free_once_read(stl10_root: Path) -> None:
    images = read_stl10(stl10_root, "unlabeled")
    (stl10_root / "stl10_binary" / "unlabeled_X.bin").write_bytes(b"")
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
def test_damage_of_stl10_is_named(stl10_root: Path, file: str, content: bytes | None, message: str) -> None:
    path = stl10_root / "stl10_binary" / file
    if content is None:
        path.unlink()
        kind: type[Exception] = FileNotFoundError
        remedy = "download it with debiased train --download"
    else:
        path.write_bytes(content)
        kind, remedy = ValueError, "delete it and download it again with debiased train --download"
    with pytest.raises(kind) as caught:
        read_stl10(stl10_root, "train+unlabeled")
    assert str(caught.value).startswith(str(path))
    assert message in str(caught.value)
    assert str(caught.value).endswith(remedy)
    assert "\n" not in str(caught.value)


def test_a_folder_without_it_and_a_wrong_split(tmp_path: Path, stl10_root: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"holds no STL-10: .*; download it with debiased train --download"):
        read_stl10(tmp_path / "elsewhere", "test")
    with pytest.raises(ValueError, match="one of train, test, unlabeled, train\\+unlabeled; got 'all'"):
        read_stl10(stl10_root, "all")  # type: ignore[arg-type]


def test_the_embedded_set_is_balanced_and_complete() -> None:
    for split, count in (("train", 200), ("test", 50)):
        images = read_fashion_mnist(split)  # type: ignore[arg-type]
        assert images.pixels.shape == (10 * count, 1, 28, 28)
        assert images.labels is not None
        assert images.labels.bincount().tolist() == [count] * 10
        assert images.class_names[0] == "T-shirt/top"
        assert len(images.class_names) == 10
        # Real pictures: dark border, bright centre.
        assert images.pixels[..., 8:20, 10:18].float().mean() > 4 * images.pixels[..., 0].float().mean()
    with pytest.raises(ValueError, match="must be 'train' or 'test'; got 'valid'"):
        read_fashion_mnist("valid")  # type: ignore[arg-type]


def test_the_embedded_set_travels_with_its_licence_and_without_pickles() -> None:
    folder = files("debiased_contrastive.images").joinpath("embedded")
    assert "Copyright (c) 2017 Zalando SE" in folder.joinpath("NOTICE").read_text()
    with folder.joinpath("fashion_mnist_mini.npz").open("rb") as file, zipfile.ZipFile(file) as archive:
        assert archive.testzip() is None
        assert all(name.endswith(".npy") for name in archive.namelist())


@pytest.fixture
def source(tmp_path: Path) -> Path:
    for part in ("train", "val"):
        for name in ("n01", "n02", "n03"):
            (tmp_path / "imagenet" / part / name).mkdir(parents=True)
            for number in range(2):
                Image.new("RGB", (8, 8), (number, 0, 0)).save(tmp_path / f"imagenet/{part}/{name}/{number}.png")
    return tmp_path / "imagenet"


def test_class_folders_are_links_that_can_be_read(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "deep" / "subset"
    assert link_subset(source, ("n03", "n01"), out) == {"train": 2, "val": 2}
    assert (out / "train" / "n01").is_symlink()
    for part in ("train", "val"):
        images = read_image_folder(out / part, 8)
        assert images.class_names == ("n01", "n03")
        assert len(images) == 4


def test_a_folder_of_classes_needs_no_parts(source: Path, tmp_path: Path) -> None:
    assert link_subset(source / "train", ("n02",), tmp_path / "subset") == {"": 1}
    assert [path.name for path in (tmp_path / "subset").iterdir()] == ["n02"]


def test_a_relative_source_is_found_from_anywhere(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(source.parent)
    link_subset(Path(source.name), ("n02",), Path("subset"))
    monkeypatch.chdir("/")
    assert len(list((tmp_path / "subset" / "val" / "n02").iterdir())) == 2


def test_what_is_missing_is_named_and_nothing_is_left(source: Path, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"1 of 2 are missing, such as n09"):
        link_subset(source, ("n01", "n09"), tmp_path / "subset")
    with pytest.raises(FileNotFoundError, match="is not a folder"):
        link_subset(tmp_path / "nowhere", ("n01",), tmp_path / "subset")
    assert not (tmp_path / "subset").exists()
    (tmp_path / "subset").mkdir()
    with pytest.raises(FileExistsError, match="is there already"):
        link_subset(source, ("n01",), tmp_path / "subset")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["imagenet", "subset"]


def test_names_are_one_a_line(tmp_path: Path) -> None:
    file = tmp_path / "classes.txt"
    file.write_text("# hundred classes\nn01\n\n n02  # a comment\n")
    assert read_class_list(file) == ("n01", "n02")
    for content, message in (
        ("", "got 0 names"),
        ("n01\nn02\nn01\n", "n01 more than once"),
        ("n01/../n02\n", "names of folders"),
        ("..\n", "names of folders"),
    ):
        file.write_text(content)
        with pytest.raises(ValueError, match=message):
            read_class_list(file)
