"""Two processes under torchrun train as one does with the same global batch."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from tests.experiments.test_resume import QUEUE, SMALL, environment, finish, metrics


@pytest.mark.parametrize("flags", [[], QUEUE, ["--objective.kind", "unbiased"]], ids=["batch", "queue", "unbiased"])
def test_two_processes_train_as_one(flags: list[str], tmp_path: Path) -> None:
    arguments = ["train", "demo", *SMALL, *flags, "--training.epochs", "2", "--training.precision", "32-true"]
    one, two = tmp_path / "one", tmp_path / "two"
    finish(*arguments, "--out", str(one))
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    module = ["-m", "debiased_contrastive.cli"]
    done = subprocess.run(
        [*torchrun, *module, *arguments, "--out", str(two)],
        env={**environment(), "GLOO_SOCKET_IFNAME": os.environ.get("GLOO_SOCKET_IFNAME", "lo")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    alone, together = ([line["loss"] for line in metrics(run)] for run in (one, two))
    assert len(alone) == 10
    torch.testing.assert_close(torch.tensor(together), torch.tensor(alone), rtol=0, atol=2e-4)
    first, second = (load_file(run / "encoder.safetensors") for run in (one, two))
    for name, weight in first.items():
        torch.testing.assert_close(second[name], weight, rtol=0, atol=5e-3, msg=name)
