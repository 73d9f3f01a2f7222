"""Jobs in processes of their own: the same results, a failure is one line, a stop loses nothing."""

import json
import threading
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from debiased_contrastive.reproduce.runner import Job, Lines, fill
from debiased_contrastive.runs import Run
from tests.reproduce.test_runner import small_job
from tests.reproduce.work import die, double, fail, hold, wait_for


class Seen(Lines):
    """Keeps what it is told; stops at a step."""

    def __init__(self, stop_at: int = 10**9) -> None:
        self.stop_at, self.lines, self.steps = stop_at, list[str](), list[int]()
        self.is_stopped = False

    def at(self, name: str, done: int, total: int, note: str) -> None:
        super().at(name, done, total, note)
        self.steps.append(done)
        self.is_stopped = self.is_stopped or done >= self.stop_at

    def tell(self, line: str) -> None:
        self.lines.append(line)


def test_processes_give_the_results_of_one_and_failures_are_lines(tmp_path: Path) -> None:
    watch = Seen()
    jobs = [Job("dies", die), small_job(), Job("fails", fail), Job("plain", partial(double, 21))]
    failures = fill(jobs, tmp_path / "out", tmp_path / "runs", workers=2, watch=watch)
    assert sorted(failures) == [
        "dies: its process ended with exit code -9",
        "fails: RuntimeError: it rains and rains",
    ]
    assert "fails failed: RuntimeError: it rains and rains" in watch.lines
    assert {path.stem for path in (tmp_path / "out").glob("*.json")} == {"one-seed0", "plain"}
    assert watch.steps[-1] == 12, "the end of a run is always told"
    here = fill(jobs[1:], tmp_path / "here", tmp_path / "others")
    assert here == ["fails: RuntimeError: it rains and rains"]
    for name in ("one-seed0", "plain"):
        found, wanted = (json.loads((tmp_path / place / f"{name}.json").read_text()) for place in ("out", "here"))
        assert found == wanted


@pytest.mark.parametrize("workers", [1, 2])
def test_a_stop_writes_a_checkpoint_and_the_same_command_goes_on(workers: int, tmp_path: Path) -> None:
    job = small_job(epochs=30, checkpoint_every=10**6)
    with pytest.raises(KeyboardInterrupt):
        fill([job], tmp_path / "out", tmp_path / "runs", workers=workers, watch=Seen(stop_at=1))
    run = Run(tmp_path / "runs" / job.name)
    assert not run.is_finished
    assert not list((tmp_path / "out").glob("*"))
    assert len(list(run.folder.glob("checkpoint-*.pt"))) == 1
    again = Seen()
    fill([job], tmp_path / "out", tmp_path / "runs", watch=again)
    assert again.steps[0] > 1, "it did not begin anew"
    found = json.loads((tmp_path / "out" / "one-seed0.json").read_text())
    assert found["course"] == json.loads(json.dumps(job.make(tmp_path / "whole")))["course"]


def test_nothing_is_left_running_after_a_second_interrupt(tmp_path: Path) -> None:
    class Impatient(Seen):
        def tell(self, line: str) -> None:
            raise KeyboardInterrupt(line)

    def interrupt() -> None:
        while not list(tmp_path.glob("[0-9]*")):
            time.sleep(0.05)
        (tmp_path / "go").touch()

    threading.Thread(target=interrupt, daemon=True).start()
    jobs = [Job("holds", partial(hold, tmp_path)), Job("waits", partial(wait_for, tmp_path / "go"))]
    with pytest.raises(KeyboardInterrupt):
        fill(jobs, tmp_path / "out", tmp_path / "runs", workers=2, watch=Impatient())
    state = Path(f"/proc/{next(tmp_path.glob('[0-9]*')).name}/stat")
    limit = time.monotonic() + 60
    while state.exists() and state.read_text().split()[2] != "Z":
        assert time.monotonic() < limit
        time.sleep(0.05)


def test_a_training_goes_on_where_its_data_moved_and_one_of_other_settings_is_refused_before_any_work(
    tmp_path: Path,
) -> None:
    job, runs = small_job(), tmp_path / "runs"
    with pytest.raises(KeyboardInterrupt):
        fill([job], tmp_path, runs, watch=Seen(stop_at=1))
    longer = replace(job, settings=replace(job.settings, training=replace(job.settings.training, epochs=4)))
    with pytest.raises(
        ValueError,
        match=r"one-seed0 holds a run with other settings \(training.epochs is 3 instead of 4\): "
        "choose another folder for runs, or remove it",
    ):
        fill([Job("before", partial(double, 1)), longer], tmp_path, runs)
    assert not list(tmp_path.glob("*.json"))
    moved = replace(job, settings=replace(job.settings, data=replace(job.settings.data, root=tmp_path)))
    assert fill([moved], tmp_path, runs) == []
    steps = [line["step"] for line in json.loads((tmp_path / "one-seed0.json").read_text())["course"]]
    assert steps == list(range(1, 13))
