"""The images that settings name: to train on, and to probe with."""

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import torch
from torch import Tensor

from debiased_contrastive.images.cifar10 import cifar10
from debiased_contrastive.images.download import CIFAR10, STL10, Dataset
from debiased_contrastive.images.fashion import fashion_mnist_mini
from debiased_contrastive.images.folder import FolderImages, image_folder
from debiased_contrastive.images.images import Images
from debiased_contrastive.images.settings import Data, Settings
from debiased_contrastive.images.stl10 import stl10
from debiased_contrastive.numerics import generator_of
from debiased_contrastive.training.order import indices_of

VARIABLE = "DEBIASED_DATA"

Probed: TypeAlias = tuple[Images | FolderImages, Images | FolderImages]
"""Train and test images with labels."""

_OFFICIAL = {"cifar10": CIFAR10, "stl10": STL10}


def training_images(data: Data) -> Images | FolderImages:
    """The images to train on."""
    if data.name == "folder":
        return _chosen(image_folder(root_of(data), data.folder_size), data, data.per_class)
    return _chosen(_official(data, "train+unlabeled" if data.name == "stl10" else "train"), data, data.per_class)


def batch_of(settings: Settings, step: int, count: int) -> Tensor:
    """Which of so many images a step sees, over all processes."""
    return indices_of(step, count, settings.training.batch, settings.seed, settings.data.order)


def probe_images(data: Data) -> Probed:
    """Train and test images with labels."""
    if data.name != "folder":
        return _chosen(_official(data, "train"), data, data.per_class), _chosen(_official(data, "test"), data, None)
    if data.test_root is None:
        raise ValueError(
            "a probe on a folder needs test images, none are known: debiased evaluate takes --test-root DIR"
        )
    train = training_images(data)
    test = _chosen(image_folder(data.test_root, data.folder_size), data, None)
    if train.labels is None or train.class_names != test.class_names:
        raise ValueError(
            "a probe needs the same class folders to train and to test; got "
            f"{list(train.class_names)} and {list(test.class_names)}"
        )
    return train, test


def official_archive(data: Data) -> Dataset:
    """The download that the settings' data come from."""
    if data.name not in _OFFICIAL:
        raise ValueError(f"--download is for {' and '.join(_OFFICIAL)}; got {data.name}: leave it out")
    return _OFFICIAL[data.name]


def moved(settings: Settings, roots: Mapping[str, Path | None]) -> Settings:
    """The settings with those of root and test_root that are given."""
    given: dict[str, Any] = {name: path for name, path in roots.items() if path is not None}
    return replace(settings, data=replace(settings.data, **given))


def root_of(data: Data) -> Path:
    """The folder with the data, by setting or by variable."""
    root = data.root or (Path(os.environ[VARIABLE]) if os.environ.get(VARIABLE) else None)
    if root is None:
        raise ValueError(f"{data.name} needs to know where its images are: pass --data.root DIR or set {VARIABLE}")
    return root


def known_labels(labels: Tensor, share: float, seed: int) -> Tensor:
    """The labels of a share of each class, at least one of each, and -1 for the rest."""
    result = torch.full_like(labels, -1)
    generator = generator_of(seed, "known labels")
    for label in labels[labels >= 0].unique().tolist():
        places = (labels == label).nonzero()[:, 0]
        count = max(1, round(share * len(places)))
        result[places[torch.randperm(len(places), generator=generator)[:count]]] = label
    return result


def _official(data: Data, split: str) -> Images:
    if data.name == "fashion":
        return fashion_mnist_mini(split)  # type: ignore[arg-type]
    return (cifar10 if data.name == "cifar10" else stl10)(root_of(data), split)  # type: ignore[arg-type]


def _chosen(images: Images | FolderImages, data: Data, per_class: int | None) -> Images | FolderImages:
    if not data.classes and per_class is None:
        return images
    return images.only(data.classes or range(len(images.class_names)), per_class)
