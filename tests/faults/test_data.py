"""A run knows its data: it goes on with the same, wherever they lie, and with no others."""

import io
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import pytest
import torch

from debiased_contrastive.cli.main import main
from debiased_contrastive.images import images as image_sets
from debiased_contrastive.images.images import FolderImages, read_image_folder
from debiased_contrastive.runs import Run
from tests.cli.test_cli import error_of
from tests.faults.conftest import SENTENCES, TINY, write_images, write_text

FOLDER = ["train", "folder", "--data.folder-size", "12", "--views.size", "12", *TINY]
BANK = [
    "train", "cmc-small", "--data.folder-size", "12", "--views.size", "12", "--objective.bank-negatives", "8",
    *(flag for flag in TINY if flag not in ("--encoder.hidden-dim", "16")),
]  # fmt: skip


def begin(flags: list[str], images: Path, run: Path) -> None:
    """A run that was stopped after its first checkpoints."""
    main([*flags, "--data.root", str(images), "--out", str(run)])
    (run / "encoder.json").unlink()
    max(run.glob("checkpoint-*.pt")).unlink()


def remove_some(images: Path) -> None:
    for path in sorted((images / "cat").iterdir())[:4]:
        path.unlink()


def replace_all(images: Path) -> None:
    """Other pictures of the same names and sizes."""
    shutil.rmtree(images)
    write_images(images, seed=1)


def replace_what_lies_far_within(images: Path) -> None:
    """The start of every file as it was; these are large enough that only a part of each is read."""
    for path in images.rglob("*.bmp"):
        content = path.read_bytes()
        path.write_bytes(content[:70_000] + bytes(reversed(content[70_000:])))


def add_one_and_remove_one(images: Path) -> None:
    """As many as before, yet every row of a bank would belong to another image."""
    shutil.copy(images / "cat" / "000.bmp", images / "cat" / "0000.bmp")
    (images / "dog" / "019.bmp").unlink()


@pytest.mark.parametrize("flags", [FOLDER, BANK], ids=["batch", "bank"])
@pytest.mark.parametrize("change", [remove_some, replace_all, add_one_and_remove_one])
def test_other_images_are_refused(
    flags: list[str], change: Callable[[Path], None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    images, run = write_images(tmp_path / "images"), tmp_path / "run"
    begin(flags, images, run)
    change(images)
    capsys.readouterr()
    line = error_of(["resume", str(run), "--quiet"], capsys)
    assert f"{run} must go on with the data that it began with, 40 samples with digest" in line
    assert not Run(run).is_finished


def test_other_images_beyond_the_start_of_every_file_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    images, run = write_images(tmp_path / "images", 12, side=200), tmp_path / "run"
    begin(FOLDER, images, run)
    replace_what_lies_far_within(images)
    capsys.readouterr()
    assert "must go on with the data that it began with" in error_of(["resume", str(run), "--quiet"], capsys)


def test_moved_images_are_the_same(tmp_path: Path) -> None:
    images, run = write_images(tmp_path / "images"), tmp_path / "run"
    begin(FOLDER, images, run)
    images.rename(tmp_path / "elsewhere")
    for path in (tmp_path / "elsewhere").rglob("*.bmp"):
        os.utime(path, (0, 0))
    main(["resume", str(run), "--data-root", str(tmp_path / "elsewhere"), "--quiet"])
    assert Run(run).is_finished


def test_another_text_of_the_same_words_is_refused_and_a_moved_one_is_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text, run = write_text(tmp_path / "text.txt"), tmp_path / "run"
    main([*SENTENCES, "--corpus", str(text), "--out", str(run)])
    (run / "encoder.json").unlink()
    (run / "checkpoint-8.pt").unlink()
    lines = text.read_text().splitlines()
    (tmp_path / "other.txt").write_text("\n".join(reversed(lines)) + "\n")
    capsys.readouterr()
    words = ["resume", str(run), "--quiet", "--data-root"]
    with pytest.raises(SystemExit, match="2"):
        main([*words, str(tmp_path / "other.txt")])
    assert "must go on with the data that it began with, 80 samples" in capsys.readouterr().err.splitlines()[-1]
    text.rename(tmp_path / "moved.txt")
    main([*words, str(tmp_path / "moved.txt")])
    assert Run(run).is_finished


def test_the_digest_of_a_folder_reads_a_few_files_and_tells_every_name_and_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "images").mkdir()
    for number in range(2000):
        (tmp_path / "images" / f"{number:04}.jpg").write_bytes(b"x" * (number % 7))
    found = read_image_folder(tmp_path / "images", 8, in_memory_bytes=0, workers=0)
    assert isinstance(found, FolderImages)
    opened: list[str] = []

    def counted(path: str, mode: str) -> BinaryIO:
        opened.append(path)
        assert mode == "rb"
        return io.BytesIO(Path(path).read_bytes())

    monkeypatch.setattr(image_sets, "open", counted, raising=False)
    first = found.digest
    assert 200 < len(opened) < 520
    (tmp_path / "images" / "1001.jpg").write_bytes(b"x" * 9)
    again = read_image_folder(tmp_path / "images", 8, in_memory_bytes=0, workers=0)
    assert again.digest != first


def test_the_digest_of_images_in_memory_tells_pixels_and_labels(tmp_path: Path) -> None:
    images = read_image_folder(write_images(tmp_path / "images"), 12)
    same, chosen = read_image_folder(tmp_path / "images", 12), images.only([1, 0])
    assert images.digest == same.digest != chosen.digest
    assert chosen.digest == same.only([1, 0]).digest != images.only([0, 1], 5).digest
    assert images.labels is not None
    assert torch.equal(images.labels, torch.arange(40) // 20)
