"""`dc.load_encoder`: what a finished run learnt, ready to use; every other folder is one line."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import debiased_contrastive as dc
from debiased_contrastive.cli.main import main
from debiased_contrastive.images.frozen import ImageEncoder
from debiased_contrastive.runs import new_run
from debiased_contrastive.text.frozen import SentenceEncoder
from tests.cli.test_cli import SMALL
from tests.text.test_run import write

TEXT = [
    "--text.vocabulary", "50", "--text.longest", "8", "--towers.word-dim", "8", "--towers.hidden-dim", "4",
    "--training.batch", "20", "--training.epochs", "1", "--training.accelerator", "cpu", "--quiet",
]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    main(
        [
            "train",
            "demo",
            *SMALL,
            "--training.epochs",
            "1",
            "--training.knn-every",
            "0",
            "--out",
            str(folder / "images"),
        ]
    )
    corpus = write(folder / "text.txt", 60)
    main(["train", "quickthoughts-small", *TEXT, "--corpus", str(corpus), "--out", str(folder / "text")])
    return folder


def test_images_are_encoded_as_embed_encodes_them(folder: Path, tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (3, 28, 28), np.uint8)
    (tmp_path / "pictures").mkdir()
    for place, picture in enumerate(pixels):
        Image.fromarray(picture).save(tmp_path / "pictures" / f"{place}.png")
    main(
        [
            "embed",
            str(folder / "images"),
            "--images",
            str(tmp_path / "pictures"),
            "--out",
            str(tmp_path / "z.npy"),
            "-q",
        ]
    )
    encoder = dc.load_encoder(folder / "images")
    assert isinstance(encoder, ImageEncoder)
    assert not encoder.training
    assert not any(weight.requires_grad for weight in encoder.parameters())
    # Folders of images are read as colours, of which a gray encoder makes gray again.
    features = encoder(torch.from_numpy(pixels).unsqueeze(1).expand(-1, 3, -1, -1))
    assert features.shape == (3, encoder.feature_dim)
    np.testing.assert_array_equal(features.numpy(), np.load(tmp_path / "z.npy"))
    assert encoder(torch.zeros(2, 1, 40, 56, dtype=torch.uint8)).shape == (2, encoder.feature_dim)
    for wrong in (torch.rand(2, 1, 28, 28), torch.zeros(1, 28, 28, dtype=torch.uint8)):
        with pytest.raises(ValueError, match=r"pixels must be uint8 with shape \(n, 1, h, w\); got"):
            encoder(wrong)


def test_sentences_are_encoded_as_embed_encodes_them(folder: Path, tmp_path: Path) -> None:
    sentences = ["sea1 sea2 town3", "town4", "never seen"]
    (tmp_path / "new.txt").write_text("\n".join(sentences))
    main(
        [
            "embed",
            str(folder / "text"),
            "--sentences",
            str(tmp_path / "new.txt"),
            "--out",
            str(tmp_path / "z.npy"),
            "-q",
        ]
    )
    encoder = dc.load_encoder(str(folder / "text"))
    assert isinstance(encoder, SentenceEncoder)
    assert not encoder.training
    vectors = encoder.encode(sentences)
    assert vectors.shape == (3, encoder.feature_dim)
    np.testing.assert_array_equal(vectors.numpy(), np.load(tmp_path / "z.npy"))
    with pytest.raises(ValueError, match="at least one sentence to encode; got none"):
        encoder.encode([])
    mistakes: list[tuple[Any, str]] = [("sea1 sea2", "'sea1 sea2'"), (["sea1", None], "None")]
    for wrong, got in mistakes:
        with pytest.raises(ValueError, match=f"sentences must be a list of strings; got {got}"):
            encoder.encode(wrong)


def test_other_folders_are_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"nowhere holds no run: expected settings\.json in it"):
        dc.load_encoder(tmp_path / "nowhere")
    new_run(tmp_path / "begun", {"seed": 0}, "images")
    with pytest.raises(FileNotFoundError, match="is not trained yet: finish it with `debiased resume"):
        dc.load_encoder(tmp_path / "begun")
    new_run(tmp_path / "agent", {"camera": {}}, "control")
    with pytest.raises(ValueError, match="is a run on control: there are encoders of images and text alone"):
        dc.load_encoder(tmp_path / "agent")
    new_run(tmp_path / "other", {}, "sound")
    with pytest.raises(ValueError, match="a run must be of one of the domains images, text, control; got 'sound'"):
        dc.load_encoder(tmp_path / "other")
