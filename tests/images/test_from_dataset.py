"""Anybody's data set of (image, label): read as it is, trained on as if it were ours, resumed bit for bit."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import Dataset

import debiased_contrastive as dc
from debiased_contrastive.images.datasets import read_fashion_mnist
from debiased_contrastive.images.evaluate import evaluate
from debiased_contrastive.images.from_dataset import DatasetImages
from debiased_contrastive.images.images import Images
from debiased_contrastive.images.presets import DEMO_SETTINGS
from debiased_contrastive.images.settings import ImageTraining, SimCLREncoder
from debiased_contrastive.training.loop import Update
from tests.cli.test_cli import error_of

SETTINGS = replace(
    DEMO_SETTINGS,
    encoder=SimCLREncoder("small", width=4, hidden_dim=16, out_dim=8),
    training=ImageTraining(epochs=2, batch=20, accelerator="cpu", log_every=1, checkpoint_every=4),
)


class Samples(Dataset[tuple[Any, Any]]):
    def __init__(self, pixels: Tensor, labels: list[Any], form: Callable[[Tensor], Any]) -> None:
        self.pixels, self.labels, self.form = pixels, labels, form

    def __len__(self) -> int:
        return len(self.pixels)

    def __getitem__(self, place: int) -> tuple[Any, Any]:
        return self.form(self.pixels[place]), self.labels[place]


def as_array(image: Tensor) -> Any:
    return image.permute(1, 2, 0).numpy()


def as_picture(image: Tensor) -> Image.Image:
    return Image.fromarray(as_array(image).squeeze())


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("form", [lambda image: image, as_array, as_picture], ids=["tensor", "array", "picture"])
def test_every_kind_of_image_is_read_as_it_is(form: Callable[[Tensor], Any], channels: int) -> None:
    pixels = torch.randint(256, (5, channels, 6, 7), dtype=torch.uint8)
    dataset = Samples(pixels, [0, np.int64(2), torch.tensor(1), None, -1], form)
    images = dc.images_from_dataset(dataset)
    assert isinstance(images, Images)
    assert torch.equal(images.pixels, pixels)
    assert images.labels is not None
    assert images.labels.tolist() == [0, 2, 1, -1, -1]
    assert images.class_names == ("0", "1", "2")
    assert images.shape == (channels, 6, 7)
    for workers in (0, 1):
        lazy = dc.images_from_dataset(dataset, in_memory_bytes=0, workers=workers)
        assert isinstance(lazy, DatasetImages)
        assert lazy.digest == images.digest
        order = [torch.tensor([4, 0]), torch.tensor([2])]
        assert all(map(torch.equal, lazy.prefetch(order), images.prefetch(order)))
        some, others = lazy.only([2, 0]), images.only([2, 0])
        assert some.digest == others.digest
        assert torch.equal(some.batch(torch.tensor([1, 0])), others.batch(torch.tensor([1, 0])))


def test_sizes_and_channels_are_made_one() -> None:
    pictures = [Image.new("RGB", (8, 6), "red"), Image.new("L", (5, 9), 7), np.zeros((4, 4), np.uint8)]
    images = dc.images_from_dataset([(picture, None) for picture in pictures], size=4, channels=3)
    assert images.shape == (3, 4, 4)
    assert images.labels is None
    assert images.batch(torch.tensor([0, 1]))[:, :, 0, 0].tolist() == [[255, 0, 0], [7, 7, 7]]


@pytest.mark.parametrize(
    ("samples", "words"),
    [
        ([], "must have a sample"),
        ([torch.zeros(1, 2, 2)], "sample 0 is a Tensor: wrap the data set so that it gives both"),
        ([(np.zeros((2, 2), np.uint8), "cat")], "must be an image and a whole number, or None, as its label"),
        ([(torch.zeros(3, 4, 4), 0)], "got a Tensor of float32 .3, 4, 4.: leave out transforms such as ToTensor"),
        ([(np.zeros((2, k + 2), np.uint8), 0) for k in range(2)], "sample 1 .1, 2, 3.: give a size, and channels"),
        ([(np.zeros((2, 2), np.uint8), -2)], r"labels must lie in -1\.\."),
    ],
)
def test_a_data_set_that_does_not_suit_is_one_line(samples: list[Any], words: str) -> None:
    with pytest.raises(ValueError, match=words) as raised:
        dc.images_from_dataset(samples)
    assert "\n" not in str(raised.value)


def test_random_transforms_are_noticed() -> None:
    dataset = Samples(
        torch.zeros(2, 1, 9, 9, dtype=torch.uint8), [0, 1], lambda image: torch.randint_like(image, 256)
    )
    with pytest.raises(ValueError, match="sample 0 differs from call to call: leave out its random transforms"):
        dc.images_from_dataset(dataset)


def test_a_run_is_stopped_resumed_evaluated_and_loaded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ours = read_fashion_mnist("train").only(range(10), 10)
    assert ours.labels is not None
    dataset = Samples(ours.pixels, ours.labels.tolist(), as_picture)
    images = dc.images_from_dataset(dataset)
    whole = dc.train_images(SETTINGS, ours, tmp_path / "whole")

    def stop(update: Update) -> None:
        if update.step == 6:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        dc.train_images(SETTINGS, images, tmp_path / "run", on_update=stop)
    for words in ("resume", "evaluate"):
        expected = "go on there, with dc.train_images" if words == "resume" else "is not trained yet"
        assert expected in error_of([words, str(tmp_path / "run"), "--quiet"], capsys)
    with pytest.raises(ValueError, match="must go on with the data that it began with, 100 samples"):
        dc.train_images(SETTINGS, dc.images_from_dataset(Samples(255 - ours.pixels, dataset.labels, as_picture)),
                        tmp_path / "run")  # fmt: skip
    with pytest.raises(ValueError, match="holds a run with other settings"):
        dc.train_images(replace(SETTINGS, seed=1), images, tmp_path / "run")
    run = dc.train_images(SETTINGS, dc.images_from_dataset(dataset, in_memory_bytes=0), tmp_path / "run")
    weights = [(one.folder / "encoder.safetensors").read_bytes() for one in (run, whole)]
    assert weights[0] == weights[1]
    assert [line["loss"] for line in run.metrics()] == [line["loss"] for line in whole.metrics()]
    assert evaluate(run, images=(images, images))["linear"]["top1"] > 0.2
    assert dc.load_encoder(run.folder)(ours.pixels[:2]).shape == (2, 32)
    assert "evaluate it there, with images.evaluate.evaluate" in error_of(
        ["evaluate", str(run.folder), "-q"], capsys
    )
    assert dc.train_images(SETTINGS, images, run.folder).is_finished, "it is left as it is"


def test_settings_that_do_not_suit_are_refused_before_a_folder_is_made(tmp_path: Path) -> None:
    images = dc.images_from_dataset([(np.zeros((28, 28), np.uint8), 0)] * 30)
    training = replace(SETTINGS.training, knn_every=1)
    with pytest.raises(ValueError, match="knn_every needs test images, and a data set from Python has none"):
        dc.train_images(replace(SETTINGS, training=training), images, tmp_path / "run")
    with pytest.raises(ValueError, match="batch must lie between 2 and the number of samples, 30; got 31"):
        dc.train_images(replace(SETTINGS, training=replace(training, batch=31)), images, tmp_path / "run")
    assert not (tmp_path / "run").exists()
