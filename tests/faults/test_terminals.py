"""Terminals without letters, names without Unicode, readers that leave: results are written all the same."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from debiased_contrastive.cli.main import main
from tests.cli.test_cli import error_of
from tests.faults.conftest import TINY, write_images

ASCII = {"PYTHONIOENCODING": "ascii"}
C_LOCALE = {"LC_ALL": "C", "LANG": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


@pytest.mark.parametrize("surroundings", [ASCII, C_LOCALE], ids=["ascii", "C"])
def test_an_ascii_terminal_gets_ascii(surroundings: dict[str, str], run: Path) -> None:
    (run / "evaluation.json").unlink()
    done = subprocess.run(
        [sys.executable, "-m", "debiased_contrastive.cli", "evaluate", str(run), "--quiet"],
        env={**os.environ, "OMP_NUM_THREADS": "1", **surroundings},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    shown = done.stdout.decode("ascii")
    assert "+-" in shown
    assert "tau+ = 0.1" in shown
    assert "linear" in json.loads((run / "evaluation.json").read_text())
    # Columns are as wide as what stands in them.
    widths = {len(line) for line in shown.splitlines() if line.startswith(("|", "+"))}
    assert len(widths) == 1, shown


def test_whoever_closes_the_pipe_gets_no_traceback(run: Path) -> None:
    words = [
        sys.executable,
        "-m",
        "debiased_contrastive.cli",
        "report",
        str(run),
        "--out",
        str(run / "page.html"),
    ]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        said = process.stderr.read().decode()
    assert "Traceback" not in said
    assert "Exception" not in said
    assert (run / "page.html").stat().st_size > 1000


def test_class_folders_whose_names_are_no_unicode_are_shown_escaped(tmp_path: Path) -> None:
    images = write_images(tmp_path / "images")
    os.rename(os.fsencode(images / "cat"), os.fsencode(images) + b"/caf\xe9")
    root = ["--data.root", str(images), "--data.test-root", str(images)]
    run = tmp_path / "run"
    main(["train", "folder", "--data.folder-size", "12", "--views.size", "12", *TINY, *root, "--out", str(run)])
    main(["evaluate", str(run), "--quiet"])
    main(["report", str(run), "--out", str(tmp_path / "page.html")])
    assert "caf\\udce9" in (tmp_path / "page.html").read_text()
    out = tmp_path / "z.npz"
    main(["embed", str(run), "--images", str(images), "--out", str(out), "--quiet"])
    assert out.exists()


def test_messages_move_no_cursor(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = error_of(["resume", str(tmp_path / "\x1b[31mred\a")], capsys)
    assert "\x1b" not in line
    assert "\\x1b[31mred\\x07 holds no run" in line


def test_names_on_the_output_move_no_cursor(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = json.loads((run / "settings.json").read_text())
    settings["objective"]["kind"] = "\x1b[31mred"
    (run / "settings.json").write_text(json.dumps(settings))
    main(["report", str(run), "--out", str(tmp_path / "\x1b[32m.html"), "--title", "tau ="])
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    assert "\\x1b[31mred" in shown
    assert "\\x1b[32m.html" in shown


@pytest.mark.parametrize("words", [["--version"], ["presets"]], ids=repr)
def test_a_full_output_is_one_line_and_a_closed_pipe_is_none(words: list[str]) -> None:
    command = [sys.executable, "-m", "debiased_contrastive.cli", *words]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("debiased: standard output could not be written (No space left on device)")
    assert done.stderr.count("\n") == 1, done.stderr
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == ""


LOADING = """
import sys
from importlib.abc import MetaPathFinder

class Interrupt(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "torch":
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupt())
from debiased_contrastive.cli.main import main
main(sys.argv[1:])
"""


@pytest.mark.parametrize("words", [["train", "demo"], ["verify"], ["audit", "z.npy"], ["resume", "RUN"]])
def test_an_interrupt_while_libraries_are_loaded_is_one_line(words: list[str], run: Path, tmp_path: Path) -> None:
    words = [str(run) if word == "RUN" else word for word in words]
    done = subprocess.run(
        [sys.executable, "-c", LOADING, *words], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (130, "debiased: interrupted\n")
    assert list(tmp_path.glob("runs")) == []
