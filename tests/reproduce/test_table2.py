"""The grid of sentence runs: filled once, untrained towers beside trained ones, and its table by hand."""

import json
from pathlib import Path

import pytest

from debiased_contrastive.reproduce.runner import fill
from debiased_contrastive.reproduce.table2 import course_markdown, make_jobs, markdown
from debiased_contrastive.text import task_files
from debiased_contrastive.text.settings import Text, TextSettings, TextTraining, Towers
from debiased_contrastive.text.task_files import SentenceTask
from debiased_contrastive.training.settings import as_json
from tests.text.test_run import write


def tasks(_root: Path) -> tuple[SentenceTask, ...]:
    sentences = tuple(f"{kind}{place % 12}" for place in range(20) for kind in ("sea", "town"))
    labels = tuple(place % 2 for place in range(40))
    return (
        *(SentenceTask(name, "cv", sentences, labels) for name in ("MR", "CR", "SUBJ", "MPQA")),
        SentenceTask("TREC", "split", sentences, labels, (), sentences, labels),
        SentenceTask("MSRP", "pairs", sentences, labels, sentences[::-1], sentences, labels, sentences[::-1]),
    )


def test_a_grid_is_filled_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_files, "read_tasks", tasks)
    training = TextTraining(
        epochs=1, batch=20, learning_rate=0.01, weight_decay=0.0, accelerator="cpu", log_every=5
    )
    base = TextSettings(
        text=Text(write(tmp_path / "text.txt"), vocabulary=50, longest=8),
        towers=Towers("gru", 8, 6),
        training=training,
    )
    wanted = ("biased-seed0", "tau-0.01-seed1", "random-bag-seed1")
    jobs = [job for job in make_jobs(base, 2, tmp_path) if job.name in wanted]
    assert [job.domain for job in jobs] == ["text", "text", ""]
    kept = {"settings": as_json(jobs[0].settings), "tasks": scores(0.5)}
    out = tmp_path / "out"
    out.mkdir()
    (out / "biased-seed0.json").write_text(json.dumps(kept))
    fill(jobs, out, tmp_path / "runs")
    assert json.loads((out / "biased-seed0.json").read_text()) == kept
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["tau-0.01-seed1"]
    trained, untrained = (
        json.loads((out / f"{name}-seed1.json").read_text()) for name in ("tau-0.01", "random-bag")
    )
    assert [line["step"] for line in trained["course"]] == [1]
    assert trained["settings"]["objective"]["tau_plus"] == 0.01
    assert trained["sentences"] == untrained["sentences"] == 200
    assert str(tmp_path) not in json.dumps(trained["settings"])
    assert untrained["settings"]["towers"]["name"] == "bag"
    assert len(untrained["tasks"]["MR"]["folds"]) == 10
    assert len(markdown(out).splitlines()) == 2 + 3 + 3


def scores(level: float) -> dict[str, dict[str, float]]:
    found = {name: {"accuracy": level} for name in ("MR", "CR", "SUBJ", "MPQA", "TREC", "MSRP")}
    found["MSRP"]["f1"] = level + 0.1
    return found


def test_the_table_by_hand(tmp_path: Path) -> None:
    for name, level in {"biased-seed0": 0.7, "biased-seed1": 0.72, "tau-0.01-seed0": 0.71, "tau-0.01-seed1": 0.74,
                        "random-gru-seed0": 0.6}.items():  # fmt: skip
        (tmp_path / f"{name}.json").write_text(json.dumps({"tasks": scores(level)}))
    lines = [line.strip("| ").split(" | ") for line in markdown(tmp_path).splitlines()]
    assert lines[0] == ["vectors", "MR", "CR", "SUBJ", "MPQA", "TREC", "MSRP accuracy", "MSRP F1", "mean",
                        "mean - biased", "seeds"]  # fmt: skip
    assert lines[2] == ["random towers", *["60.0"] * 6, "70.0", "60.0", "-10.0", "1"]
    # Two seeds: t = 12.706 with one degree of freedom.
    assert lines[3] == ["biased", *["71.0 ± 12.7"] * 6, "81.0 ± 12.7", "71.0 ± 12.7", "", "2"]
    assert lines[4][-2:] == ["+1.5 ± 6.4", "2"]
    assert lines[5][:4] == ["paper, biased", "76.8", "81.3", "86.6"]
    assert lines[7][0] == "paper, tau_plus 0.01"


def test_without_biased_runs_there_is_nothing_to_compare_with(tmp_path: Path) -> None:
    (tmp_path / "tau-0.01-seed0.json").write_text(json.dumps({"tasks": scores(0.5)}))
    with pytest.raises(ValueError, match="must hold biased runs to compare with"):
        markdown(tmp_path)
    (tmp_path / "other.json").write_text("{}")
    with pytest.raises(ValueError, match="must be named SETTING-seedN"):
        markdown(tmp_path)


def test_courses_by_hand(tmp_path: Path) -> None:
    for name in ("biased", "tau-0.01"):
        course = [{"step": step, "floored": step / 1000, "tau_cap_median": 0.5} for step in range(1, 101)]
        (tmp_path / f"{name}-seed0.json").write_text(json.dumps({"tasks": scores(0.5), "course": course}))
    (line,) = course_markdown(tmp_path).splitlines()[2:]
    # Steps 1 to 10 are the first tenth, at 0.1 to 1.0 %.
    assert line.startswith("| tau_plus 0.01 | 0.55 | 1.55 |")
    assert line.endswith("| 9.55 | 0.50 |")
