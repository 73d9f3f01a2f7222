"""The grid of agents: what is there is skipped, tables and pictures are made of its files."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from debiased_contrastive.control import rollout
from debiased_contrastive.control.settings import CONTROL_PRESETS, with_task_defaults
from debiased_contrastive.reproduce import table3
from debiased_contrastive.reproduce.runner import fill
from debiased_contrastive.reproduce.table3 import (
    LABELS,
    OBJECTIVES,
    floors_markdown,
    for_task,
    make_jobs,
    plot,
    returns_markdown,
    time_markdown,
)
from tests.control.test_run import settings_of
from tests.control.tiny_task import TinyTask


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("grid")
    base = replace(settings_of(log_every=5, frames=160, evaluate_every=40, random_steps=5), task="cartpole-swingup")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rollout, "PixelTask", TinyTask)
        patch.setattr(table3, "CURVE_STEPS", 5)
        fill(make_jobs(base, 2), place, place / "runs")
    return place / "cartpole-swingup"


def test_every_seed_of_every_objective_has_a_file(folder: Path) -> None:
    names = {path.stem for path in folder.glob("*.json")}
    assert names == {f"{name}-seed{seed}" for name in OBJECTIVES for seed in range(2)}
    result = json.loads((folder / "tau-0.1-M2-seed1.json").read_text())
    assert result["settings"]["objective"]["num_positives"] == 2
    assert result["settings"]["seed"] == 1
    assert [line["step"] for line in result["course"] if "return" in line] == [40, 80]
    assert set(LABELS) == set(OBJECTIVES)


def test_tables_say_what_files_hold(folder: Path) -> None:
    table = returns_markdown(folder)
    finals = [
        json.loads((folder / f"biased-seed{seed}.json").read_text())["course"][-1]["return"] for seed in range(2)
    ]
    line = next(line for line in table.splitlines() if line.startswith("| biased"))
    assert f"{sum(finals) / 2:.0f} ± " in line
    assert ", ".join(f"{value:.0f}" for value in finals) in line
    assert line.endswith("| 850 |"), "the paper's"
    assert "| 864 |" in table
    floors = floors_markdown(folder)
    assert "without contrast" not in floors
    biased = next(line for line in floors.splitlines() if line.startswith("| biased: floored"))
    assert set(biased.split("|")[2:-1]) == {" 0.0% "}
    shares = next(line for line in time_markdown(folder).splitlines() if line.startswith("| biased")).split(" | ")
    assert sum(float(cell.rstrip("%")) for cell in shares[2:8]) == pytest.approx(100, abs=0.5)


def test_pictures_are_made(folder: Path) -> None:
    pictures = plot(folder)
    assert set(pictures) == {"return", "contrast_loss", "floored"}
    assert all("<svg" in picture for picture in pictures.values())
    assert "without contrast" in pictures["return"]
    assert "without contrast" not in pictures["floored"]


def test_shorter_runs_are_evaluated_as_often() -> None:
    preset = CONTROL_PRESETS["curl"].settings
    assert for_task(preset, "cartpole-swingup", preset.training.frames) == with_task_defaults(preset)
    half = for_task(preset, "walker-walk", preset.training.frames // 2)
    assert half.task == "walker-walk"
    assert 2 * half.training.evaluate_every == preset.training.evaluate_every
