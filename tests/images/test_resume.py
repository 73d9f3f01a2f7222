"""A run that is killed ends as one that was not: weights, queue, metrics, bit for bit."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

SMALL = [
    "--data.per-class", "16", "--training.batch", "32", "--training.epochs", "6", "--training.knn-every", "0",
    "--training.log-every", "1", "--training.checkpoint-every", "3", "--training.schedule", "cosine",
    "--encoder.width", "4", "--encoder.hidden-dim", "16", "--encoder.out-dim", "8",
    "--training.accelerator", "cpu", "--quiet",
]  # fmt: skip
QUEUE = [
    "--objective.negatives", "queue", "--objective.queue-size", "100", "--objective.num-positives", "2",
    "--objective.auto",
]  # fmt: skip


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "debiased_contrastive.cli", *words]


def environment() -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1"}


def finish(*words: str) -> None:
    subprocess.run(command(*words), env=environment(), check=True, capture_output=True)


def metrics(run: Path) -> list[dict[str, Any]]:
    path = run / "metrics.jsonl"
    text = path.read_text() if path.exists() else ""
    lines = [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]
    return [{name: value for name, value in line.items() if name != "images_per_second"} for line in lines]


def stop_at(run: Path, step: int, arguments: list[str], number: signal.Signals) -> int:
    """Start a run, send the signal as soon as it is seen at that step, and return its exit code."""
    with subprocess.Popen(command(*arguments), env=environment(), stderr=subprocess.PIPE) as process:
        deadline = time.monotonic() + 120
        while len(metrics(run)) < step:
            assert process.poll() is None, process.stderr and process.stderr.read()
            assert time.monotonic() < deadline
            time.sleep(0.002)
        process.send_signal(number)
        process.communicate()
        return process.returncode


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("whole") / "run"
    finish("train", "demo", *SMALL, *QUEUE, "--out", str(run))
    return run


def check_equal(run: Path, whole: Path) -> None:
    assert metrics(run) == metrics(whole)
    assert [line["step"] for line in metrics(run)] == list(range(1, 31))
    assert (run / "encoder.safetensors").read_bytes() == (whole / "encoder.safetensors").read_bytes()


def test_killed_at_a_random_step_and_resumed(whole: Path, tmp_path: Path) -> None:
    run, step = tmp_path / "run", random.randint(4, 15)
    assert (
        stop_at(run, step, ["train", "demo", *SMALL, *QUEUE, "--out", str(run)], signal.SIGKILL) == -signal.SIGKILL
    )
    assert not (run / "encoder.safetensors").exists()
    finish("resume", str(run), "--quiet")
    check_equal(run, whole)


def test_without_a_whole_checkpoint_nothing_is_overwritten(whole: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(whole, run)
    (run / "encoder.json").unlink()
    for path in run.glob("checkpoint-*.pt"):
        path.write_bytes(path.read_bytes()[:-100])
    done = subprocess.run(
        command("resume", str(run), "--quiet"), env=environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith(f"debiased: no checkpoint in {run} is whole")
    assert metrics(run) == metrics(whole)


def test_interrupted_with_ctrl_c_loses_no_step(whole: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    code = stop_at(run, 5, ["train", "demo", *SMALL, *QUEUE, "--out", str(run)], signal.SIGINT)
    assert code == 130
    newest = max(int(path.stem.split("-")[1]) for path in run.glob("checkpoint-*.pt"))
    assert newest == metrics(run)[-1]["step"]
    # A checkpoint that a full disk cut short is passed over.
    path = run / f"checkpoint-{newest}.pt"
    path.write_bytes(path.read_bytes()[:-100])
    finish("resume", str(run), "--quiet")
    check_equal(run, whole)
