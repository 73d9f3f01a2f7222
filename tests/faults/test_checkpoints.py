"""A checkpoint knows its run, and what only has its name is passed over."""

import hashlib
import io
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from debiased_contrastive.cli.main import main
from debiased_contrastive.runs import Run
from tests.cli.test_cli import error_of
from tests.faults.conftest import IMAGES


def test_a_checkpoint_of_another_run_is_refused(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other"
    main([*IMAGES, "--seed", "1", "--out", str(other)])
    (other / "encoder.json").unlink()
    for path in other.glob("checkpoint-*.pt"):
        path.unlink()
    shutil.copy(run / "checkpoint-9.pt", other)
    capsys.readouterr()
    line = error_of(["resume", str(other), "--quiet"], capsys)
    assert "is of another run, whose seed is 0 instead of 1" in line
    assert not Run(other).is_finished


def test_a_folder_that_is_not_empty_and_holds_no_run_is_refused(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (run / "settings.json").unlink()
    before = sorted(run.iterdir())
    line = error_of([*IMAGES, "--seed", "1", "--out", str(run)], capsys)
    assert f"{run} is not empty and holds no run (it holds checkpoint-8.pt): choose another --out" in line
    assert sorted(run.iterdir()) == before


def test_what_a_crash_at_the_very_start_leaves_is_no_obstacle(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "environment.json").write_text("{}")
    (tmp_path / "run" / ".settings.json.123.tmp").write_text("{")
    main([*IMAGES, "--out", str(tmp_path / "run")])
    assert Run(tmp_path / "run").is_finished


def with_digest(state: object) -> bytes:
    buffer = io.BytesIO()
    torch.save(state, buffer)
    return hashlib.sha256(buffer.getvalue()).digest() + buffer.getvalue()


@pytest.mark.parametrize(
    "make",
    [
        os.mkfifo,
        Path.mkdir,
        lambda path: path.symlink_to("nowhere"),
        lambda path: path.symlink_to(path.name),
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(hashlib.sha256(b"no state").digest() + b"no state"),
        lambda path: path.write_bytes(with_digest([1, 2])),
        lambda path: path.write_bytes(with_digest({"step": 999})),
        lambda path: path.write_bytes(with_digest({"step": "999", "module": {}})),
        lambda path: path.write_bytes(with_digest({"step": -5, "module": {}})),
        lambda path: path.write_bytes(with_digest({"step": True, "module": {}})),
        lambda path: path.write_bytes(with_digest({"step": 999, "module": {1: 2}})),
        lambda path: path.write_bytes(with_digest({"step": 999, "module": {}, "settings": 5})),
        lambda path: path.write_bytes(with_digest({"step": 999, "module": {}, "settings": {}, "digest": "x"})),
    ],
    ids=[
        "pipe", "folder", "dangling", "loop", "empty", "not torch", "list", "no module", "step of letters",
        "negative", "true", "module of numbers", "settings of a number", "no samples",
    ],
)  # fmt: skip
def test_what_is_no_checkpoint_is_passed_over_with_a_line(
    make: Callable[[Path], object], whole_run: Path, unfinished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make(unfinished / "checkpoint-999.pt")
    main(["resume", str(unfinished), "--quiet"])
    assert "checkpoint-999.pt is no whole checkpoint and was passed over" in capsys.readouterr().err
    weights = [(folder / "encoder.safetensors").read_bytes() for folder in (unfinished, whole_run)]
    assert weights[0] == weights[1]


def test_a_state_of_this_run_that_is_not_whole_is_one_line(
    unfinished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    newest = max(unfinished.glob("checkpoint-*.pt"))
    state = torch.load(io.BytesIO(newest.read_bytes()[32:]), weights_only=True)
    del state["optimiser"]
    newest.write_bytes(with_digest(state))
    assert "the newest checkpoint in" in error_of(["resume", str(unfinished), "--quiet"], capsys)


def test_a_checkpoint_of_an_older_version_is_taken_with_a_line(
    whole_run: Path, unfinished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in unfinished.glob("checkpoint-*.pt"):
        state = torch.load(io.BytesIO(path.read_bytes()[32:]), weights_only=True)
        for name in ("settings", "samples", "digest"):
            del state[name]
        path.write_bytes(with_digest(state))
    main(["resume", str(unfinished), "--quiet"])
    assert "does not say which run it is of: an older version wrote it" in capsys.readouterr().err
    weights = [(folder / "encoder.safetensors").read_bytes() for folder in (unfinished, whole_run)]
    assert weights[0] == weights[1]


def test_links_to_checkpoints_that_are_not_there_start_nothing_anew(
    unfinished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in unfinished.glob("checkpoint-*.pt"):
        path.unlink()
        path.symlink_to(f"/nowhere/{path.name}")
    log = (unfinished / "metrics.jsonl").read_text()
    with pytest.raises(SystemExit, match="2"):
        main(["resume", str(unfinished), "--quiet"])
    assert "no checkpoint in" in capsys.readouterr().err.splitlines()[-1]
    assert (unfinished / "metrics.jsonl").read_text() == log


def test_a_folder_in_the_place_of_a_checkpoint_to_come_is_told_before_the_work(
    unfinished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (unfinished / "checkpoint-9.pt").mkdir()
    assert "checkpoint-9.pt is a folder in the place of a checkpoint" in error_of(
        ["resume", str(unfinished)], capsys
    )


def test_a_checkpoint_beyond_the_end_is_told(unfinished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    newest = max(unfinished.glob("checkpoint-*.pt"))
    state = torch.load(io.BytesIO(newest.read_bytes()[32:]), weights_only=True)
    newest.write_bytes(with_digest({**state, "step": 10**6}))
    line = error_of(["resume", str(unfinished), "--quiet"], capsys)
    assert "stands at step 1000000 of 9: remove it" in line


def test_a_seed_of_many_digits_is_read_as_it_was_written(tmp_path: Path) -> None:
    main([*IMAGES, "--seed", str(2**62 + 1), "--out", str(tmp_path / "run")])
    (tmp_path / "run" / "encoder.json").unlink()
    main(["resume", str(tmp_path / "run"), "--quiet"])
    assert Run(tmp_path / "run").settings["seed"] == 2**62 + 1
