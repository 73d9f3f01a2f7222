"""Pages of agents: returns instead of accuracies, curves over steps, strips of pictures."""

import io
from pathlib import Path
from typing import Any

from PIL import Image

from debiased_contrastive.runs import STRIP, Run
from tests.report.folders import course as image_course
from tests.report.folders import evaluation, page, rows, settings, write_run
from tests.report.outline import Outline


def control_settings(kind: str, seed: int, task: str, **objective: Any) -> dict[str, Any]:
    return {
        "preset": "curl",
        "seed": seed,
        "task": task,
        "camera": {"size": 48, "crop": 40},
        "agent": {"filters": 16},
        "objective": {"kind": kind, "tau_plus": 0.1, "num_positives": 1, "floor": "zero", **objective},
        "training": {"frames": 24_000, "repeat": 8, "batch": 64},
    }


def course(level: float) -> list[dict[str, Any]]:
    return [
        {"step": step, "frames": 8 * step, "contrast_loss": 1.0, "floored": 0.5, "frames_per_second": 120.0,
         **({"return": level * step / 3000} if step % 1000 == 0 else {})}
        for step in range(500, 3001, 500)
    ]  # fmt: skip


def control_run(folder: Path, level: float, kind: str, seed: int = 0, **more: Any) -> Run:
    task = more.pop("task", "cartpole-swingup")
    judged = more.pop("judged", None)
    found = None if judged is None else {"return": {"mean": judged, "returns": [judged]}}
    return write_run(
        folder, control_settings(kind, seed, task, **more), its_evaluation=found, metrics=course(level)
    )


def four(folder: Path) -> list[Run]:
    return [
        control_run(folder / f"{kind}{positives}-{seed}", level + 10 * seed, kind, seed, num_positives=positives)
        for kind, positives, level in (
            ("biased", 1, 400),
            ("none", 1, 300),
            ("debiased", 1, 420),
            ("debiased", 2, 440),
        )
        for seed in range(3)
    ]


def said(runs: list[Run]) -> str:
    return Outline(page(runs, title="Agents")).text.replace("\u00a0", " ")


def test_the_curve_says_that_its_end_is_not_the_return_of_the_evaluation(tmp_path: Path) -> None:
    text = said([control_run(tmp_path / "one", 400, "debiased", judged=266.0)])
    assert "What an episode gains on the way" in text
    assert "An evaluation afterwards plays other episodes." in text


def test_returns_are_compared_as_they_are(tmp_path: Path) -> None:
    runs = four(tmp_path)
    found = rows(runs)
    assert [row.label for row in found] == [
        "without contrast", "biased", "debiased, τ⁺ = 0.1", "debiased, τ⁺ = 0.1, M = 2",
    ]  # fmt: skip
    assert {row.main.key for row in found} == {"return"}
    assert round(found[1].measures["return"].mean) == 410, "the last return that was logged"
    assert [row.paper for row in found] == [None, 850, 860, 864]
    text = said(runs)
    assert "4 settings of contrastive training on cartpole-swingup for 24000 frames, 3 seeds each" in text
    assert "Return is what an episode gains" in text
    assert "Biased reaches 410 ± 25." in text
    assert "Without contrast loses 100 ± 0 points against biased" in text
    assert "M = 2) gains 40 ± 0 points" in text
    assert "410 ± 25" in text
    assert "41000" not in text
    assert "likely 800000 frames" in text
    assert "Here: 24000 frames, actions 8 times" in text
    assert "Frames per second" in text
    assert "Accuracy" not in text
    assert "labels" not in text


def test_an_evaluation_comes_before_what_was_logged_on_the_way(tmp_path: Path) -> None:
    (row,) = rows([control_run(tmp_path / "b", 400, "biased", judged=123.0)])
    assert row.measures["return"].mean == 123


def test_what_an_agent_gains_on_the_way_is_no_result(tmp_path: Path) -> None:
    half = write_run(tmp_path / "half", control_settings("biased", 0, "cartpole-swingup"), metrics=course(400)[:-1])
    (row,) = rows([half])
    assert "return" not in row.measures
    assert row.main.key == "return"
    assert "released code" not in said([half, control_run(tmp_path / "whole", 400, "debiased")])
    assert "No run has been evaluated yet" in said([half])


def test_only_the_published_floor_stands_beside_the_paper(tmp_path: Path) -> None:
    runs = [control_run(tmp_path / floor, 400, "debiased", floor=floor) for floor in ("zero", "cap_tau")]
    assert sorted(row.paper or 0 for row in rows(runs)) == [0, 860]


def test_tasks_are_told_apart(tmp_path: Path) -> None:
    runs = [control_run(tmp_path / task, 400, "biased", task=task) for task in ("walker-walk", "cheetah-run")]
    assert {row.label for row in rows(runs)} == {"biased, walker-walk", "biased, cheetah-run"}


def test_agents_beside_images_have_a_picture_of_their_own(tmp_path: Path) -> None:
    logged = image_course(0, level=2, floored=0.0)
    image = write_run(tmp_path / "image", settings("biased"), its_evaluation=evaluation(0.7), metrics=logged)
    runs = [image, *four(tmp_path)]
    text = said(runs)
    assert "Accuracy and return" in text
    assert "Accuracy in percent, return, mean" in text
    assert "not set" not in text
    whole = page(runs, title="Both")
    assert whole.count('aria-label="Return:') == 1
    assert 'aria-label="Return by step.' in whole
    assert 'aria-label="Loss by epoch.' in whole


def test_strips_are_in_the_page(tmp_path: Path) -> None:
    run = control_run(tmp_path / "b", 400, "biased")
    assert "What agents do" not in said([run])
    buffer = io.BytesIO()
    Image.new("RGB", (64, 8)).save(buffer, "PNG")
    (run.folder / STRIP).write_bytes(buffer.getvalue())
    whole = page([run], title="Agents")
    assert "What agents do" in whole
    assert '<img src="data:image/png;base64,' in whole


def test_a_row_alone_opens_with_its_course(tmp_path: Path) -> None:
    alone = [control_run(tmp_path / "d", 400, "debiased", judged=410.0)]
    content = page(alone, title="One agent")
    opening, rest = content.split('<section id="results">')
    assert "reaches a return of 410." in opening
    assert 'aria-label="Return by step.' in opening
    assert "Each dot" not in opening
    assert "differences may be chance" not in opening
    assert 'aria-label="Return by step.' not in rest
    both = page([*alone, control_run(tmp_path / "b", 400, "biased", judged=400.0)], title="Two agents")
    assert 'aria-label="Return: ' in both.split('<section id="results">')[0]
