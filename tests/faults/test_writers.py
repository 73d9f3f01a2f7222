"""One writer a run: who comes second is told who holds it, and a holder that was killed holds nothing."""

import errno
import fcntl
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from debiased_contrastive.cli.main import main
from debiased_contrastive.runs import Run, new_run
from tests.cli.test_cli import error_of
from tests.faults.conftest import IMAGES

HOLD = """
import sys, time
from pathlib import Path
from debiased_contrastive.runs import Run
with Run(Path(sys.argv[1])).hold(print):
    print("held", flush=True)
    time.sleep(60)
"""


@contextmanager
def another_holder(run: Path) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen([sys.executable, "-c", HOLD, str(run)], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "held\n"
            yield process
        finally:
            process.kill()


def test_the_second_is_told_who_holds_the_run_and_writes_nothing(
    unfinished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {path.name: path.read_bytes() for path in unfinished.iterdir() if path.name != ".lock"}
    with another_holder(unfinished) as holder:
        line = error_of(["resume", str(unfinished), "--quiet"], capsys)
        assert f"{unfinished} is being written by process {holder.pid} on {os.uname().nodename}" in line
        assert {path.name: path.read_bytes() for path in unfinished.iterdir() if path.name != ".lock"} == before
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        main(["resume", str(unfinished), "--quiet"])
    assert Run(unfinished).is_finished


def test_two_who_begin_one_run_at_once_are_one_and_an_error(tmp_path: Path) -> None:
    outcomes: list[str] = []
    gate = threading.Barrier(8)

    def begin() -> None:
        gate.wait()
        try:
            new_run(tmp_path / "run", {"seed": threading.get_ident()})
            outcomes.append("begun")
        except ValueError as error:
            assert re.search("holds a run already|is being written by", str(error))  # noqa: PT017
            outcomes.append("refused")

    threads = [threading.Thread(target=begin) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["begun"] + ["refused"] * 7


def test_a_file_system_without_locks_is_told_and_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(_handle: int, _operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    main([*IMAGES, "--out", str(tmp_path / "run")])
    assert "cannot be locked here: make sure that nobody else trains this run" in capsys.readouterr().err
    assert Run(tmp_path / "run").is_finished


def test_a_lock_that_is_a_link_or_a_pipe_is_refused_and_nothing_is_emptied(
    unfinished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "precious").write_text("mine")
    (unfinished / ".lock").unlink()
    (unfinished / ".lock").symlink_to(tmp_path / "precious")
    assert ".lock must be a file of its folder" in error_of(["resume", str(unfinished), "--quiet"], capsys)
    assert (tmp_path / "precious").read_text() == "mine"
    (unfinished / ".lock").unlink()
    os.mkfifo(unfinished / ".lock")
    assert ".lock must be a file of its folder" in error_of(["resume", str(unfinished), "--quiet"], capsys)
