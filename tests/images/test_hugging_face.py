"""Hugging Face data sets on disk: trained on and evaluated by flags; what does not suit is one line."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image as Picture

from debiased_contrastive.cli.main import main
from debiased_contrastive.images.from_dataset import DatasetImages
from debiased_contrastive.images.hugging_face import read_hugging_face
from debiased_contrastive.images.images import Images
from debiased_contrastive.runs import Run
from tests.cli.test_cli import SMALL, error_of

datasets: Any = pytest.importorskip("datasets", reason="the extra datasets is not installed")


def save(
    folder: Path, *, columns: tuple[str, str] = ("image", "label"), kind: str = "class", count: int = 24
) -> Path:
    """Coloured squares of two classes, red and blue, as a data set with two splits."""
    generator = np.random.default_rng(0)
    labels = np.arange(count) % 2
    pixels = generator.integers(0, 40, (count, 10, 8, 3), np.uint8)
    pixels[np.arange(count), :, :, 2 * labels] += 200
    feature, values = {
        "class": (datasets.ClassLabel(names=["red", "blue"]), labels.tolist()),
        "number": (datasets.Value("int64"), [None, *labels.tolist()[1:]]),
        "word": (datasets.Value("string"), [["red", "blue"][label] for label in labels]),
        "real": (datasets.Value("float32"), [0.5] * count),
    }[kind]
    features = datasets.Features({columns[0]: datasets.Image(), columns[1]: feature})
    table = datasets.Dataset.from_dict(
        {columns[0]: [Picture.fromarray(image) for image in pixels], columns[1]: values}, features=features
    )
    datasets.disable_progress_bars()
    datasets.DatasetDict({"train": table, "test": table.select(range(count // 2))}).save_to_disk(str(folder))
    return folder


@pytest.mark.parametrize(
    ("kind", "first", "names"),
    [("class", 0, ("red", "blue")), ("number", -1, ("0", "1")), ("word", 1, ("blue", "red"))],
)
def test_it_is_read_as_it_was_saved(tmp_path: Path, kind: str, first: int, names: tuple[str, ...]) -> None:
    folder = save(tmp_path / "data", columns=("img", "fine"), kind=kind)
    given: dict[str, Any] = {"size": 8, "image_column": "img", "label_column": "fine"}
    images = read_hugging_face(folder, "train", **given)
    assert isinstance(images, Images)
    assert images.shape == (3, 8, 8)
    assert images.class_names == names
    assert images.labels is not None
    assert images.labels[0] == first
    assert images.pixels[0, 0].min() >= 200, "red"
    lazy = read_hugging_face(folder, "train", **given, in_memory_bytes=0, workers=1)
    assert isinstance(lazy, DatasetImages)
    assert lazy.digest == images.digest
    assert torch.equal(next(lazy.prefetch([torch.tensor([3, 1])])), images.batch(torch.tensor([3, 1])))
    (tmp_path / "data").rename(tmp_path / "moved")
    assert read_hugging_face(tmp_path / "moved", "train", **given).digest == images.digest
    assert read_hugging_face(tmp_path / "moved", "test", **given).digest != images.digest


def test_it_is_trained_on_resumed_and_evaluated_by_flags(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = save(tmp_path / "data", columns=("img", "fine"))
    words = [
        "train", "folder", *SMALL, "--data.per-class", "12", "--data.name", "hf", "--data.root", str(folder),
        "--data.image-column", "img", "--data.label-column", "fine", "--data.folder-size", "8", "--views.size", "8",
        "--encoder.name", "small", "--training.batch", "8", "--out",
    ]  # fmt: skip
    main([*words, str(tmp_path / "run"), "--training.warm-up", "0"])
    main(["evaluate", str(tmp_path / "run"), "--quiet"])
    run = Run(tmp_path / "run")
    assert run.evaluation["linear"]["top1"] == 1.0, "red and blue"
    assert list(run.metrics())[-1]["knn"] > 0.5
    moved = folder.rename(tmp_path / "moved")
    main(["evaluate", str(run.folder), "--data-root", str(moved), "--quiet"])
    capsys.readouterr()
    assert "must be a folder that save_to_disk wrote" in error_of(["evaluate", str(run.folder), "--quiet"], capsys)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--data.label-column", "kind"], "must have the column kind; it has image, label: name it with"),
        (["--data.image-column", "label"], "the column label must hold images; it holds ClassLabel"),
        (["--data.train-split", "all"], "must have the split all; it has train, test: name it with"),
        (["--data.label-column", "None", "--training.knn-every", "1"], "knn_every needs labels"),
        (["--data.root", "."], "must be a folder that save_to_disk wrote"),
    ],
)
def test_what_does_not_suit_is_one_line(
    flags: list[str],
    words: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    save(tmp_path / "data")
    monkeypatch.chdir(tmp_path)
    given = ["train", "folder", "--data.name", "hf", "--data.root", "data", "--data.folder-size", "8", *flags]
    assert words in error_of([*given, "--training.batch", "8", "--quiet"], capsys)
    assert not (tmp_path / "runs").exists()


def test_damaged_rows_are_named(tmp_path: Path) -> None:
    png = io.BytesIO()
    Picture.new("RGB", (4, 4)).save(png, "PNG")
    features = datasets.Features({"image": datasets.Image(), "label": datasets.Value("float32")})
    for name, content, words in (
        ("damaged", b"no image", "split train, row 1, cannot be read: not a JPEG"),
        ("none", None, "row 1, holds no image: remove the row"),
    ):
        rows = [{"bytes": png.getvalue(), "path": None}, content and {"bytes": content, "path": None}]
        table = datasets.Dataset.from_dict({"image": rows, "label": [0.5, 0.5]}, features=features)
        datasets.DatasetDict({"train": table}).save_to_disk(str(tmp_path / name))
        with pytest.raises(ValueError, match=words):
            read_hugging_face(tmp_path / name, "train", size=4, label_column=None)
    with pytest.raises(ValueError, match="the column label must hold whole numbers or words; it holds Value"):
        read_hugging_face(tmp_path / "none", "train", size=4)
    table.save_to_disk(str(tmp_path / "single"))
    with pytest.raises(ValueError, match="must hold splits; it is a single data set"):
        read_hugging_face(tmp_path / "single", "train", size=4)
