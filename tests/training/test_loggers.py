"""Metrics for other programs: the same numbers as metrics.jsonl, also after a stop; settings beside them."""

import csv
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.contenders import load_torchvision
from debiased_contrastive.cli.main import main
from debiased_contrastive.runs import Run
from debiased_contrastive.training.loggers import Loggers
from tests.cli.test_cli import error_of
from tests.cli.test_toy_domain import EVERY, FLAGS

load_torchvision()


def train_with(run: Path, *logs: str) -> list[dict[str, Any]]:
    """Train twelve steps in two parts: forget what came after the tenth, go on from there."""
    main(["train", "points", "--training.epochs", "2", *FLAGS, "--out", str(run), "--log", *logs], EVERY)
    for name in ("encoder.safetensors", "encoder.json", "checkpoint-12.pt"):
        (run / name).unlink()
    main(["resume", str(run), "--quiet", "--log", *logs], EVERY)
    return list(Run(run).metrics())


def test_a_table_and_a_board_go_on_where_the_run_does(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="the extra tensorboard is not installed")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    lines = train_with(tmp_path / "run", "csv", "tensorboard")
    with (tmp_path / "run" / "csv" / "metrics.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(int(row["step"]), float(row["loss"])) for row in rows] == [
        (line["step"], line["loss"]) for line in lines
    ]
    assert [line["step"] for line in lines] == list(range(1, 13))
    board = EventAccumulator(str(tmp_path / "run" / "tensorboard")).Reload()
    seen = [(event.step, event.value) for event in board.Scalars("loss")]
    assert seen == [(line["step"], pytest.approx(line["loss"])) for line in lines], (
        "what was repeated is there once"
    )


def test_wandb_goes_on_in_the_same_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("wandb", "pytorch_lightning"):
        pytest.importorskip(name, reason="the extra wandb is not installed")
    monkeypatch.setenv("WANDB_MODE", "offline")
    train_with(tmp_path / "run", "wandb")
    name = json.loads((tmp_path / "run" / "loggers.json").read_text())["wandb"]
    folders = list((tmp_path / "run" / "wandb").glob("offline-run-*"))
    assert {folder.name.split("-")[-1] for folder in folders} == {name}
    assert sys.modules["wandb"].run is None, "it is ended, so that the next run is another"


def test_mlflow_has_every_step_and_the_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow: Any = pytest.importorskip("mlflow", reason="the extra mlflow is not installed")
    pytest.importorskip("pytorch_lightning", reason="the extra mlflow is not installed")
    place = (tmp_path / "store").as_uri()
    monkeypatch.setenv("MLFLOW_TRACKING_URI", place)
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    lines = train_with(tmp_path / "run", "mlflow")
    client = mlflow.MlflowClient(tracking_uri=place)
    (experiment,) = [one for one in client.search_experiments() if one.name == "debiased-contrastive"]
    (found,) = client.search_runs([experiment.experiment_id])
    assert found.info.run_id == json.loads((tmp_path / "run" / "loggers.json").read_text())["mlflow"]
    assert found.info.status == "FINISHED"
    assert found.data.params["training.batch"] == "60"
    history = {one.step: one.value for one in client.get_metric_history(found.info.run_id, "loss")}
    assert history == {line["step"]: line["loss"] for line in lines}


def test_what_is_not_there_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("debiased_contrastive.training.loggers.find_spec", lambda _name: None)
    for name, packages in (("wandb", "wandb and pytorch_lightning"), ("tensorboard", "tensorboard")):
        line = error_of(["train", "points", "--log", name, "--out", str(tmp_path / "run")], capsys, EVERY)
        assert f"--log {name} needs {packages}: pip install 'debiased-contrastive[{name}]'" in line
    monkeypatch.setattr("debiased_contrastive.training.loggers.find_spec", lambda name: name)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    line = error_of(["train", "points", "--log", "mlflow", "--out", str(tmp_path / "run")], capsys, EVERY)
    assert "--log mlflow needs a place: set MLFLOW_TRACKING_URI" in line
    assert not (tmp_path / "run").exists()
    monkeypatch.undo()
    monkeypatch.setattr("debiased_contrastive.training.loggers.find_spec", lambda _name: None)
    assert "--log tensorboard needs" in error_of(["train", "points", "--tensorboard"], capsys, EVERY)
    with pytest.raises(ValueError, match="a log must be one of csv, tensorboard, wandb, mlflow; got 'paper'"):
        Loggers(["paper"], Run(tmp_path), 0)  # type: ignore[list-item]
