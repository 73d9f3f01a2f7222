"""Files of a run with anything in them: one line that names the file, or a page that says what is missing."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from debiased_contrastive.cli.main import main
from debiased_contrastive.files import file_digest
from debiased_contrastive.runs import Run
from tests.cli.test_cli import error_of

CONTENTS: dict[str, bytes] = {
    "empty": b"",
    "blank": b"\n\n  \n",
    "null": b"null",
    "number": b"3",
    "list": b"[1, 2]",
    "text": b'"settings"',
    "cut": b'{"seed": 0, "data": {"na',
    "deep": b'{"a": ' * 900 + b"1" + b"}" * 900,
    "deeper": b"[" * 100_000,
    "long integer": b'{"seed": ' + b"7" * 400 + b"}",
    "longer integer": b'{"seed": ' + b"7" * 5000 + b"}",
    "latin-1": '{"preset": "caf\xe9"}'.encode("latin-1"),
    "utf-16": '{"preset": "demo"}'.encode("utf-16"),
    "binary": bytes(range(256)),
    "infinity": b'{"seed": Infinity, "linear": NaN, "step": -Infinity}',
}
VALUES: tuple[Any, ...] = (None, True, -1, 1.5, 10**400, "x", [], [1], {}, {"a": {"b": []}}, [[[]]], "\udce9")


@pytest.mark.parametrize("content", CONTENTS.values(), ids=CONTENTS)
def test_damaged_settings_are_one_line_for_every_command(
    content: bytes, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (run / "settings.json").write_bytes(content)
    for words in (["resume"], ["evaluate"], ["embed", "--images", str(tmp_path), "--out", "z.npy"]):
        line = error_of([words[0], str(run), *words[1:]], capsys)
        assert "settings" in line
    try:
        main(["report", str(run), "--out", str(tmp_path / "page.html")])
    except SystemExit as end:
        assert end.code == 2  # noqa: PT017
        captured = capsys.readouterr().err
        assert "settings.json" in captured
        assert captured.count("\n") == 1
    else:
        # A page needs no more than an object.
        assert content.startswith(b"{")


@pytest.mark.parametrize("name", ["metrics.jsonl", "evaluation.json", "tsne.json", "environment.json"])
@pytest.mark.parametrize("content", CONTENTS.values(), ids=CONTENTS)
def test_other_damaged_files_are_named_on_the_page(content: bytes, name: str, run: Path, tmp_path: Path) -> None:
    (run / name).write_bytes(content)
    main(["report", str(run), "--out", str(tmp_path / "page.html")])
    assert (tmp_path / "page.html").stat().st_size > 1000


@pytest.mark.parametrize("name", ["metrics.jsonl", "evaluation.json", "tsne.json", "environment.json"])
def test_a_pipe_in_the_place_of_a_file_is_not_waited_for(name: str, run: Path, tmp_path: Path) -> None:
    (run / name).unlink()
    os.mkfifo(run / name)
    main(["report", str(run), "--out", str(tmp_path / "page.html")])
    assert (tmp_path / "page.html").stat().st_size > 1000


def spoiled(content: Any, value: Any) -> list[Any]:
    """Copies of a JSON value, in each of which one place, at any depth, is another value."""
    if isinstance(content, dict):
        inner = [{**content, key: other} for key in content for other in spoiled(content[key], value)]
        return [*inner, {key: content[key] for key in list(content)[1:]}, value]
    if isinstance(content, list) and content:
        return [[other, *content[1:]] for other in spoiled(content[0], value)] + [value]
    return [value]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_wrong_types_anywhere_leave_a_page(value: Any, run: Path, tmp_path: Path) -> None:
    """Every place of every file is spoiled in a run of its own; all are on one page, since one page takes a second."""
    sound = {path.name: json.loads(path.read_text()) for path in run.glob("*.json")}
    sound["tsne.json"] = {key: entries[:3] for key, entries in sound["tsne.json"].items()}
    line = (run / "metrics.jsonl").read_text().splitlines()[0]
    for name in ("settings.json", "evaluation.json", "tsne.json", "environment.json"):
        for number, content in enumerate(spoiled(sound[name], value)):
            folder = tmp_path / "all" / f"{name}-{number}"
            folder.mkdir(parents=True)
            for other, whole in {**sound, name: content}.items():
                (folder / other).write_text(json.dumps(whole))
    for number, content in enumerate(spoiled(json.loads(line), value)):
        folder = shutil.copytree(run, tmp_path / "all" / f"metrics-{number}")
        (folder / "metrics.jsonl").write_text(f"{line}\n{json.dumps(content)}\n")
    main(["report", str(tmp_path / "all"), "--out", str(tmp_path / "page.html")])
    assert (tmp_path / "page.html").stat().st_size > 1000


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_settings_of_wrong_types_are_refused(
    value: Any, unfinished: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    sound = json.loads((unfinished / "settings.json").read_text())
    # Nothing may be trained here: a value that is right would make a run of it.
    monkeypatch.setattr("debiased_contrastive.cli.actions.follow", lambda *_rest, **_more: None)
    for content in spoiled(sound, value):
        (unfinished / "settings.json").write_text(json.dumps(content))
        try:
            main(["resume", str(unfinished), "--quiet"])
        except SystemExit as end:
            assert end.code == 2, content  # noqa: PT017
            captured = capsys.readouterr().err
            assert captured.count("\n") == 1, captured


@pytest.mark.parametrize("seed", [[], [1], None, "0", 1.5, True, {"a": 1}], ids=repr)
def test_seeds_are_whole_numbers(seed: Any, unfinished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content = json.loads((unfinished / "settings.json").read_text())
    (unfinished / "settings.json").write_text(json.dumps({**content, "seed": seed}))
    line = error_of(["resume", str(unfinished), "--quiet"], capsys)
    assert f"settings.seed must be int; got {seed!r}: restore settings.json from a copy" in line


def test_a_damaged_line_of_a_log_costs_that_line(
    whole_run: Path, unfinished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = unfinished / "metrics.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    lines[2:4] = [b'{"step": 3, "lo\n', b"\xff\xfe\n"]
    lines.insert(5, b"\n")
    path.write_bytes(b"".join(lines))
    main(["resume", str(unfinished), "--quiet"])
    assert "metrics.jsonl has 3 damaged lines, which were left out" in capsys.readouterr().err
    assert [line["step"] for line in Run(unfinished).metrics()] == [1, 2, 5, 6, 7, 8, 9]
    weights = [(folder / "encoder.safetensors").read_bytes() for folder in (unfinished, whole_run)]
    assert weights[0] == weights[1]


def test_settings_that_were_changed_after_training_are_told(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content = json.loads((run / "settings.json").read_text())
    content["views"]["mean"] = [0.9]
    (run / "settings.json").write_text(json.dumps(content))
    line = error_of(["evaluate", str(run), "--quiet"], capsys)
    assert "was changed after training, views.mean is [0.9] instead of [0.286" in line


def test_garbage_in_the_weights_behind_a_right_digest_is_one_line(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (run / "encoder.safetensors").write_bytes(b"garbage")
    description = json.loads((run / "encoder.json").read_text())
    description |= {"bytes": 7, "sha256": file_digest(run / "encoder.safetensors")}
    (run / "encoder.json").write_text(json.dumps(description))
    assert "encoder.safetensors holds no weights" in error_of(["evaluate", str(run), "--quiet"], capsys)


@pytest.mark.parametrize("content", ["", "{}", "[]", "null"], ids=repr)
def test_a_damaged_vocabulary_is_named(content: str, text_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (text_run / "vocabulary.json").write_text(content)
    line = error_of(["embed", str(text_run), "--sentences", "new.txt", "--out", "z.npy"], capsys)
    assert "new.txt must be" in line  # what is asked for comes first
    (text_run.parent / "new.txt").write_text("word1\n")
    line = error_of(
        ["embed", str(text_run), "--sentences", str(text_run.parent / "new.txt"), "--out", "z.npy"], capsys
    )
    assert f"{text_run}/vocabulary.json is damaged" in line
