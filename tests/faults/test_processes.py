"""Several processes: one that is lost, another number of them, other data for one; each ends with a line."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from debiased_contrastive.cli.main import main
from tests.faults.conftest import IMAGES, TINY, write_images
from tests.faults.test_writers import another_holder
from tests.images.test_resume import environment, metrics

pytestmark = pytest.mark.slow
LONG = [*IMAGES, "--training.epochs", "4000", "--training.log-every", "1"]


def start(rank: int, port: int, words: list[str]) -> subprocess.Popen[str]:
    """One of two processes, as a launcher on another machine would start it."""
    places = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": 2, "LOCAL_WORLD_SIZE": 2, "MASTER_PORT": port}
    return subprocess.Popen(
        [sys.executable, "-m", "debiased_contrastive.cli", *words],
        env={
            **environment(),
            **{name: str(value) for name, value in places.items()},
            "MASTER_ADDR": "127.0.0.1",
            "GLOO_SOCKET_IFNAME": "lo",
        },
        stderr=subprocess.PIPE,
        text=True,
    )


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def wait_for(run: Path, lines: int, processes: list[subprocess.Popen[str]]) -> None:
    deadline = time.monotonic() + 120
    while len(metrics(run)) < lines:
        assert all(process.poll() is None for process in processes)
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.parametrize("lost", [0, 1])
def test_where_one_of_two_is_killed_the_other_ends_with_a_line(lost: int, tmp_path: Path) -> None:
    run, port = tmp_path / "run", free_port()
    processes = [start(rank, port, [*LONG, "--out", str(run)]) for rank in range(2)]
    try:
        wait_for(run, 5, processes)
        processes[lost].send_signal(signal.SIGKILL)
        _, said = processes[1 - lost].communicate(timeout=60)
    finally:
        for process in processes:
            process.kill()
        processes[lost].communicate()
    assert processes[1 - lost].returncode == 2, said[-2000:]
    assert said.splitlines()[-1].startswith("debiased: another process of this training ended"), said[-2000:]
    assert "Traceback" not in said


def test_torchrun_ends_where_one_of_its_processes_is_killed(tmp_path: Path) -> None:
    run = tmp_path / "run"
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    words = [*launcher, "-m", "debiased_contrastive.cli", *LONG, "--out", str(run)]
    surroundings = {**environment(), "GLOO_SOCKET_IFNAME": "lo"}
    with subprocess.Popen(words, env=surroundings, stderr=subprocess.DEVNULL) as process:
        wait_for(run, 5, [])
        found = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True, check=True)
        os.kill(int(found.stdout.split()[-1]), signal.SIGKILL)
        assert process.wait(timeout=60) != 0


@pytest.mark.parametrize(("before", "after"), [(1, 2), (2, 1)])
def test_a_run_goes_on_with_another_number_of_processes(before: int, after: int, tmp_path: Path) -> None:
    run, whole = tmp_path / "run", tmp_path / "whole"
    main([*IMAGES, "--out", str(whole)])
    finish([*IMAGES, "--out", str(run)], before)
    (run / "encoder.json").unlink()
    for step in (8, 9):
        (run / f"checkpoint-{step}.pt").rename(tmp_path / f"checkpoint-{step}.pt")
    (tmp_path / "checkpoint-8.pt").rename(run / "checkpoint-8.pt")
    finish(["resume", str(run), "--quiet"], after)
    losses = [torch.tensor([line["loss"] for line in metrics(one)]) for one in (run, whole)]
    assert len(losses[0]) == 9
    # Sums in another order, which Adam makes larger.
    torch.testing.assert_close(*losses, rtol=0, atol=2e-3)


def finish(words: list[str], count: int) -> None:
    if count == 1:
        main(words)
        return
    port = free_port()
    processes = [start(rank, port, words) for rank in range(count)]
    for process in processes:
        _, said = process.communicate(timeout=120)
        assert process.returncode == 0, said[-2000:]


def test_other_data_on_one_of_two_are_told_by_both(tmp_path: Path) -> None:
    port = free_port()
    words = [
        "train",
        "folder",
        "--data.folder-size",
        "12",
        "--views.size",
        "12",
        *TINY,
        "--out",
        str(tmp_path / "run"),
    ]
    roots = [write_images(tmp_path / f"images{rank}", seed=rank) for rank in range(2)]
    processes = [start(rank, port, [*words, "--data.root", str(roots[rank])]) for rank in range(2)]
    for rank, process in enumerate(processes):
        _, said = process.communicate(timeout=60)
        assert process.returncode == 2, said[-2000:]
        assert f"all processes must read the same data; process {rank} reads 40 samples" in said.splitlines()[-1]


def test_two_processes_find_a_run_that_is_held(unfinished: Path) -> None:
    with another_holder(unfinished) as holder:
        port = free_port()
        processes = [start(rank, port, ["resume", str(unfinished), "--quiet"]) for rank in range(2)]
        for process in processes:
            _, said = process.communicate(timeout=60)
            assert process.returncode == 2, said[-2000:]
            assert f"is being written by process {holder.pid}" in said.splitlines()[-1]
