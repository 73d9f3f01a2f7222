"""Recipes of the documents and examples that need other people's trainers run as they stand."""

import re
import runpy
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NEEDS = {
    "Lightning": "pytorch_lightning",
    "Hugging Face Trainer": "transformers",
    "accelerate": "accelerate",
    "info-nce-pytorch": "info_nce",
    "Two towers, as recommenders train them": "torch",
    "Momentum contrast with a queue": "torch",
    "A trap: what labels mean": "torch",
}


def read_recipes() -> dict[str, str]:
    """The block of each section."""
    text = (ROOT / "docs/recipes.md").read_text()
    return dict(re.findall(r"^## ([^\n]+)\n(?:(?!^## ).)*?```python\n(.*?)```", text, re.M | re.S))


def test_every_section_has_a_block_that_is_run() -> None:
    assert list(read_recipes()) == list(NEEDS)


@pytest.mark.filterwarnings("ignore:a batch of one has no unlabeled samples:UserWarning")
@pytest.mark.filterwarnings("ignore:.*does not have many workers:UserWarning")
@pytest.mark.filterwarnings("ignore:.*LeafSpec.*is deprecated:FutureWarning")
@pytest.mark.parametrize("section", NEEDS)
def test_a_recipe_runs(section: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip(
        NEEDS[section], reason=f"{NEEDS[section]} is not installed: it is in the extra test-integrations"
    )
    monkeypatch.chdir(tmp_path)
    exec(read_recipes()[section], {"__name__": "recipe"})


def run_example(name: str, *words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", [name, *words])
    runpy.run_path(str(ROOT / "examples" / name), run_name="__main__")


@pytest.mark.parametrize(
    ("name", "words", "rows"),
    [
        ("recommender.py", "--steps 3 --batch 16", ["plain", "ids", "log_q", "ids", "bestsellers", "the"]),
        ("graph_nodes.py", "--steps 2", ["biased", "debiased", "membership", "membership,", "unbiased", "the"]),
        ("sentence_pairs.py", "--epochs 1", ["plain", "debiased", "half", "all"]),
    ],
)
def test_an_example_runs_and_refuses_nonsense(
    name: str, words: str, rows: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if name == "sentence_pairs.py":
        pytest.importorskip(
            "sentence_transformers", reason="sentence-transformers is not installed: it is an extra"
        )
    run_example(name, *words.split(), "--seeds", "1", monkeypatch=monkeypatch)
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()][-len(rows) :] == rows
    with pytest.raises(SystemExit):
        run_example(name, "--seeds", "0", monkeypatch=monkeypatch)
    assert "at least 1" in capsys.readouterr().err
