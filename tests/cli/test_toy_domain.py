"""A fourth domain is one folder and one record: the real command line trains, resumes, judges and reports it."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from debiased_contrastive.cli.main import main
from debiased_contrastive.domains import DOMAINS
from tests.cli.test_cli import error_of
from tests.toy.domain import POINTS

FLAGS = [
    "--training.accelerator",
    "cpu",
    "--training.log-every",
    "1",
    "--training.checkpoint-every",
    "5",
    "--quiet",
]
EVERY = (*DOMAINS, POINTS)
ROOT = Path(__file__).parents[2]


def lines(run: Path) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in line.items() if key != "points_per_second"} for line in found]


def test_the_folder_is_small() -> None:
    files = list((ROOT / "tests/toy").glob("*.py"))
    assert sum(len(file.read_text().splitlines()) for file in files) <= 150


def test_it_is_trained_killed_resumed_judged_and_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    main(["train", "points", "--training.epochs", "400", *FLAGS, "--out", str(whole)], EVERY)
    assert json.loads((whole / "settings.json").read_text())["domain"] == "points"

    words = [sys.executable, "-m", "tests.toy", "train", "points", "--training.epochs", "400", *FLAGS]
    with subprocess.Popen([*words, "--out", str(killed)], cwd=ROOT, stderr=subprocess.DEVNULL) as process:
        limit = time.monotonic() + 60
        while not list(killed.glob("checkpoint-*.pt")) and time.monotonic() < limit:
            time.sleep(0.01)
        os.kill(process.pid, signal.SIGKILL)
    assert not (killed / "encoder.json").exists(), "it was killed before its end"
    assert list(killed.glob("checkpoint-*.pt"))
    capsys.readouterr()
    assert "is not trained yet" in error_of(["evaluate", str(killed)], capsys, EVERY)
    main(["resume", str(killed), "--quiet"], EVERY)
    assert f"trained; next: debiased evaluate {killed}" in capsys.readouterr().err
    assert lines(killed) == lines(whole), "bit for bit"

    capsys.readouterr()
    for run in (whole, killed):
        main(["evaluate", str(run), "--quiet"], EVERY)
    assert "Neighbours" in capsys.readouterr().out
    accuracy = json.loads((whole / "evaluation.json").read_text())["knn"]
    assert accuracy == json.loads((killed / "evaluation.json").read_text())["knn"] > 0.9
    main(["report", str(whole), "--out", str(tmp_path / "page.html")], EVERY)
    page = (tmp_path / "page.html").read_text()
    assert "vote of the nearest points" in page
    assert "on 360 points in the plane" in page
    assert "Points per second" in page


def test_its_mistakes_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "run"
    main(["train", "points", "--training.epochs", "1", *FLAGS, "--out", str(run)], EVERY)
    capsys.readouterr()
    for words, message in (
        (["train", "points", "--training.batch", "361"], "batch must be at most 360; got 361"),
        (["train", "points", "--count", "1"], "count must be an integer of at least 2; got 1"),
        (
            ["evaluate", str(run), "--official"],
            "is a run on points: evaluate takes no such flag there; got --official",
        ),
        (["embed", str(run), "--images", "x", "--out", "z.npy"], "is a run on points: there are features of"),
        (["watch", str(run)], "is a run on points: only a run on control has an agent to watch"),
        (["demo", "--domain", "points"], "there is no demonstration of points"),
        (["resume", str(run), "--data-root", "x"], "it has no data, so leave --data-root out"),
    ):
        assert message in error_of(words, capsys, EVERY)


def test_a_run_of_a_domain_that_is_not_there_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "run"
    main(["train", "points", "--training.epochs", "1", *FLAGS, "--out", str(run)], EVERY)
    capsys.readouterr()
    message = "a run must be of one of the domains images, text, control; got 'points'"
    assert message in error_of(["resume", str(run)], capsys)
    # A page can be made of it all the same.
    main(["report", str(run), "--out", str(tmp_path / "page.html")])


def test_presets_list_it(capsys: pytest.CaptureFixture[str]) -> None:
    main(["presets"], EVERY)
    assert "three classes of points in the plane" in capsys.readouterr().out
