"""CMC by the command: killed and resumed it ends as one that was not, in two processes as in one."""

import json
import signal
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file

from debiased_contrastive.cli.main import main
from debiased_contrastive.evaluation.official import MULTIVIEW
from debiased_contrastive.images.evaluate import crop_middle
from debiased_contrastive.training.checkpoint import latest_checkpoint
from tests.images.test_processes import check_same_weights, trained_by_one_and_two
from tests.images.test_resume import metrics, stop_at

SMALL = [
    "--data.folder-size", "16", "--views.size", "16", "--training.batch", "16", "--training.epochs", "6",
    "--training.log-every", "1", "--training.checkpoint-every", "3", "--encoder.width", "4", "--encoder.out-dim", "8",
    "--objective.bank-negatives", "20", "--training.accelerator", "cpu", "--quiet",
]  # fmt: skip


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return two_colours(tmp_path_factory.mktemp("parent") / "images")


def two_colours(root: Path) -> Path:
    """Two classes of 24 small images."""
    root.mkdir()
    draw = np.random.default_rng(0)
    for name, colour in (("blue", (0, 0, 200)), ("red", (200, 0, 0))):
        (root / name).mkdir()
        for number in range(24):
            pixels = (np.array(colour) + draw.integers(0, 55, (18, 18, 3))).astype(np.uint8)
            Image.fromarray(pixels).save(root / name / f"{number}.png")
    return root


def arguments(images: Path) -> list[str]:
    roots = ["--data.root", str(images), "--data.test-root", str(images)]
    return ["train", "cmc-small", *roots, *SMALL, "--objective.tau-plus", "0.3", "--objective.exclude-own"]


def test_the_released_probe_sees_the_middle_of_test_images() -> None:
    for size, start, end in ((256, 16, 240), (64, 4, 60), (16, 1, 15)):
        pixels = torch.randint(256, (2, 3, size, size), dtype=torch.uint8)
        assert torch.equal(crop_middle(pixels), pixels[:, :, start:end, start:end])


def test_killed_and_resumed_evaluated_and_reported(
    images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, run = tmp_path / "whole", tmp_path / "run"
    main([*arguments(images), "--out", str(whole)])
    code = stop_at(run, 7, [*arguments(images), "--out", str(run)], signal.SIGKILL)
    assert code == -signal.SIGKILL
    main(["resume", str(run), "--quiet"])
    assert metrics(run) == metrics(whole)
    assert [line["step"] for line in metrics(run)] == list(range(1, 19))
    assert (run / "encoder.safetensors").read_bytes() == (whole / "encoder.safetensors").read_bytes()
    monkeypatch.setitem(MULTIVIEW, "epochs", 2)
    main(["evaluate", str(run), "--official", "--quiet"])
    main(["report", str(run), "--out", str(tmp_path / "page.html")])
    # Red and blue are told apart by their colour alone.
    evaluation = json.loads((run / "evaluation.json").read_text())
    assert evaluation["linear"]["top1"] == 1
    assert evaluation["official"]["best_top1"] == 1
    assert "cmc-small" in (tmp_path / "page.html").read_text()
    assert load_file(run / "encoder.safetensors")["first.stages.0.0.weight"].shape[1] == 1


def test_two_processes_train_as_one(images: Path, tmp_path: Path) -> None:
    one, two = trained_by_one_and_two([*arguments(images), "--training.epochs", "2"], tmp_path)
    assert max(line["floored"] for line in metrics(one)) > 0
    for key in ("loss", "floored"):
        alone, together = ([line[key] for line in metrics(run)] for run in (one, two))
        assert len(alone) == 6
        torch.testing.assert_close(torch.tensor(together), torch.tensor(alone), rtol=0, atol=1e-3, msg=key)
    check_same_weights(one, two, atol=5e-3)
    states = [latest_checkpoint(run)[0] for run in (one, two)]
    banks = [state["module"]["banks.0.storage"] for state in states if state is not None]
    torch.testing.assert_close(*banks, rtol=0, atol=5e-3)
