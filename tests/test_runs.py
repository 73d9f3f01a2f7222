"""The run directory survives crashes, refuses to be overwritten."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from debiased_contrastive import runs
from debiased_contrastive.files import write_atomically
from debiased_contrastive.runs import existing_run, new_run


def test_what_is_written_is_read(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run", {"tau_plus": 0.1, "classes": [1, 2]})
    for step in range(4):
        run.log(step, {"loss": 1 / (step + 1)})
    again = existing_run(tmp_path / "run")
    assert again.settings == {"tau_plus": 0.1, "classes": [1, 2]}
    assert again.environment["versions"]["torch"]
    assert [line["step"] for line in again.metrics()] == [0, 1, 2, 3]


def test_a_torn_line_and_later_steps_are_forgotten(tmp_path: Path) -> None:
    run = new_run(tmp_path, {})
    for step in range(5):
        run.log(step, {"loss": 0.5})
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"step": 5, "lo')
    assert [line["step"] for line in run.metrics()] == [0, 1, 2, 3, 4]
    run.forget_after(2)
    run.log(3, {"loss": 0.25})
    assert [(line["step"], line["loss"]) for line in run.metrics()] == [(0, 0.5), (1, 0.5), (2, 0.5), (3, 0.25)]


def test_a_run_is_not_overwritten_and_what_is_none_is_refused(tmp_path: Path) -> None:
    new_run(tmp_path, {})
    with pytest.raises(
        ValueError, match=r"holds a run already: `debiased resume .*` continues it, --out DIR starts"
    ):
        new_run(tmp_path, {})
    with pytest.raises(FileNotFoundError, match=r"holds no run: expected settings.json"):
        existing_run(tmp_path / "other")
    (tmp_path / "settings.json").write_text("{")
    with pytest.raises(ValueError, match=r"settings.json is not JSON"):
        _ = existing_run(tmp_path).settings


def test_a_file_is_there_in_full_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    write_atomically(path, json.dumps([1]))
    write_atomically(path, json.dumps([1, 2]))
    assert json.loads(path.read_text()) == [1, 2]
    assert [entry.name for entry in tmp_path.iterdir()] == ["file.json"]


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_the_revision_is_of_this_code_and_not_of_a_repository_around_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def git(*words: str) -> None:
        identity = ("-c", "user.name=a", "-c", "user.email=a@b.c")
        subprocess.run(["git", "-C", str(tmp_path), *identity, *words], check=True, capture_output=True)

    file = tmp_path / "site" / "runs.py"
    file.parent.mkdir()
    file.write_text("")
    git("init")
    git("commit", "--allow-empty", "-m", "theirs")
    monkeypatch.setattr(runs, "__file__", str(file))
    monkeypatch.setattr(runs, "_revision", runs._revision.__wrapped__)
    assert new_run(tmp_path / "installed", {}).environment["revision"] is None
    git("add", "site")
    git("commit", "-m", "ours")
    environment = new_run(tmp_path / "own", {}).environment
    assert len(environment["revision"]) == 40
    assert not environment["modified"], "a new result beside the code is none of its changes"
    file.write_text("changed")
    assert new_run(tmp_path / "changed", {}).environment["modified"]
