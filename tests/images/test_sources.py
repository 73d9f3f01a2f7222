"""The images that settings name are found, chosen and read; what is missing is named."""

from pathlib import Path

import pytest
import torch
from PIL import Image

from debiased_contrastive.images import sources as module
from debiased_contrastive.images.download import CIFAR10, STL10
from debiased_contrastive.images.images import FolderImages, Images, ImageSet, read_image_folder
from debiased_contrastive.images.settings import Data
from debiased_contrastive.images.sources import (
    VARIABLE,
    draw_known_labels,
    find_archive,
    find_root,
    read_probe_images,
    read_training_images,
)


@pytest.fixture(autouse=True)
def _no_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)


def save(path: Path, red: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (6, 5), (red, 0, 0)).save(path)


def reds(images: ImageSet) -> list[int]:
    return images.batch(torch.arange(len(images)))[:, 0, 0, 0].tolist()


@pytest.fixture
def data(tmp_path: Path) -> Data:
    """Two class folders of four images to train and of two to test."""
    for red in range(8):
        save(tmp_path / "train" / ("ant", "bee")[red % 2] / f"{red}.png", red)
    for red in range(100, 104):
        save(tmp_path / "test" / ("ant", "bee")[red % 2] / f"{red}.png", red)
    return Data("folder", root=tmp_path / "train", test_root=tmp_path / "test", folder_size=4)


# Known labels


@pytest.mark.parametrize("share", [0.01, 0.1, 0.25, 0.5, 1.0])
def test_a_share_of_each_class_is_known(share: float) -> None:
    labels = torch.arange(3).repeat_interleave(torch.tensor([40, 100, 3]))
    labels = labels[torch.randperm(143, generator=torch.Generator().manual_seed(0))]
    known = draw_known_labels(labels, share, seed=0)
    assert known.shape == labels.shape
    assert known.dtype == labels.dtype
    for label, count in enumerate((40, 100, 3)):
        found = sum(int(value) == label for value in known)
        assert found == max(1, round(share * count))
    for got, true in zip(known.tolist(), labels.tolist(), strict=True):
        assert got in (-1, true)


def test_which_are_known_depends_on_the_seed_alone() -> None:
    labels = torch.arange(200) % 4
    first = draw_known_labels(labels, 0.3, seed=1)
    torch.manual_seed(5)
    assert torch.equal(draw_known_labels(labels, 0.3, seed=1), first)
    other = draw_known_labels(labels, 0.3, seed=2)
    assert not torch.equal(other, first)
    # At random: not the first of each class, and nearly all of them in one draw or another.
    ever = torch.stack([draw_known_labels(labels, 0.3, seed=seed) for seed in range(30)]).amax(0)
    assert (ever >= 0).float().mean() > 0.99
    assert torch.equal(labels, torch.arange(200) % 4)


def test_an_unknown_label_stays_unknown() -> None:
    labels = torch.tensor([-1, 2, -1, 2, 5, -1])
    assert draw_known_labels(labels, 1.0, seed=0).tolist() == [-1, 2, -1, 2, 5, -1]
    assert (draw_known_labels(labels, 0.01, seed=0) >= 0).sum() == 2


# Where they are


