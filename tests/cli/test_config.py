"""`--config`: a run's settings, or a part of them, as the start of another; flags win."""

import json
from pathlib import Path
from typing import Any

import pytest

from debiased_contrastive.cli.main import _parse
from debiased_contrastive.domains import DOMAINS
from debiased_contrastive.training.settings import as_json
from tests.cli.test_cli import error_of

ONE = {"images": "cifar10-small", "text": "quickthoughts-small", "control": "curl"}


def write(path: Path, content: Any) -> str:
    path.write_text(json.dumps(content))
    return str(path)


def settings_after(*words: str) -> dict[str, Any]:
    return as_json(_parse(["train", *words], DOMAINS).settings)


@pytest.mark.parametrize("domain", ONE)
def test_the_settings_of_a_run_are_those_of_the_next(domain: str, tmp_path: Path) -> None:
    preset = ONE[domain]
    wanted = settings_after(preset, "--seed", "7", "--training.batch", "96", "--objective.tau-plus", "0.03")
    file = write(tmp_path / "settings.json", {"domain": domain, **wanted})
    assert settings_after(preset, "--config", file) == wanted
    assert settings_after(preset, f"--config={file}", "--seed", "3") == {**wanted, "seed": 3}
    part = write(tmp_path / "part.json", {"objective": {"kind": "biased"}, "training": {"log_every": 3}})
    found = settings_after(preset, "--training.log-every", "4", "--config", part)
    assert found["objective"]["kind"] == "biased", "of the file"
    assert found["training"]["log_every"] == 4, "of the command line"
    assert found["training"]["batch"] == settings_after(preset)["training"]["batch"], "of the preset"


@pytest.mark.parametrize("domain", ONE)
def test_a_file_that_does_not_fit_is_one_line(
    domain: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    other = "text" if domain == "control" else "control"
    for content, words in (
        ({"training": {"bacth": 3}}, "c.json: training has bacth, which is no setting there: use some of"),
        ({"pair": True}, "c.json has pair, which is no setting there: use some of preset, seed"),
        ({"training": {"batch": "3"}}, "c.json: training: batch must be int; got '3': change it there"),
        ({"objective": {"tau_plus": 2}}, "tau_plus must lie in [0, 1); got 2"),
        ({"training": 3}, "c.json: training must hold settings by name; got 3"),
        ({"domain": other}, f"c.json must be of {domain}, as the preset {ONE[domain]} is; it is of {other}"),
        ({"preset": "demo-not"}, "out"),  # of somebody's own, who called it so
        ({"preset": "cmc-small"}, f"c.json must be of the preset {ONE[domain]}; it is of cmc-small: debiased train"),
        ([], "c.json must hold a JSON object; it holds a list"),
    ):  # fmt: skip
        write(tmp_path / "c.json", content)
        (tmp_path / "out").write_text("a file")
        assert words in error_of(["train", ONE[domain], "--config", "c.json", "--out", "out"], capsys), content
    assert "--config must name a file of settings; nowhere.json is missing" in error_of(
        ["train", ONE[domain], "--config", "nowhere.json"], capsys
    )


def test_a_corpus_on_the_command_line_wins(tmp_path: Path) -> None:
    file = write(tmp_path / "c.json", {"text": {"path": "old.txt", "longest": 9}})
    command = _parse(["train", "quickthoughts-small", "--config", file, "--corpus", "new.txt"], DOMAINS)
    assert (command.settings.text.path, command.settings.text.longest) == (None, 9)
    assert command.flags.corpus == Path("new.txt")


def test_names_of_earlier_versions_are_passed_over_in_whole_files_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = settings_after("demo")
    whole["encoder"]["pair"] = False
    assert settings_after("demo", "--config", write(tmp_path / "c.json", whole)) == settings_after("demo")
    file = write(tmp_path / "c.json", {"encoder": {"pair": False}})
    assert "encoder has pair, which is no setting there" in error_of(["train", "demo", "--config", file], capsys)
