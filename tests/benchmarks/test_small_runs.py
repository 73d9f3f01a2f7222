"""Every benchmark runs in a tiny size; what it measures there means nothing and is not looked at."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import bank, control, sentence_tasks, text_training
from benchmarks.__main__ import PARTS
from benchmarks.table import markdown

ROOT = Path(__file__).parents[2]
LIBRARIES = {
    "views": ("kornia", "torchvision"),
    "probe": ("sklearn",),
    "training": ("lightly", "torchvision", "lightning_fabric"),
    "tasks": ("sklearn", "numpy"),
    "bank": (),
    "cached": ("safetensors",),
}
MARKDOWN = {"tasks": sentence_tasks.markdown, "bank": bank.markdown}


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("name", LIBRARIES)
def test_a_small_run_writes_rows_and_shows_its_table(name: str, tmp_path: Path) -> None:
    for library in LIBRARIES[name]:
        if importlib.util.find_spec(library) is None:
            pytest.skip(f"{library} is not installed: it is in the extra `bench`")
    done = run("benchmarks", "--only", name, "--small", "--folder", str(tmp_path))
    assert done.returncode == 0, done.stderr
    results = json.loads((tmp_path / PARTS[name].file).read_text())
    assert {row["contender"] for row in results["rows"]} == set(results["settings"]["contenders"])
    assert all(row["seconds"] > 0 for row in results["rows"])
    assert not results.get("targets"), "a target is about the full size"
    assert MARKDOWN.get(name, markdown)(results) in done.stdout


def test_a_small_training_on_text_says_how_fast_it_was(tmp_path: Path) -> None:
    done = run("benchmarks", "--only", "text", "--small", "--folder", str(tmp_path))
    assert done.returncode == 0, done.stderr
    results = json.loads((tmp_path / PARTS["text"].file).read_text())
    assert [row["threads"] for row in results["rows"]] == [1, 2]
    assert all(row["seconds_whole"] > 0 for row in results["rows"])
    assert text_training.sentence_of(results) in done.stdout


def test_a_small_run_of_agents_says_where_the_time_goes(tmp_path: Path) -> None:
    if importlib.util.find_spec("dm_control") is None:
        pytest.skip("dm_control is not installed: it is in the extra `control`")
    done = run("benchmarks", "--only", "control", "--small", "--folder", str(tmp_path))
    if "frames need OSMesa or EGL" in done.stderr:
        pytest.skip(f"frames cannot be drawn here: {done.stderr.splitlines()[-1]}")
    assert done.returncode == 0, done.stderr
    results = json.loads((tmp_path / PARTS["control"].file).read_text())
    assert all(row["seconds"]["update"] > 0 for row in results["rows"])
    assert control.markdown(results) in done.stdout
    assert control.sentence_of(results) in done.stdout


def test_nonsense_is_refused(tmp_path: Path) -> None:
    for arguments in (
        ("benchmarks.run", "--pairs", "1"),
        ("benchmarks.run", "--out", str(tmp_path)),
        ("benchmarks", "--only", "nothing"),
    ):
        assert run(*arguments).returncode == 2
