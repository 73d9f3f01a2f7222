"""A real cluster of two worker processes, one of which is killed in the middle: nothing is lost."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from debiased_contrastive.reproduce.runner import Job, fill
from debiased_contrastive.runs import Run
from tests.reproduce.test_runner import small_job
from tests.reproduce.test_ways import Seen
from tests.reproduce.work import die, double, fail, wait_for

distributed: Any = pytest.importorskip(
    "distributed", reason="Dask distributed is missing: the extra cluster has it"
)
from debiased_contrastive.reproduce.cluster import _connect  # noqa: E402, which needs it

SCHEDULER = """
import distributed, time
if __name__ == "__main__":
    print(distributed.LocalCluster(n_workers=0, dashboard_address=None).scheduler_address, flush=True)
    time.sleep(600)
"""
pytestmark = pytest.mark.filterwarnings("ignore")


class Killing(Seen):
    """Calls something once, when a run has a checkpoint to go on from."""

    def __init__(self, run: Path, kill: Callable[[], None]) -> None:
        super().__init__()
        self.run, self.kill, self.is_done = run, kill, False

    def at(self, name: str, done: int, total: int, note: str) -> None:
        super().at(name, done, total, note)
        if name == self.run.name and not self.is_done and list(self.run.glob("checkpoint-*.pt")):
            self.is_done = True
            # Not in the thread of the event loop, through which answers come.
            threading.Thread(target=self.kill).start()


def test_a_lost_worker_costs_nothing_but_time(tmp_path: Path) -> None:
    first = small_job(epochs=100, log_every=100, checkpoint_every=40)
    second = replace(small_job(), name="two-seed1")
    jobs = [first, second, Job("plain", partial(double, 21)), Job("fails", fail)]
    killed: list[int] = []
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        client = distributed.Client(cluster)
        folder, pids = tmp_path / "runs" / first.name, client.run(os.getpid)

        def kill() -> None:
            for address, keys in client.processing().items():
                if any(str(key).startswith(first.name) for key in keys):
                    assert not Run(folder).is_finished, "it was killed too late to test anything"
                    killed.append(pids[address])
                    os.kill(pids[address], signal.SIGKILL)

        watch = Killing(folder, kill)
        address = cluster.scheduler_address
        failures = fill(jobs, tmp_path / "out", tmp_path / "runs", cluster=address, watch=watch)
        client.close()
    assert failures == ["fails: RuntimeError: it rains and rains"]
    assert len(killed) == 1
    taken = next(line for line in watch.lines if line.startswith(f"{first.name} is taken up at step "))
    assert int(taken.split("at step ")[1].split()[0]) > 1, "from its last checkpoint"
    same = [first, jobs[2]]
    fill(same, tmp_path / "here", tmp_path / "others")
    assert (tmp_path / "out" / "two-seed1.json").exists()
    for job in same:
        found, wanted = (
            json.loads((tmp_path / place / f"{job.name}.json").read_text()) for place in ("out", "here")
        )
        assert found == wanted


def test_a_run_that_kills_its_workers_is_one_line_and_the_others_go_on(tmp_path: Path) -> None:
    jobs = [
        Job("dies", partial(die, after=0.5)),
        *(Job(f"lives-{number}", partial(double, number)) for number in range(3)),
    ]
    watch = Seen()
    with pytest.importorskip("dask").config.set({"distributed.scheduler.allowed-failures": 1}):
        failures = fill(jobs, tmp_path, tmp_path / "runs", cluster="local:1", watch=watch)
    assert any(line.startswith("dies is handed to ") for line in watch.lines), "nothing in silence"
    assert failures == ["dies: 2 workers died while they did it, perhaps for lack of memory"]
    assert {path.stem for path in tmp_path.glob("*.json")} == {"lives-0", "lives-1", "lives-2"}


def test_nobody_at_the_address_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("debiased_contrastive.reproduce.cluster.PATIENCE", 0.2)
    start = time.monotonic()
    with pytest.raises(
        ValueError, match=r"no Dask scheduler answers at tcp://127.0.0.1:1 .*: start one, or use local"
    ):
        fill([Job("plain", partial(double, 1))], tmp_path, tmp_path, cluster="tcp://127.0.0.1:1")
    assert time.monotonic() - start < 30


def test_a_scheduler_that_goes_is_a_line_for_each_run(tmp_path: Path) -> None:
    jobs = [Job(f"waits-{number}", partial(wait_for, tmp_path / "never")) for number in range(2)]
    scheduler = subprocess.Popen(
        [sys.executable, "-c", SCHEDULER], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert scheduler.stdout is not None
    address = scheduler.stdout.readline().strip()
    threading.Timer(2, scheduler.kill).start()
    failures = fill(jobs, tmp_path, tmp_path / "runs", cluster=address, watch=Seen())
    scheduler.communicate()
    assert sorted(failures) == [
        f"{job.name}: the scheduler is gone: start the cluster and the same command again" for job in jobs
    ]


def test_the_workers_of_a_cluster_here_leave_ctrl_c_to_the_process_that_asks_them_to_stop() -> None:
    def answers() -> bool:
        return signal.getsignal(signal.SIGINT) is not signal.SIG_IGN

    with _connect("local:1") as client:
        assert list(client.run(answers).values()) == [False]
