"""Find and read the images that the settings name: to train on, and to probe with."""

import os
from pathlib import Path
from typing import TypeAlias

import torch
from torch import Tensor

from debiased_contrastive.images.datasets import read_cifar10, read_fashion_mnist, read_stl10
from debiased_contrastive.images.download import CIFAR10, STL10, Dataset
from debiased_contrastive.images.fashion_mnist import read_whole_fashion_mnist
from debiased_contrastive.images.image_files import available_cores
from debiased_contrastive.images.images import Images, ImageSet, read_image_folder
from debiased_contrastive.images.settings import Data, ImageSettings
from debiased_contrastive.numerics import make_generator
from debiased_contrastive.training.gradient import draw_batch

VARIABLE = "DEBIASED_DATA"
"""The environment variable that says where the data are."""
ProbeImages: TypeAlias = tuple[ImageSet, ImageSet]
"""Train and test images with labels."""

_READERS = {"fashion-mnist": read_whole_fashion_mnist, "cifar10": read_cifar10, "stl10": read_stl10}
_OFFICIAL = {"cifar10": CIFAR10, "stl10": STL10}


def read_training_images(data: Data) -> ImageSet:
    if data.name == "dataset":
        raise ValueError(
            "the images of this run are a data set from Python: go on there, with dc.train_images and the "
            "same folder"
        )
    if data.name == "hf":
        return _select(_read_hugging_face(data, data.train_split), data, data.per_class)
    if data.name == "folder":
        return _select(read_image_folder(find_root(data), data.folder_size), data, data.per_class)
    split = "train+unlabeled" if data.name == "stl10" else "train"
    return _select(_read_official(data, split), data, data.per_class)


def batch_indices(settings: ImageSettings, step: int, count: int) -> Tensor:
    """Draw the indices of the images of a step, over all processes."""
    return draw_batch(step, count, settings.training.batch, settings.seed, settings.data.order)


def read_probe_images(data: Data) -> ProbeImages:
    """Read train and test images with labels."""
    if data.name == "dataset":
        raise ValueError(
            "the images of this run are a data set from Python: evaluate it there, with images.evaluate.evaluate "
            "and images=(train, test)"
        )
    if data.name == "hf":
        train = read_training_images(data)
        return _check_probes(train, _select(_read_hugging_face(data, data.test_split), data, None))
    if data.name != "folder":
        train = _select(_read_official(data, "train"), data, data.per_class)
        return train, _select(_read_official(data, "test"), data, None)
    if data.test_root is None:
        raise ValueError(
            "a probe on a folder needs test images, none are known: debiased evaluate takes --test-root DIR"
        )
    train = read_training_images(data)
    return _check_probes(train, _select(read_image_folder(data.test_root, data.folder_size), data, None))


def _check_probes(train: ImageSet, test: ImageSet) -> ProbeImages:
    if train.labels is None or train.class_names != test.class_names:
        raise ValueError(
            "a probe needs the same classes to train and to test; got "
            f"{list(train.class_names)} and {list(test.class_names)}"
        )
    return train, test


def find_archive(data: Data) -> Dataset:
    """Find the download that the data come from."""
    if data.name not in _OFFICIAL:
        raise ValueError(f"--download is for {' and '.join(_OFFICIAL)}; got {data.name}: leave it out")
    return _OFFICIAL[data.name]


def find_root(data: Data) -> Path:
    """Find the folder with the data, by setting or by environment variable."""
    root = data.root or (Path(os.environ[VARIABLE]) if os.environ.get(VARIABLE) else None)
    if root is None:
        raise ValueError(f"{data.name} needs to know where its images are: pass --data.root DIR, or set {VARIABLE}")
    return root


def draw_known_labels(labels: Tensor, share: float, seed: int) -> Tensor:
    """Draw a share of each class, at least one image, whose labels stay; the others become -1."""
    result = torch.full_like(labels, -1)
    generator = make_generator(seed, "known labels")
    for label in labels[labels >= 0].unique().tolist():
        places = (labels == label).nonzero()[:, 0]
        count = max(1, round(share * len(places)))
        result[places[torch.randperm(len(places), generator=generator)[:count]]] = label
    return result


def _read_official(data: Data, split: str) -> Images:
    if data.name == "fashion":
        return read_fashion_mnist(split)  # type: ignore[arg-type]
    return _READERS[data.name](find_root(data), split)  # type: ignore[arg-type]


def _read_hugging_face(data: Data, split: str) -> ImageSet:
    from debiased_contrastive.images.hugging_face import read_hugging_face

    return read_hugging_face(
        find_root(data),
        split,
        size=data.folder_size,
        image_column=data.image_column,
        label_column=data.label_column,
        workers=available_cores(),
    )


def _select(images: ImageSet, data: Data, per_class: int | tuple[int, ...] | None) -> ImageSet:
    if not data.classes and per_class is None:
        return images
    return images.only(data.classes or range(len(images.class_names)), per_class)
