"""`debiased reproduce`: results and places that are not as they should be are one line, and nothing is lost."""

import json
import re
import shutil
from pathlib import Path

import pytest

from debiased_contrastive.cli.main import main
from debiased_contrastive.reproduce import simclr_measures
from debiased_contrastive.reproduce.item import Request
from debiased_contrastive.reproduce.names import load_item
from debiased_contrastive.training.settings import as_json
from tests.cli.test_cli import error_of
from tests.reproduce.test_items import run

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("flags", [["--rows", "M-1"], ["--rows", "biased", "--seeds", "1", "--show"]])
def test_rows_and_seeds_of_other_settings_are_never_shown_together(
    flags: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also where those that were asked for agree: the table shows all that is there."""
    name = "M-8-seed3" if "--show" in flags else "biased-seed0"
    (job,) = (one for one in load_item("figure4c").jobs(Request("smoke", 4)) if one.name == name)
    place = tmp_path / "figure4c-smoke"
    place.mkdir()
    (place / f"{name}.json").write_text(json.dumps({"settings": as_json(job.settings), "measures": {}}))
    words = ["reproduce", "figure4c", "--scale", "smoke", "--out", str(tmp_path), "--runs", str(tmp_path / "runs")]
    error = error_of([*words, "--epochs", "9", *flags], capsys)
    assert f"{name}.json is of other settings (training.epochs is 2 instead of 9)" in error
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"settings": {', "line 1 column 15 (char 14)): restore it from a copy, or remove it to make it anew"),
        ("", "is empty: restore it from a copy, or remove it to make it anew"),
        ('{"measures": {}}', "holds no settings, so it is no result: remove it to make it anew"),
    ],
)
def test_a_damaged_result_is_one_line(
    content: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "figure2-smoke" / "biased-seed0.json"
    path.parent.mkdir()
    path.write_text(content)
    error = error_of(["reproduce", "figure2", "--scale", "smoke", "--out", str(tmp_path)], capsys)
    assert f"debiased: {path} " in error
    assert message in error
    assert path.read_text() == content


def test_a_result_without_its_measures_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(tmp_path, "figure2", "--rows", "biased")
    capsys.readouterr()
    path = tmp_path / "out" / "figure2-smoke" / "biased-seed0.json"
    whole = path.read_text()
    path.write_text(json.dumps({key: part for key, part in json.loads(whole).items() if key != "measures"}))
    error = error_of(["reproduce", "figure2", "--scale", "smoke", "--out", str(tmp_path / "out"), "--show"], capsys)
    path.write_text(whole)
    assert f"a result in {path.parent} has no 'measures': remove it to make it anew" in error


def test_results_that_can_only_be_read_are_shown_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(path: Path, *_content: object) -> None:
        raise OSError(f"{path} could not be written")

    run(tmp_path, "figure2", "--rows", "biased")
    shown = capsys.readouterr().out
    monkeypatch.setattr("debiased_contrastive.reproduce.item.write_atomically", refuse)
    with pytest.raises(SystemExit) as end:
        run(tmp_path, "figure2", "--show")
    assert end.value.code == 2
    found = capsys.readouterr()
    assert found.err == f"debiased: {tmp_path / 'out' / 'figure2-smoke' / 'figure2.md'} could not be written\n"
    assert found.out == shown[: shown.index("files are in")]


@pytest.mark.parametrize("flag", ["--out", "--runs"])
def test_a_place_that_cannot_be_written_is_refused_before_any_work(
    flag: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    places = {"--out": tmp_path / "out", "--runs": tmp_path / "runs", flag: tmp_path / "file"}
    words = [word for name, place in places.items() for word in (name, str(place))]
    with pytest.raises(SystemExit) as end:
        main(["reproduce", "figure2", "--scale", "smoke", "--rows", "biased", "--workers", "1", *words])
    assert end.value.code == 2
    *_, error = capsys.readouterr().err.splitlines()
    assert re.search(r"file/.*must be writable \(Not a directory\): choose another place", error)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_task_is_shown_without_others_whose_length_may_differ(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = load_item("table3").folder(tmp_path, "small")
    for task in ("cartpole-swingup", "walker-walk"):
        shutil.copytree(ROOT / "results" / "control" / task, place / task)
    words = ["reproduce", "table3", "--out", str(tmp_path), "--show"]
    main(words)
    out = capsys.readouterr().out
    assert out.startswith("Table 3: agents that learn from pixels (DeepMind control suite): cartpole-swingup\n")
    assert "suite): walker-walk" not in out
    assert out.endswith("results of walker-walk are there, too: --task shows them\n")
    error = error_of([*words, "--task", "walker-walk"], capsys)
    assert "(training.frames is 80000 instead of 160000): ask for these, choose another --out" in error
    main([*words, "--task", "walker-walk", "--frames", "80000"])
    assert "suite): walker-walk\n--scale small: " in capsys.readouterr().out


def test_runs_that_all_failed_are_named_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_given: object, **_named: object) -> None:
        raise RuntimeError("it rains")

    monkeypatch.setattr(simclr_measures, "measure_run", fail)
    with pytest.raises(SystemExit) as end:
        run(tmp_path, "figure2", "--rows", "biased")
    assert end.value.code == 1
    found = capsys.readouterr()
    assert found.out == ""
    assert found.err.endswith("debiased: 1 run failed: biased-seed0: RuntimeError: it rains\n")


@pytest.mark.parametrize("columns", [80, 120])
def test_tables_and_the_list_fit_a_narrow_terminal(
    columns: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "figure4c-small"
    shutil.copytree(ROOT / "results" / "figure4c-small", place)
    words = ["reproduce", "figure4c", "--out", str(tmp_path), "--show"]
    main(words)
    whole = capsys.readouterr().out
    monkeypatch.setattr("debiased_contrastive.cli.reproduction._width", lambda: columns)
    main(words)
    shown = capsys.readouterr().out
    main(["reproduce", "--out", str(tmp_path)])
    assert max(map(len, capsys.readouterr().out.splitlines()[:-1])) <= columns, "the last has a folder's name"
    assert max(map(len, whole.splitlines())) > columns
    *lines, place_line = shown.splitlines()
    assert str(place) in place_line
    assert max(map(len, lines)) <= columns
    cells = [set(re.findall(r"\| +([^|\n]*±[^|\n]*?) +(?=\|)", text)) for text in (shown, whole)]
    assert len(cells[0]) > 40
    assert cells[0] == cells[1], "no cell is lost"
    assert (place / "figure4c.md").read_text() in whole, "the file has whole tables"
