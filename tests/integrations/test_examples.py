"""Examples beside other libraries, and the document that leads from them to this one, run."""

import ast
import re
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest
import torch

ROOT = Path(__file__).parents[2]
SECTIONS = dict(
    re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", (ROOT / "docs/from-your-library.md").read_text(), re.S | re.M)
)
BLOCKS = {
    title: blocks for title, text in SECTIONS.items() if (blocks := re.findall(r"```python\n(.*?)```", text, re.S))
}

Run: TypeAlias = Callable[..., str]
"""Name of an example and its arguments in, what it prints out."""


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    def run_here(name: str, *arguments: str) -> str:
        """In this process, because the libraries take seconds to import."""
        monkeypatch.setattr("sys.argv", [name, *arguments])
        runpy.run_path(str(ROOT / "examples" / name), run_name="__main__")
        return capsys.readouterr().out

    return run_here


def test_every_section_but_one_has_a_block() -> None:
    assert len(SECTIONS) == 7
    assert set(SECTIONS) - set(BLOCKS) == {"MultipleNegativesRankingLoss"}


@pytest.mark.parametrize("title", BLOCKS)
def test_python_in_the_document_runs(title: str) -> None:
    for block in BLOCKS[title]:
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom) and node.module and not node.module.startswith("debiased"):
                pytest.importorskip(node.module.split(".")[0], reason=f"the section {title} needs {node.module}")
        torch.manual_seed(0)
        exec(compile(block, title, "exec"), {})


def test_a_tiny_clip_retrieves_captions(run: Run) -> None:
    pytest.importorskip("open_clip", reason="needs the extra open-clip")
    lines = run("clip_captions.py", "--steps", "2", "--batch", "32", "--seeds", "1").splitlines()
    assert [re.split("  +", line)[0] for line in lines[2:]] == [
        "CLIP",
        "debiased",
        "known captions",
        "known colours",
    ]
    with pytest.raises(SystemExit, match="2"):
        run("clip_captions.py", "--batch", "2")


def test_an_image_loop_without_labels_learns_classes(run: Run) -> None:
    before, after = (
        float(found) for found in re.findall(r"kNN (\d+\.\d) %", run("image_loop.py", "--epochs", "2"))
    )
    assert after > before
    with pytest.raises(SystemExit, match="2"):
        run("image_loop.py", "--epochs", "0")
