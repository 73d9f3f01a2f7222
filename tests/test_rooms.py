"""The picture, the table and the numbers of docs/design.md are those of the code; names in the documents exist."""

import importlib
import re
from pathlib import Path
from typing import Any

import pytest

from benchmarks.rooms import (
    DOCUMENT,
    PACKAGE,
    PICTURE,
    PLACES,
    count_files,
    draw,
    quoted,
    read_imports,
    sentence,
    without_shortcuts,
)
from tests.test_project import EXTRAS, ROOMS

ROOT = Path(__file__).parents[1]
AGAIN = "run python -m benchmarks.rooms"


def test_the_picture_is_drawn_from_the_imports() -> None:
    imports, files = read_imports()
    assert set(imports) == set(PLACES), "every room has a place in the picture"
    assert PICTURE.read_text() == draw(imports, files), AGAIN


def test_imports_go_from_a_row_of_the_picture_to_a_lower_one() -> None:
    imports, _ = read_imports()
    for room, below in imports.items():
        assert all(PLACES[room][1] < PLACES[one][1] for one in below), room


def test_shortcuts_are_left_out_and_circles_refused() -> None:
    assert without_shortcuts({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == {"a": {"b"}, "b": {"c"}, "c": set()}
    with pytest.raises(ValueError, match="in a circle; got b > a > b"):
        without_shortcuts({"a": {"b"}, "b": {"a"}})


def test_the_table_of_rooms_is_the_rules_that_are_tested() -> None:
    rows = re.findall(r"^\| (`.+?) \| .+? \| (.+?) \| (.+?) \|$", DOCUMENT.read_text(), re.M)
    said = {room: (_names(own), _names(others)) for rooms, own, others in rows for room in _names(rooms)}
    assert set(said) == {*ROOMS, "cli", "reproduce"}
    for room, allowed in ROOMS.items():
        assert said[room] == (allowed - {room}, EXTRAS.get(room, set())), room
    assert all(said[room][1] == EXTRAS[room] for room in ("cli", "reproduce"))


def _names(cell: str) -> set[str]:
    return {name.rstrip("/") for name in re.findall(r"`([\w./]+)`", cell)}


def test_the_files_that_a_run_passes_are_the_quoted_ones() -> None:
    counts = count_files()
    files, lines = quoted(DOCUMENT.read_text())
    assert len(counts["files"]) == files, AGAIN
    assert abs(counts["lines"] - lines) < 0.05 * lines, AGAIN
    assert {"cli/main.py", "images/simclr.py", "training/loop.py", "report/page.py"} <= set(counts["files"])
    assert not any(name.startswith(("text/", "control/", "theory/")) for name in counts["files"])
    assert quoted(sentence(counts)) == (files, round(counts["lines"], -2))


def test_names_of_modules_in_the_documents_exist() -> None:
    rooms = "|".join(path.stem for path in PACKAGE.iterdir() if path.name != "py.typed")
    found = 0
    for document in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")):
        text = document.read_text()
        for name in re.findall(
            rf"`(?:debiased_contrastive\.)?((?:{rooms})\.[a-z_]\w*(?:\.\w+)*)(?:\(.*?\))?`", text
        ):
            if not name.endswith((".py", ".json", ".jsonl")):
                exists = _is_written if name.startswith("integrations.") else _resolves
                assert exists(f"debiased_contrastive.{name}"), f"{document.name}: {name}"
                found += 1
        for name in re.findall(r"`((?:\w+/)+\w+\.py)`", text):
            places = (ROOT, PACKAGE, ROOT / "src")
            assert any((place / name).exists() for place in places), f"{document.name}: {name}"
    assert found > 20


def _is_written(name: str) -> bool:
    """Whether an integration, whose library may be absent, defines the name."""
    _, room, library, *rest = name.split(".")
    files = [PACKAGE / room / f"{library}.py", *(PACKAGE / room / library).glob("*.py")]
    text = "".join(file.read_text() for file in files if file.exists())
    return text != "" and all(re.search(rf"^ *(?:class|def) {part}\b", text, re.M) for part in rest)


def _resolves(name: str) -> bool:
    """Whether a dotted name is a module, or something in one."""
    module = name.split(".")
    for cut in range(len(module), 0, -1):
        try:
            value: Any = importlib.import_module(".".join(module[:cut]))
        except ModuleNotFoundError:
            continue
        for part in module[cut:]:
            value = getattr(value, part, None)
        return value is not None
    return False
