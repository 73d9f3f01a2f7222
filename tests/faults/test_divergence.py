"""A training that diverged says so, keeps its last sound checkpoint, and is not called trained."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from debiased_contrastive.cli.main import main
from debiased_contrastive.files import file_digest
from debiased_contrastive.runs import Run
from debiased_contrastive.training import gradient
from tests.cli.test_cli import error_of
from tests.faults.conftest import IMAGES, write_images


def test_weights_that_diverge_in_the_last_step_are_not_called_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clip = gradient._clip
    calls = []

    def diverge(optimiser: torch.optim.Optimizer, most: float) -> None:
        clip(optimiser, most)
        calls.append(most)
        if len(calls) == 9:
            optimiser.param_groups[0]["params"][0].grad.fill_(float("nan"))

    monkeypatch.setattr(gradient, "_clip", diverge)
    run = tmp_path / "run"
    with pytest.raises(SystemExit, match="2"):
        main([*IMAGES, "--training.clip", "100", "--out", str(run)])
    line = capsys.readouterr().err.splitlines()[-1]
    assert "the training diverged: encoder.stages.0.0.weight is not finite at step 9" in line
    assert not Run(run).is_finished
    assert max(path.name for path in run.glob("checkpoint-*.pt")) == "checkpoint-8.pt"
    assert "is not trained yet" in error_of(["evaluate", str(run), "--quiet"], capsys)


def test_an_encoder_of_nans_embeds_nothing(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    weights = load_file(run / "encoder.safetensors")
    weights["stages.0.0.weight"][0] = float("nan")
    save_file(weights, run / "encoder.safetensors")
    description = json.loads((run / "encoder.json").read_text())
    description["sha256"] = file_digest(run / "encoder.safetensors")
    (run / "encoder.json").write_text(json.dumps(description))
    images, out = write_images(tmp_path / "images", 2), tmp_path / "z.npy"
    line = error_of(["embed", str(run), "--images", str(images), "--out", str(out)], capsys)
    assert "the training diverged: stages.0.0.weight is not finite in" in line
    assert not out.exists()


def test_features_that_overflow_are_not_written(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    images, out = write_images(tmp_path / "images", 2), tmp_path / "z.npy"
    rows = torch.ones(4, 8)
    rows[2, 3] = float("inf")
    monkeypatch.setattr("debiased_contrastive.images.evaluate.compute_features", lambda *_rest: rows)
    line = error_of(["embed", str(run), "--images", str(images), "--out", str(out), "--quiet"], capsys)
    assert f"features must be finite; row 2 of {images} is not: nothing was written" in line
    assert not out.exists()
    monkeypatch.undo()
    main(["embed", str(run), "--images", str(images), "--out", str(out), "--quiet"])
    assert np.isfinite(np.load(out)).all()
