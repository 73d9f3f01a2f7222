"""The committed figures carry the data of results/, and no figure is missing or left over."""

import re
from pathlib import Path

import pytest

from figures.all import FIGURES
from figures.figure import Figure, read_data
from figures.panel import row

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs/figures"
AGAIN = "run python -m figures"


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: figure.name)
def test_a_figure_shows_the_results(figure: Figure) -> None:
    assert read_data((FOLDER / f"{figure.name}.svg").read_text()) == figure.data(ROOT / "results"), AGAIN


def test_every_file_is_a_figure_and_is_shown_somewhere() -> None:
    names = {figure.name for figure in FIGURES}
    assert len(names) == len(FIGURES) >= 10
    assert {path.stem for path in FOLDER.iterdir()} == names, AGAIN
    pages = "".join(path.read_text() for path in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md")))
    assert {name for name in names if f"figures/{name}.svg" in pages} == names


def test_a_figure_is_the_same_bytes_each_time_and_readable_in_light_and_dark() -> None:
    figure = FIGURES[1]
    text = figure.svg(ROOT / "results")
    assert text == figure.svg(ROOT / "results")
    assert "prefers-color-scheme: dark" in text
    assert "#1a1b1c" not in text  # every stand-in became a variable
    assert not re.search(r"(href|src)=\"https?:", text)
    assert f"<title>{figure.says}</title>" in text


def test_a_row_is_the_mean_with_its_interval() -> None:
    one = row("three", [70.0, 71.0, 72.0], "biased")
    assert one.ends is not None
    assert (one.value, round(one.ends[1] - one.value, 3)) == (71.0, 2.484)
    assert row("one", [70.0], "biased").ends is None


def test_a_picture_without_data_is_refused() -> None:
    with pytest.raises(ValueError, match="must carry its data"):
        read_data("<svg></svg>")
