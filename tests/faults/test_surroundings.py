"""Homes, temporary folders and terminals that are not there, or not as one has them."""

import errno
import json
import os
import pty
import pwd
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NoReturn

import pytest

from debiased_contrastive import __version__
from debiased_contrastive.cli.main import main
from debiased_contrastive.runs import Run
from tests.cli.test_cli import error_of
from tests.faults.conftest import IMAGES, SENTENCES, write_text

# One process for many commands, since each would load PyTorch first.
SCRIPT = """
import json, sys
from debiased_contrastive.cli.main import main
for words in json.loads(sys.argv[1]):
    main(words)
"""
BOUNDS = ["bounds", "--tau-plus", "0.1", "--num-unlabeled", "510"]
PLACES = ("HOME", "TMPDIR", "TEMP", "TMP", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "MPLCONFIGDIR")


def environment(**changes: str) -> dict[str, str]:
    """Without any place for files of the user, but for those given."""
    kept = {name: value for name, value in os.environ.items() if name not in PLACES}
    return {**kept, "OMP_NUM_THREADS": "1", **changes}


def whole_work(folder: Path) -> list[str]:
    """A process that looks, trains, evaluates and reports in a folder."""
    write_text(folder / "text.txt")
    commands = [
        ["--version"],
        ["presets"],
        BOUNDS,
        [*IMAGES, "--out", "images"],
        ["evaluate", "images", "--quiet"],
        [*SENTENCES, "--corpus", "text.txt", "--out", "text"],
        ["report", "images", "text"],
    ]
    return [sys.executable, "-c", SCRIPT, json.dumps(commands)]


def check_work(done: subprocess.CompletedProcess[str], folder: Path) -> None:
    """Everything is there, and nothing is said but what is always said."""
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{__version__}\nPresets")
    assert "Theorem 3 asks for N = 97,533" in done.stdout
    assert "\x1b" not in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert "Warning" not in done.stderr
    assert "linear" in Run(folder / "images").evaluation
    assert Run(folder / "text").is_finished
    assert "</html>" in (folder / "report.html").read_text()


@pytest.mark.slow
def test_no_home_no_terminal_no_input_and_files_for_oneself(tmp_path: Path) -> None:
    done = subprocess.run(
        whole_work(tmp_path),
        cwd=tmp_path,
        env=environment(),
        preexec_fn=lambda: os.close(0),
        start_new_session=True,
        umask=0o077,
        capture_output=True,
        text=True,
        check=False,
    )
    check_work(done, tmp_path)
    written = [path for path in tmp_path.rglob("*") if path.name != "text.txt"]
    assert len(written) > 10
    assert [path for path in written if path.stat().st_mode & 0o077] == [], "others may not look"


@pytest.mark.slow
def test_a_home_that_takes_nothing_and_no_temporary_folder(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("a file, so that not even root can write below it")
    surroundings = environment(
        HOME=str(tmp_path / "home"), TMPDIR=str(tmp_path / "none"), TERM="dumb", NO_COLOR="1"
    )
    done = subprocess.run(
        whole_work(tmp_path),
        cwd=tmp_path,
        env={**surroundings, "COLUMNS": "40"},
        capture_output=True,
        text=True,
        check=False,
    )
    check_work(done, tmp_path)
    assert not (tmp_path / "none").exists()
    # Into a file, tables are as wide as they need to be.
    assert "mean |debiased loss - its limit| (Theorem 3)" in done.stdout


def test_nobody_hears_a_table_where_the_output_is_closed(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "debiased_contrastive.cli", *BOUNDS],
        env=environment(HOME=str(tmp_path)),
        preexec_fn=lambda: os.closerange(0, 2),
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def unknown(_number: int) -> NoReturn:
    raise KeyError("no such user")


@pytest.mark.parametrize("place", ["no home", "home is missing", "home is a file", "cache is a file"])
def test_the_novels_need_no_home_or_say_what_to_set(
    place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in PLACES:
        monkeypatch.delenv(name, raising=False)
    # In a container with --user, nobody knows who that is.
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "file").touch()
    if place != "no home":
        name = "XDG_CACHE_HOME" if place.startswith("cache") else "HOME"
        monkeypatch.setenv(name, str(tmp_path / ("none" if place.endswith("missing") else "file")))
    # As little to train as there can be.
    few = ["--text.held-out", "5900", "--towers.name", "bag"]
    code: object = 0
    try:
        main([*SENTENCES, *few, "--out", str(tmp_path / "run")])
    except SystemExit as end:
        code = end.code
    if code == 0:
        assert Run(tmp_path / "run").is_finished
        return
    line = capsys.readouterr().err.splitlines()[-1]
    assert code == 2
    assert line.startswith("debiased: ")
    assert "--text.cache" in line or "XDG_CACHE_HOME" in line
    assert not (tmp_path / "run").exists()


LONG = 60 * "x"


@pytest.mark.parametrize(
    "arguments",
    [
        "train demo --objective.tua-plus 0.1",
        "train demo --objective.tau-plus 1.5",
        "train demo --views.scale 0.5 0.1",
        f"train demo --objective.kind {LONG}",
        "bounds --num-unlabeled 9",
    ],
)
def test_a_narrow_terminal_does_not_change_a_message(
    arguments: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = []
    for columns in ("200", "40"):
        monkeypatch.setenv("COLUMNS", columns)
        lines.append(error_of(arguments.split(), capsys))
    assert lines[1] == lines[0]


def shown(commands: list[list[str]], folder: Path, **changes: str) -> str:
    """What a terminal is sent."""
    ours, theirs = pty.openpty()
    words = [sys.executable, "-c", SCRIPT, json.dumps(commands)]
    surroundings = environment(HOME=str(folder), **changes)
    with subprocess.Popen(
        words, cwd=folder, env=surroundings, stdin=theirs, stdout=theirs, stderr=theirs
    ) as process:
        os.close(theirs)
        sent = b"".join(iter(lambda: _read(ours), b""))
    os.close(ours)
    assert process.returncode == 0, sent.decode()
    return sent.decode()


def _read(handle: int) -> bytes:
    try:
        return os.read(handle, 2**16)
    except OSError as error:
        # So Linux says that the other side has left.
        if error.errno != errno.EIO:
            raise
        return b""


def test_a_terminal_that_knows_nothing_gets_letters_alone(tmp_path: Path) -> None:
    aloud = [word for word in IMAGES if word != "--quiet"]
    text = shown([BOUNDS, [*aloud, "--out", "run"]], tmp_path, TERM="dumb")
    assert "\x1b" not in text
    assert "100%" in text
    assert "trained; next" in text


def test_a_narrow_terminal_without_colours_gets_narrow_tables_without_colours(tmp_path: Path) -> None:
    text = shown([BOUNDS], tmp_path, TERM="xterm-256color", NO_COLOR="1", COLUMNS="40")
    assert re.findall(r"\x1b\[(?:[34]\d|9\d|10\d)[;m\d]*", text) == []
    lines = [re.sub(r"\x1b\[[\d;]*m", "", line) for line in text.splitlines()]
    table = [line for line in lines if line.startswith(("│", "┃"))]
    assert len(table) > 10
    assert {len(line) for line in table} == {40}
