"""The commands for agents, as a person meets them, on a task that needs no simulator."""

import json
import re
from pathlib import Path

import pytest
from PIL import Image

from debiased_contrastive.cli.main import main
from debiased_contrastive.control import rollout
from tests.cli.test_cli import error_of
from tests.control.tiny_task import TinyTask

SMALL = [
    "--task", "bar-middle", "--camera.size", "14", "--camera.crop", "12", "--camera.pad", "0", "--agent.filters", "4", "--agent.layers",
    "2", "--agent.strided", "1", "--agent.hidden-dim", "16", "--training.frames", "160", "--training.repeat", "2", "--training.random-steps",
    "20", "--training.batch", "8", "--training.evaluate-every", "40", "--training.episodes", "2",
    "--training.accelerator", "cpu", "--quiet",
]  # fmt: skip


@pytest.fixture(autouse=True)
def tiny_task(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rollout, "PixelTask", TinyTask)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    main(["train", "curl", *SMALL, "--out", str(tmp_path / "run")])
    return tmp_path / "run"


def test_train_evaluate_watch_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "run"
    main(["train", "curl", *SMALL, "--out", str(run)])
    said = capsys.readouterr().err
    assert re.search(r"bar-middle, debiased, seed 0: 80 of 80 [\d,]+ frames/s, return \d+", said)
    assert f"trained; next: debiased evaluate {run}" in said
    main(["evaluate", str(run), "--quiet"])
    shown = capsys.readouterr().out
    assert "Return, mean ± 95 % interval over seeds" in shown
    found = json.loads((run / "evaluation.json").read_text())["return"]
    assert len(found["returns"]) == 2
    film = tmp_path / "films" / "film.gif"
    main(["watch", str(run), "--out", str(film), "--size", "32"])
    assert re.search(r"20 frames of bar-middle, return \d+, in .*film.gif", capsys.readouterr().out)
    with Image.open(film) as image:
        assert image.size == (32, 32)
    page = tmp_path / "page.html"
    main(["report", str(run), "--out", str(page)])
    assert "What agents do" in page.read_text()
    main(["resume", str(run)])
    assert "is finished" in capsys.readouterr().err


def test_an_unfinished_run_has_no_agent_to_show(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "run"
    main(["train", "curl", *SMALL, "--out", str(folder)])
    (folder / "encoder.json").unlink()
    capsys.readouterr()
    for words in (["evaluate", str(folder)], ["watch", str(folder)]):
        assert f"{folder} is not trained yet: finish it with `debiased resume" in error_of(words, capsys)


def test_flags_of_other_domains_are_refused(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    for words, message in (
        (
            ["evaluate", str(run), "--official"],
            "is a run on control: evaluate takes no such flag there; got --official: leave it out",
        ),
        (["resume", str(run), "--data-root", "x"], "leave --data-root out"),
        (["embed", str(run), "--images", "x", "--out", "y.npy"], "features of images and sentences alone"),
        (["watch", str(run), "--out", "film.avi"], "a film must end in .mp4 or .gif; got film.avi"),
        (["train", "curl", *SMALL, "--out", str(run)], "holds a run already"),
        (["train", "curl", "--camera.crop", "99"], "crop must be at most size + 2 pad, 52; got 99"),
        (["train", "curl", "--agent.strided", "9"], "strided must lie between 0 and layers"),
        (["train", "curl", "--camera.crop", "3", "--out", str(run / "none")], "frames must be large enough"),
        (
            ["train", "curl", "--training.frames", "8000"],
            "random_steps must be fewer than the steps, 1000 of 8 frames",
        ),
        (["train", "curl", "--objective.floor", "none"], "Expected one of ('zero', 'small'"),
    ):
        assert message in error_of(words, capsys)
    assert not (run / "none").exists(), "what cannot be trained leaves nothing behind"


def test_the_demo_has_a_film_a_strip_and_a_curve(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from dataclasses import replace

    from debiased_contrastive.control import run as control_demo

    ((name, whole),) = control_demo.demo_settings(tmp_path).items()
    training = replace(whole.training, frames=400, random_steps=20, batch=8, evaluate_every=20, episodes=1)
    small = replace(control_demo.DEMO, settings=lambda _folder: {name: replace(whole, training=training)})
    monkeypatch.setattr(control_demo, "DEMO", small)
    folder = tmp_path / "demo"
    main(["demo", "--domain", "control", "--out", str(folder), "--quiet"])
    assert f"open {folder / 'report.html'}" in capsys.readouterr().out
    page = (folder / "report.html").read_text()
    assert "What agents do" in page
    assert 'aria-label="Return by step.' in page
    assert (folder / "film.gif").is_file()
