"""The notebook runs, and prints what was committed with it."""

import re
import warnings
from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).parents[2] / "docs/notebook.ipynb"


def test_it_prints_what_it_shows() -> None:
    nbformat = pytest.importorskip("nbformat", reason="the notebook needs the extra docs")
    client = pytest.importorskip("nbclient", reason="the notebook needs the extra docs")
    pytest.importorskip("ipykernel", reason="the notebook needs the extra docs")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    wanted = [_texts(cell) for cell in notebook.cells]
    assert sum(map(len, wanted)) >= 4
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the libraries that run it
        client.NotebookClient(notebook, timeout=600, kernel_name="python3").execute()
    for cell, texts in zip(notebook.cells, wanted, strict=True):
        for now, then in zip(_texts(cell), texts, strict=True):
            # Numbers and the order of rows that follows from them may differ between processors.
            assert sorted(_words(now)) == sorted(_words(then)), "execute the notebook anew"


def _texts(cell: object) -> list[str]:
    return [str(output["text"]) for output in getattr(cell, "outputs", []) if "text" in output]


def _words(text: str) -> list[str]:
    return re.sub(r"\d+(?:\.\d+)?", "#", text).split()