def test_the_root_is_the_settings_or_the_variables(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("fashion-mnist", "cifar10", "stl10", "folder"):
        with pytest.raises(
            ValueError, match=rf"^{name} needs to know .*: pass --data.root DIR, or set {VARIABLE}$"
        ):
            find_root(Data(name))
    assert find_root(Data(root=tmp_path)) == tmp_path
    monkeypatch.setenv(VARIABLE, str(tmp_path / "variable"))
    assert find_root(Data()) == tmp_path / "variable"
    assert find_root(Data(root=tmp_path)) == tmp_path
    monkeypatch.setenv(VARIABLE, "")
    with pytest.raises(ValueError, match="needs to know where its images are"):
        find_root(Data())


def test_only_official_archives_are_downloaded() -> None:
    assert find_archive(Data("cifar10")) is CIFAR10
    assert find_archive(Data("stl10")) is STL10
    for name in ("fashion", "fashion-mnist", "folder"):
        with pytest.raises(ValueError, match=f"--download is for cifar10 and stl10; got {name}: leave it out"):
            find_archive(Data(name))


# The ones inside the package


def test_fashion_needs_no_root() -> None:
    images = read_training_images(Data("fashion"))
    assert isinstance(images, Images)
    assert images.pixels.shape == (2000, 1, 28, 28)
    train, test = read_probe_images(Data("fashion"))
    assert isinstance(train, Images)
    assert isinstance(test, Images)
    assert torch.equal(train.pixels, images.pixels)
    assert test.pixels.shape == (500, 1, 28, 28)
    assert test.labels is not None
    assert test.labels.bincount().tolist() == [50] * 10


def test_classes_and_their_number_are_chosen_for_training_and_all_of_them_for_the_test() -> None:
    data = Data("fashion", classes=(7, 2), per_class=30)
    whole = read_training_images(Data("fashion"))
    images = read_training_images(data)
    train, test = read_probe_images(data)
    assert whole.labels is not None
    for some in (images, train):
        assert some.labels is not None
        assert some.labels.bincount().tolist() == [30, 30]
        assert some.class_names == (whole.class_names[7], whole.class_names[2])
    wanted = sorted(
        [*(whole.labels == 7).nonzero()[:30, 0].tolist(), *(whole.labels == 2).nonzero()[:30, 0].tolist()]
    )
    assert torch.equal(images.batch(torch.arange(60)), whole.batch(torch.tensor(wanted)))
    assert test.labels is not None
    assert test.labels.bincount().tolist() == [50, 50]
    assert test.class_names == train.class_names
    assert len(read_training_images(Data("fashion", per_class=5))) == 50
    assert len(read_training_images(Data("fashion", classes=(1, 2, 3)))) == 600


# A folder


def test_a_folder_and_its_test_folder(data: Data) -> None:
    images = read_training_images(data)
    assert isinstance(images, Images)
    assert images.pixels.shape == (8, 3, 4, 4)
    assert reds(images) == [0, 2, 4, 6, 1, 3, 5, 7]
    train, test = read_probe_images(data)
    assert reds(train) == reds(images)
    assert reds(test) == [100, 102, 101, 103]
    assert test.labels is not None
    assert test.labels.tolist() == [0, 0, 1, 1]
    assert test.class_names == ("ant", "bee")


def test_a_part_of_a_folder(data: Data) -> None:
    some = Data("folder", data.root, data.test_root, classes=(1,), per_class=3, folder_size=4)
    assert reds(read_training_images(some)) == [1, 3, 5]
    train, test = read_probe_images(some)
    assert (reds(train), reds(test)) == ([1, 3, 5], [101, 103])
    assert train.class_names == test.class_names == ("bee",)


def test_the_variable_serves_a_folder_too(data: Data, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(data.root))
    assert reds(read_training_images(Data("folder", folder_size=4))) == [0, 2, 4, 6, 1, 3, 5, 7]


def test_a_folder_too_large_for_memory_is_probed_without_holding_it(
    data: Data, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lazy(root: Path, size: int) -> ImageSet:
        return read_image_folder(root, size, in_memory_bytes=0, workers=0)

    want = read_probe_images(data)
    monkeypatch.setattr(module, "read_image_folder", lazy)
    assert isinstance(read_training_images(data), FolderImages)
    for got, wanted in zip(read_probe_images(data), want, strict=True):
        assert isinstance(got, FolderImages)
        assert reds(got) == reds(wanted)
        assert got.labels is not None
        assert wanted.labels is not None
        assert torch.equal(got.labels, wanted.labels)


def test_a_folder_that_cannot_be_probed_says_why(data: Data, tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match=r"needs test images, none are known: debiased evaluate takes --test-root DIR"
    ):
        read_probe_images(Data("folder", root=data.root, folder_size=4))
    for red in range(3):
        save(tmp_path / "flat" / f"{red}.png", red)
    flat = Data("folder", root=tmp_path / "flat", test_root=tmp_path / "flat", folder_size=4)
    assert read_training_images(flat).labels is None
    with pytest.raises(ValueError, match=r"needs the same classes to train and to test; got \[\] and \[\]"):
        read_probe_images(flat)
    other = Data("folder", root=data.root, test_root=tmp_path / "flat", folder_size=4)
    with pytest.raises(ValueError, match=r"got \['ant', 'bee'\] and \[\]"):
        read_probe_images(other)
    save(tmp_path / "test" / "cow" / "1.png", 1)
    with pytest.raises(ValueError, match=r"got \['ant', 'bee'\] and \['ant', 'bee', 'cow'\]"):
        read_probe_images(data)


# Official files


def test_stl10_trains_on_its_unlabeled_images_too_and_probes_with_the_others(tmp_path: Path) -> None:
    folder = tmp_path / "stl10_binary"
    folder.mkdir()
    for part, labels, shade in (("train", [1, 3, 3], 10), ("test", [3, 1], 20), ("unlabeled", None, 30)):
        count = 4 if labels is None else len(labels)
        (folder / f"{part}_X.bin").write_bytes(bytes([shade]) * (count * 3 * 96 * 96))
        if labels is not None:
            (folder / f"{part}_y.bin").write_bytes(bytes(labels))
    (folder / "class_names.txt").write_text("\n".join(f"class {k}" for k in range(10)) + "\n")
    data = Data("stl10", root=tmp_path)
    images = read_training_images(data)
    assert reds(images) == [10] * 3 + [30] * 4
    assert images.labels is not None
    assert images.labels.tolist() == [0, 2, 2, -1, -1, -1, -1]
    train, test = read_probe_images(data)
    assert (reds(train), reds(test)) == ([10] * 3, [20] * 2)
    labelled = read_training_images(Data("stl10", root=tmp_path, classes=(2,)))
    assert reds(labelled) == [10] * 2


def test_official_files_that_are_not_there_are_named(tmp_path: Path) -> None:
    for name in ("cifar10", "stl10"):
        with pytest.raises(FileNotFoundError, match=r"download it with debiased train --download"):
            read_training_images(Data(name, root=tmp_path))
