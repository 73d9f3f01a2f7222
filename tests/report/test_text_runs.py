"""Pages of runs on text: the six tasks, some of them, and text beside images."""

from pathlib import Path
from typing import Any

from debiased_contrastive.runs import Run
from tests.report.folders import evaluation, page, rows, settings, write_run
from tests.report.outline import Outline

SIX = ("MR", "CR", "SUBJ", "MPQA", "TREC", "MSRP")


def text_settings(kind: str, seed: int = 0, **objective: Any) -> dict[str, Any]:
    return {
        "preset": "quickthoughts-small",
        "seed": seed,
        "text": {"path": "/somewhere/novels.txt", "cache": None},
        "towers": {"name": "gru"},
        "objective": {"kind": kind, "tau_plus": 0.01, "temperature": None, "floor": "zero", **objective},
        "training": {"epochs": 2, "batch": 200},
    }


def tasks(level: float, names: tuple[str, ...] = SIX) -> dict[str, Any]:
    found: dict[str, Any] = {name: {"accuracy": level + place / 100} for place, name in enumerate(names)}
    if "MSRP" in found:
        found["MSRP"]["f1"] = level
    return {"tasks": found}


def text_run(
    folder: Path, level: float, kind: str = "biased", names: tuple[str, ...] = SIX, **objective: Any
) -> Run:
    return write_run(folder, text_settings(kind, **objective), its_evaluation=tasks(level, names))


def test_the_mean_of_six_tasks_leads_and_another_floor_is_still_compared(tmp_path: Path) -> None:
    runs = [text_run(tmp_path / "b", 0.6), text_run(tmp_path / "d", 0.62, "debiased", floor="relative")]
    biased, debiased = rows(runs)
    assert biased.main.key == "six_tasks"
    # 0.6 to 0.65
    assert round(biased.measures["six_tasks"].mean, 6) == 0.625
    text = Outline(page(runs, title="Text")).text
    assert "Accuracy is the mean over six sentence tasks of logistic regression on the frozen vectors." in text
    assert "on novels.txt with towers gru for 2 epochs" in text
    assert "gains 2.0 points against biased" in text.replace("\u00a0", " ")
    assert "/somewhere" not in text.split("Settings")[0]
    assert "SUBJ and MPQA look exchanged" in text
    assert "76.8" in text
    assert "Gap closed" not in text
    assert debiased.gap_closed is None


def test_one_task_is_an_evaluation_too(tmp_path: Path) -> None:
    text = Outline(page([text_run(tmp_path / "b", 0.6, names=("TREC",))], title="One")).text
    assert "No run has been evaluated" not in text
    assert "that on the sentence task TREC" in text
    assert "89.8" in text


def test_an_accuracy_of_nothing_counts(tmp_path: Path) -> None:
    (row,) = rows([text_run(tmp_path / "b", 0.0)])
    assert round(row.measures["six_tasks"].mean, 6) == 0.025


def test_text_beside_images_is_told_and_drawn(tmp_path: Path) -> None:
    image = write_run(tmp_path / "image", settings("biased"), its_evaluation=evaluation(0.7))
    runs = [image, text_run(tmp_path / "text", 0.6), text_run(tmp_path / "d", 0.62, "debiased")]
    found = {row.main.key for row in rows(runs)}
    assert found == {"linear_top1", "six_tasks"}
    text = Outline(page(runs, title="Both")).text.replace("\u00a0", " ")
    assert "that of a linear classifier on the frozen features, on test samples, or the mean over six" in text
    assert "had no such accuracy" not in text
    assert "not set" not in text
    assert "gains 2.0 points against biased" in text
