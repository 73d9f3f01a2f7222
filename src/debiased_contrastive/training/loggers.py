"""Metrics for other programs, by the logger interface of Lightning Fabric; metrics.jsonl stays the truth."""

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from importlib.util import find_spec
from typing import Any, Literal, TypeAlias, get_args

from lightning_fabric.loggers.csv_logs import CSVLogger
from lightning_fabric.loggers.logger import Logger
from lightning_fabric.loggers.tensorboard import TensorBoardLogger

from debiased_contrastive.files import read_json, write_atomically
from debiased_contrastive.runs import Run, flat_settings

LogName: TypeAlias = Literal["csv", "tensorboard", "wandb", "mlflow"]
IDS = "loggers.json"
"""The file in the run directory that holds the names of the run at W&B and MLflow."""
PROJECT = "debiased-contrastive"
_STORE = "MLFLOW_TRACKING_URI"
_NEEDS: dict[str, tuple[str, ...]] = {
    "csv": (),
    "tensorboard": ("tensorboard",),
    "wandb": ("wandb", "pytorch_lightning"),
    "mlflow": ("mlflow", "pytorch_lightning"),
}


def check_loggers(names: Iterable[str]) -> None:
    """Raise unless these loggers are known and their packages are there."""
    for name in names:
        if name not in _NEEDS:
            raise ValueError(f"a log must be one of {', '.join(get_args(LogName))}; got {name!r}")
        if missing := [module for module in _NEEDS[name] if find_spec(module) is None]:
            raise ValueError(
                f"--log {name} needs {' and '.join(missing)}: pip install 'debiased-contrastive[{name}]'"
            )
        if name == "mlflow" and not os.environ.get(_STORE):
            raise ValueError(
                f"--log mlflow needs a place: set {_STORE}, such as http://localhost:5000 or sqlite:///mlflow.db"
            )


class Loggers:
    """The loggers of a run, which go on where it goes on."""

    def __init__(self, names: Sequence[LogName], run: Run, start: int) -> None:
        """Open them; `start` is the number of steps that are done."""
        check_loggers(names)
        self._opened = {name: _open_or_explain(name, run, start) for name in dict.fromkeys(names)}

    def write(self, step: int, values: Mapping[str, Any]) -> None:
        """Log the numbers among some values."""
        for name, logger in self._opened.items():
            logger.log_metrics(_numbers(values), step)
            if name in ("csv", "tensorboard"):
                logger.save()  # what a crash would lose otherwise

    def close(self, status: str) -> None:
        """End them with "success", or another word."""
        for name, logger in self._opened.items():
            logger.finalize(status)
            if name == "wandb":
                # Else the next run of this process would go on in it.
                logger.experiment.finish()  # type: ignore[attr-defined]


def _numbers(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if isinstance(value, int | float)}


def _open_or_explain(name: LogName, run: Run, start: int) -> Logger:
    try:
        return _open(name, run, start)
    # Each library has errors of its own for a server that is away or a key that is wrong.
    except Exception as error:
        raise ValueError(f"--log {name} could not be opened: {' '.join(str(error).split())}") from None


def _open(name: LogName, run: Run, start: int) -> Logger:
    if name == "csv":
        return _open_csv(run)
    if name == "tensorboard":
        # What the board has of later steps is dropped.
        board = TensorBoardLogger(run.folder, name="tensorboard", version="", purge_step=start + 1)
        if not start:
            board.log_hyperparams(flat_settings(run.settings))
        return board
    ids = read_json(run.folder / IDS) if (run.folder / IDS).is_file() else {}
    logger: Any = (_open_wandb if name == "wandb" else _open_mlflow)(run, ids.get(name))
    if name not in ids:
        logger.log_hyperparams(flat_settings(run.settings))
        opened = logger.run_id if name == "mlflow" else logger.experiment.id
        write_atomically(run.folder / IDS, json.dumps({**ids, name: opened}, indent=2) + "\n")
    made: Logger = logger
    return made


def _open_csv(run: Run) -> Logger:
    """Write the file anew from the metrics that the run has."""
    (run.folder / "csv" / "metrics.csv").unlink(missing_ok=True)
    logger = CSVLogger(run.folder, name="csv", version="")
    for line in run.metrics():
        logger.log_metrics(_numbers({key: value for key, value in line.items() if key != "step"}), line["step"])
    logger.save()
    return logger


def _open_wandb(run: Run, name: str | None) -> Any:
    from pytorch_lightning.loggers import WandbLogger

    # Mode, entity and key are read from the environment: WANDB_MODE=offline needs no network.
    project = os.environ.get("WANDB_PROJECT", PROJECT)
    return WandbLogger(
        name=run.folder.name,
        save_dir=str(run.folder),
        project=project,
        id=name,
        resume="allow",
        settings={"silent": True},
    )


def _open_mlflow(run: Run, name: str | None) -> Any:
    from pytorch_lightning.loggers import MLFlowLogger

    experiment = os.environ.get("MLFLOW_EXPERIMENT_NAME", PROJECT)
    return MLFlowLogger(experiment, run_name=run.folder.name, tracking_uri=os.environ[_STORE], run_id=name)
