"""Encoders by their timm names: trained, resumed, evaluated, loaded; what does not suit is one line."""

import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import debiased_contrastive as dc
from benchmarks.contenders import load_torchvision
from debiased_contrastive.cli.main import main
from debiased_contrastive.images.batch_norm import synchronise_batch_norm
from debiased_contrastive.images.frozen import ImageEncoder
from debiased_contrastive.images.timm_encoders import TimmEncoder
from debiased_contrastive.runs import Run
from tests.cli.test_cli import SMALL, error_of

load_torchvision()
timm: Any = pytest.importorskip("timm", reason="the extra timm is not installed")


@pytest.mark.parametrize(
    ("name", "features"), [("test_resnet", 96), ("test_vit", 64), ("mobilenetv3_small_050", 1024)]
)
def test_features_are_those_of_timm(name: str, features: int) -> None:
    torch.manual_seed(0)
    encoder = TimmEncoder(name, in_channels=1, size=32)
    assert encoder.training
    assert encoder.feature_dim == features
    images = torch.rand(2, 1, 32, 32)
    assert encoder.eval()(images).shape == (2, features)
    assert torch.equal(encoder(images), encoder.network(images))
    torch.manual_seed(0)
    again = TimmEncoder(name, in_channels=1, size=32).eval()
    assert torch.equal(again(images), encoder(images)), "weights are drawn from the seed alone"


def test_a_run_is_trained_resumed_evaluated_and_loaded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "run"
    words = ["train", "demo", *SMALL, "--training.knn-every", "0", "--encoder.name", "timm:test_resnet"]
    main([*words, "--training.epochs", "1", "--out", str(run)])
    weights = (run / "encoder.safetensors").read_bytes()
    for name in ("encoder.safetensors", "encoder.json", "checkpoint-5.pt"):
        (run / name).unlink()
    main(["resume", str(run), "--quiet"])
    assert (run / "encoder.safetensors").read_bytes() == weights
    main(["evaluate", str(run), "--quiet"])
    assert Run(run).evaluation["linear"]["top1"] > 0.2
    encoder = dc.load_encoder(run)
    assert isinstance(encoder, ImageEncoder)
    assert isinstance(encoder.network, TimmEncoder)
    plain = timm.create_model("test_resnet", num_classes=0, in_chans=1)
    plain.load_state_dict(encoder.network.network.state_dict())
    capsys.readouterr()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("timm:nope", "timm has no model 'nope'"),
        ("timm:test_vits", "timm has no model 'test_vits', but test_"),
        (
            "timm:test_vit",
            "takes no images of 28 x 28 pixels with 1 channels (Input height (28) should be divisible",
        ),
        (
            "resnet19",
            "encoder.name must be one of small, resnet18, resnet34, resnet50, or timm:NAME; got 'resnet19'",
        ),
    ],
)
def test_what_does_not_suit_is_one_line(
    name: str, words: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert words in error_of(["train", "demo", "--encoder.name", name], capsys)
    assert not (tmp_path / "runs").exists()


def test_without_timm_the_extra_is_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "timm", None)
    line = error_of(["train", "demo", "--encoder.name", "timm:resnet18"], capsys)
    assert "the encoder timm:resnet18 needs timm, which does not load" in line
    assert "pip install 'debiased-contrastive[timm]'" in line


def test_a_batch_norm_that_does_more_is_not_shared() -> None:
    network = timm.create_model("mobilenetv3_small_050", num_classes=0)
    with pytest.raises(
        ValueError, match="this encoder has BatchNormAct2d, which does more: train it in one process"
    ):
        synchronise_batch_norm(network, torch.device("cpu"))
