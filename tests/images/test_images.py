"""A set in memory hands out batches and classes, and the embedded one is what its README says."""

import zipfile
from importlib.resources import files
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from debiased_contrastive.images.fashion import fashion_mnist_mini
from debiased_contrastive.images.images import Images


def numbered(labels: list[int] | None, n: int = 6, classes: int = 3) -> Images:
    pixels = torch.arange(n, dtype=torch.uint8)[:, None, None, None].expand(n, 1, 2, 2)
    return Images(
        pixels, None if labels is None else torch.tensor(labels), tuple(f"class {c}" for c in range(classes))
    )


def test_a_batch_is_the_images_asked_for_in_that_order() -> None:
    images = numbered(None)
    batch = images.batch(torch.tensor([4, 0, 4]))
    assert batch[:, 0, 0, 0].tolist() == [4, 0, 4]
    assert batch.shape == (3, 1, 2, 2)
    assert batch.dtype == torch.uint8
    assert batch.is_contiguous()
    assert len(images) == 6


@given(
    labels=st.lists(st.integers(-1, 3), min_size=1, max_size=30),
    classes=st.permutations(range(4)).flatmap(lambda p: st.integers(1, 4).map(lambda k: p[:k])),
)
def test_only_is_a_filter_that_keeps_the_order(labels: list[int], classes: list[int]) -> None:
    images = numbered(labels, len(labels), 4)
    chosen = images.only(classes)
    expected = [(i, classes.index(label)) for i, label in enumerate(labels) if label in classes]
    assert chosen.pixels[:, 0, 0, 0].tolist() == [i for i, _ in expected]
    assert chosen.labels is not None
    assert chosen.labels.tolist() == [label for _, label in expected]
    assert chosen.class_names == tuple(f"class {c}" for c in classes)
    if all(labels.count(c) for c in classes):
        one = images.only(classes, 1)
        assert sorted(one.pixels[:, 0, 0, 0].tolist()) == sorted(labels.index(c) for c in classes)


@pytest.mark.parametrize(
    ("classes", "per_class", "message"),
    [
        ([], None, "at least one and all different; got \\[\\]"),
        ([1, 1], None, "all different"),
        ([3], None, "must lie in 0..2; got \\[3\\]"),
        ([-1], None, "must lie in 0..2"),
        ([0], 0, "per_class must be at least 1; got 0"),
        ([0, 2], 2, "at most 1, all images of class 'class 2'; got 2"),
    ],
)
def test_bad_choices_are_refused(classes: list[int], per_class: int | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        numbered([0, 0, 1, 1, 2, -1]).only(classes, per_class)


def test_nothing_can_be_chosen_without_labels() -> None:
    with pytest.raises(ValueError, match="this set has none"):
        numbered(None).only([0])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"pixels": torch.zeros(2, 2, 2, dtype=torch.uint8)},
            r"shape \(n, c, h, w\); got torch.uint8 \(2, 2, 2\)",
        ),
        ({"pixels": torch.zeros(2, 1, 2, 2)}, "must be uint8"),
        ({"labels": torch.zeros(3, dtype=torch.int64)}, "one for each of the 2 images"),
        ({"labels": torch.zeros(2)}, "must be int64"),
        ({"labels": torch.tensor([0, 1])}, r"lie in -1..0, one for each class name; got 0..1"),
        ({"labels": torch.tensor([0, -2])}, "got -2..0"),
    ],
)
def test_a_set_that_contradicts_itself_is_refused(changes: dict[str, Any], message: str) -> None:
    good = {"pixels": torch.zeros(2, 1, 2, 2, dtype=torch.uint8), "labels": None, "class_names": ("one",)}
    with pytest.raises(ValueError, match=message):
        Images(**{**good, **changes})


def test_a_mask_is_not_taken_for_indices() -> None:
    for indices in (torch.tensor([True, False]), torch.tensor(1), torch.tensor([0.0])):
        with pytest.raises(ValueError, match="must be integers of shape"):
            numbered(None).batch(indices)


def test_the_embedded_set_is_balanced_and_complete() -> None:
    for split, count in (("train", 200), ("test", 50)):
        images = fashion_mnist_mini(split)  # type: ignore[arg-type]
        assert images.pixels.shape == (10 * count, 1, 28, 28)
        assert images.labels is not None
        assert images.labels.bincount().tolist() == [count] * 10
        assert images.class_names[0] == "T-shirt/top"
        assert len(images.class_names) == 10
        # Real pictures: dark border, bright centre.
        assert images.pixels[..., 8:20, 10:18].float().mean() > 4 * images.pixels[..., 0].float().mean()
    with pytest.raises(ValueError, match="must be 'train' or 'test'; got 'valid'"):
        fashion_mnist_mini("valid")  # type: ignore[arg-type]


def test_the_embedded_set_travels_with_its_licence_and_without_pickles() -> None:
    folder = files("debiased_contrastive.images").joinpath("embedded")
    assert "Copyright (c) 2017 Zalando SE" in folder.joinpath("NOTICE").read_text()
    with folder.joinpath("fashion_mnist_mini.npz").open("rb") as file, zipfile.ZipFile(file) as archive:
        assert archive.testzip() is None
        assert all(name.endswith(".npy") for name in archive.namelist())
