"""Two processes under torchrun train as one does with the same global batch."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from tests.images.test_resume import QUEUE, SMALL, environment, finish, metrics


@pytest.mark.parametrize("flags", [[], QUEUE, ["--objective.kind", "unbiased"]], ids=["batch", "queue", "unbiased"])
def test_two_processes_train_as_one(flags: list[str], tmp_path: Path) -> None:
    arguments = ["train", "demo", *SMALL, *flags, "--training.epochs", "2", "--training.precision", "32-true"]
    one, two = trained_by_one_and_two(arguments, tmp_path)
    alone, together = ([line["loss"] for line in metrics(run)] for run in (one, two))
    assert len(alone) == 10
    torch.testing.assert_close(torch.tensor(together), torch.tensor(alone), rtol=0, atol=2e-4)
    check_same_weights(one, two, atol=5e-3)


def test_two_processes_train_on_text_as_one(tmp_path: Path) -> None:
    lines = [f"word{place % 9} and word{place % 7}" + ("\n" if place % 8 == 0 else "") for place in range(80)]
    (tmp_path / "text.txt").write_text("\n".join(lines) + "\n")
    arguments = ["train", "quickthoughts-small", "--corpus", str(tmp_path / "text.txt"), "--training.batch", "20",
                 "--towers.word-dim", "8", "--towers.hidden-dim", "6", "--training.accelerator", "cpu",
                 "--training.log-every", "1", "--objective.tau-plus", "0.05"]  # fmt: skip
    one, two = trained_by_one_and_two(arguments, tmp_path)
    for key in ("loss", "biased_loss", "floored", "tau_cap_median"):
        alone, together = ([line[key] for line in metrics(run)] for run in (one, two))
        assert len(alone) == 8
        torch.testing.assert_close(torch.tensor(together), torch.tensor(alone), rtol=0, atol=1e-4, msg=key)
    check_same_weights(one, two, atol=1e-3)


def trained_by_one_and_two(arguments: list[str], folder: Path) -> tuple[Path, Path]:
    one, two = folder / "one", folder / "two"
    finish(*arguments, "--out", str(one))
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    done = subprocess.run(
        [*torchrun, "-m", "debiased_contrastive.cli", *arguments, "--out", str(two)],
        env={**environment(), "GLOO_SOCKET_IFNAME": os.environ.get("GLOO_SOCKET_IFNAME", "lo")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return one, two


def check_same_weights(one: Path, two: Path, *, atol: float) -> None:
    first, second = (load_file(run / "encoder.safetensors") for run in (one, two))
    for name, weight in first.items():
        torch.testing.assert_close(second[name], weight, rtol=0, atol=atol, msg=name)
