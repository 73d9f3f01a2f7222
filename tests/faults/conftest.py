"""Small finished runs, made once and copied for each fault."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from debiased_contrastive.cli.main import main

TINY = [
    "--training.batch", "20", "--training.epochs", "3", "--training.log-every", "1", "--training.knn-every", "0",
    "--training.checkpoint-every", "2", "--encoder.width", "4", "--encoder.hidden-dim", "16",
    "--encoder.out-dim", "8", "--training.accelerator", "cpu", "--quiet",
]  # fmt: skip
IMAGES = ["train", "demo", "--data.per-class", "6", *TINY]
SENTENCES = [
    "train", "quickthoughts-small", "--training.batch", "20", "--towers.word-dim", "8", "--towers.hidden-dim", "6",
    "--training.accelerator", "cpu", "--training.checkpoint-every", "2", "--text.vocabulary", "30", "--quiet",
]  # fmt: skip


def write_images(folder: Path, per_class: int = 20, seed: int = 0, side: int = 12) -> Path:
    """Two classes of small pictures."""
    rng = np.random.default_rng(seed)
    for name in ("cat", "dog"):
        (folder / name).mkdir(parents=True)
        for number in range(per_class):
            Image.fromarray(rng.integers(0, 255, (side, side, 3), np.uint8)).save(
                folder / name / f"{number:03}.bmp"
            )
    return folder


def write_text(path: Path, lines: int = 80) -> Path:
    path.write_text("\n".join(f"word{place % 9} and word{place % 7}" for place in range(lines)) + "\n")
    return path


@pytest.fixture(scope="session")
def whole_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("images") / "run"
    main([*IMAGES, "--out", str(folder)])
    main(["evaluate", str(folder), "--quiet"])
    return folder


@pytest.fixture
def run(whole_run: Path, tmp_path: Path) -> Path:
    """A copy of a finished and evaluated run on images."""
    return shutil.copytree(whole_run, tmp_path / "run")


@pytest.fixture
def unfinished(run: Path) -> Path:
    """The same, before its last step was done: resuming takes it up at its newest checkpoint."""
    (run / "encoder.json").unlink()
    checkpoints = sorted(run.glob("checkpoint-*.pt"), key=lambda path: int(path.stem.split("-")[1]))
    checkpoints[-1].unlink()
    return run


@pytest.fixture(scope="session")
def whole_text_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("text")
    main([*SENTENCES, "--corpus", str(write_text(folder / "text.txt")), "--out", str(folder / "run")])
    return folder / "run"


@pytest.fixture
def text_run(whole_text_run: Path, tmp_path: Path) -> Path:
    """A copy of a finished run on text."""
    return shutil.copytree(whole_text_run, tmp_path / "text-run")
