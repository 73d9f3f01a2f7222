"""No room on the disk, none in memory, no place to write: said before the work where it can be, in one line."""

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from debiased_contrastive.cli.main import main
from debiased_contrastive.runs import Run
from tests.cli.test_cli import error_of
from tests.faults.conftest import IMAGES, TINY, write_images, write_text


def limited(words: list[str], largest: int) -> subprocess.CompletedProcess[str]:
    """Run a command that may write no file above so many bytes, as on a full disk but without being root."""
    return subprocess.run(
        [sys.executable, "-m", "debiased_contrastive.cli", *words],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (largest, largest)),
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_no_room_for_a_checkpoint_names_it_and_what_is_safe(tmp_path: Path) -> None:
    run = tmp_path / "run"
    done = limited([*IMAGES, "--out", str(run)], 20_000)
    assert done.returncode == 2
    last = done.stderr.splitlines()[-1]
    assert last.startswith(f"debiased: {run}/checkpoint-2.pt could not be written (File too large)")
    assert "what was there before is untouched" in last
    assert not list(run.glob(".*.tmp"))
    main(["resume", str(run), "--quiet"])
    assert Run(run).is_finished


def test_no_room_for_the_log_names_it_and_what_is_safe(unfinished: Path) -> None:
    largest = 10 * max(path.stat().st_size for path in unfinished.glob("checkpoint-*.pt"))
    first = json.dumps({"step": 1, "long": "x" * (largest - 100)})
    (unfinished / "metrics.jsonl").write_text(f"{first}\n")
    done = limited(["resume", str(unfinished), "--quiet"], largest)
    assert done.returncode == 2
    last = done.stderr.splitlines()[-1]
    path = unfinished / "metrics.jsonl"
    assert f"{path} could not be written (File too large); the run is safe at its last checkpoint" in last
    assert "Traceback" not in done.stderr


def test_no_room_for_tokens_names_them(tmp_path: Path) -> None:
    text = write_text(tmp_path / "text.txt", lines=30_000)
    done = limited(["train", "quickthoughts-small", "--corpus", str(text), "--out", str(tmp_path / "run")], 100_000)
    assert done.returncode == 2
    last = done.stderr.splitlines()[-1]
    assert "text.txt.tokens-" in last
    assert "could not be written (File too large); the text is untouched" in last
    assert sorted(path.name for path in tmp_path.iterdir()) == ["text.txt"]


def test_a_place_that_cannot_be_written_is_told_before_the_work(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def never(*_rest: object, **_more: object) -> None:
        raise AssertionError("the work began")

    for work in (
        "images.evaluate.read_image_folder",
        "images.evaluate.evaluate",
        "cli.actions.write_report",
        "auditing.audit.audit",
    ):
        monkeypatch.setattr(f"debiased_contrastive.{work}", never)
    (tmp_path / "file").write_text("")
    np.save(tmp_path / "table.npy", np.ones((20, 3)))
    out = str(tmp_path / "file" / "page.npy")
    table = str(tmp_path / "table.npy")
    for words in (
        ["embed", str(run), "--images", str(tmp_path), "--out", out],
        ["report", str(run), "--out", out],
        ["audit", table, "--out", out],
        ["verify", "--out", str(tmp_path / "file")],
    ):
        assert "must be writable (Not a directory): choose another place" in error_of(words, capsys)
    os.mkfifo(tmp_path / "pipe")
    assert "it is a pipe or device" in error_of(["report", str(run), "--out", str(tmp_path / "pipe")], capsys)
    (tmp_path / "dangling").symlink_to("/nowhere/at/all")
    out = str(tmp_path / "dangling" / "page.html")
    assert "must be writable" in error_of(["report", str(run), "--out", out], capsys)
    (run / "evaluation.json").unlink()
    (run / "evaluation.json").mkdir()
    assert "evaluation.json must be a file to write to; it is a folder" in error_of(["evaluate", str(run)], capsys)


@pytest.mark.parametrize("words", [["--out", ""], ["--out="], ["--data.root", ""]], ids=repr)
def test_an_empty_name_is_refused(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    line = error_of([*IMAGES, *words], capsys)
    assert f"{words[0].rstrip('=')} must have a value; got nothing" in line
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (
            ["--objective.num-positives", "10000000"],
            "10,000,001 views of 28 x 28 pixels takes 584 GiB; this machine has",
        ),
        (["--encoder.hidden-dim", "2000000000"], "memory is too small: "),
    ],
    ids=["views", "network"],
)
def test_settings_that_no_memory_holds_are_one_line(
    flags: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert words in error_of([*IMAGES, *flags, "--out", str(tmp_path / "run")], capsys)


@pytest.mark.parametrize(
    "words",
    [
        [*IMAGES, "--encoder.width", "9" * 20],
        [*IMAGES, "--encoder.out-dim", "9" * 400],
        [*IMAGES, "--objective.num-positives", "9" * 400],
        [*IMAGES, "--views.size", "9" * 400],
        [*IMAGES, "--training.batch", "9" * 20],
        ["train", "quickthoughts-small", "--text.longest", "9" * 20],
        ["train", "quickthoughts-small", "--towers.hidden-dim", "9" * 20],
        ["audit", "TABLE", "--batch-size", "9" * 400],
        ["audit", "TABLE", "--seed", "9" * 20],
        ["bounds", "--tau-plus", "0.1", "--num-unlabeled", "9", "--num-anchors", "9" * 400],
    ],
    ids=lambda words: f"{words[0]} {words[-2]}",
)
def test_absurd_numbers_are_one_line(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("table.npy", np.random.default_rng(0).normal(size=(60, 3)))
    with pytest.raises(SystemExit, match="2"):
        main(["table.npy" if word == "TABLE" else word for word in words])
    said = capsys.readouterr().err.splitlines()
    assert said[-1].startswith("debiased: ")
    assert not (tmp_path / "runs").exists()


def test_images_that_no_memory_holds_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    images = write_images(tmp_path / "images")
    words = ["train", "folder", "--data.root", str(images), "--data.folder-size", "100000"]
    line = error_of([*words, *TINY, "--out", str(tmp_path / "run")], capsys)
    assert "a batch of 20 images with 2 views of 64 x 64 pixels takes 559 " in line
    assert "GiB; this machine has" in line
    assert not (tmp_path / "run").exists()
