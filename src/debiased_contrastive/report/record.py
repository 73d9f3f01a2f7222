"""What a run directory says, read with patience: a run may be unfinished, unevaluated or damaged."""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from debiased_contrastive.files import read_json
from debiased_contrastive.runs import ENVIRONMENT, EVALUATION, METRICS, TSNE, Run

MOST_CLASSES = 1000
"""A label beyond it that has no name is damage, not a class."""


@dataclass(frozen=True)
class Cloud:
    """A two-dimensional picture of embeddings."""

    points: tuple[tuple[float, float], ...]
    labels: tuple[int, ...]
    """One class per point, an index into `class_names`."""
    class_names: tuple[str, ...]


@dataclass(frozen=True)
class Record:
    """The content of one run; what is not there yet is empty."""

    folder: Path
    settings: dict[str, Any]
    environment: dict[str, Any]
    metrics: tuple[dict[str, Any], ...]
    evaluation: dict[str, Any]
    cloud: Cloud | None
    faults: tuple[str, ...]
    """What could not be read, one line each."""

    @property
    def seed(self) -> str:
        """The seed as it was written; a run without one is independent of all others."""
        return json.dumps(self.settings["seed"]) if "seed" in self.settings else str(self.folder)

    def section(self, name: str) -> dict[str, Any]:
        """A part of the settings, empty where there is none."""
        value = self.settings.get(name)
        return value if isinstance(value, dict) else {}

    @property
    def kind(self) -> str:
        """Which objective: biased, debiased or unbiased."""
        return str(self.section("objective").get("kind", "unnamed"))


def read_records(runs: Iterable[Run]) -> tuple[tuple[Record, ...], tuple[str, ...]]:
    """All runs whose settings can be read, and why others were left out."""
    found = [_record(run) for run in runs]
    records = tuple(record for record in found if isinstance(record, Record))
    left_out = tuple(reason for reason in found if isinstance(reason, str))
    if not records:
        raise ValueError(
            f"a report needs at least one readable run; got {'; '.join(left_out) or 'none'}: "
            "name folders that hold a settings.json"
        )
    return records, left_out


def finite(value: object) -> float | None:
    """The value as a float, None unless it is a finite number.

    >>> finite(1), finite(math.nan), finite(True), finite("1")
    (1.0, None, None, None)
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:  # an integer of hundreds of digits
        return None
    return number if math.isfinite(number) else None


def _record(run: Run) -> Record | str:
    """The run, or why it cannot be read."""
    try:
        settings = _unicode(run.settings)
    except (OSError, ValueError) as error:
        return str(error)
    faults: list[str] = []
    environment, evaluation, tsne = (
        _content(run.folder / name, faults) for name in (ENVIRONMENT, EVALUATION, TSNE)
    )
    return Record(
        folder=run.folder,
        settings=settings,
        environment=environment,
        metrics=_metrics(run, faults),
        evaluation=evaluation,
        cloud=_cloud(tsne, run.folder / TSNE, faults) if tsne else None,
        faults=tuple(faults),
    )


def _content(path: Path, faults: list[str]) -> dict[str, Any]:
    try:
        return _unicode(read_json(path))  # type: ignore[no-any-return]
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        faults.append(f"{error}; its numbers are missing here")
        return {}


def _unicode(value: Any) -> Any:
    """The same value; what is no Unicode in its names and texts, such as an odd name of a folder, is escaped."""
    if isinstance(value, dict):
        return {_unicode(key): _unicode(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_unicode(inner) for inner in value]
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value


def _metrics(run: Run, faults: list[str]) -> tuple[dict[str, Any], ...]:
    lines = list(run.metrics())
    if damaged := run.count_damaged_lines():
        faults.append(f"{run.folder / METRICS} has {damaged} lines that cannot be read; they are missing here")
    lost = sum(line.get("loss") is not None and finite(line["loss"]) is None for line in lines)
    if lost:
        faults.append(f"{run.folder}: the loss was not finite in {lost} of {len(lines)} lines; they are not drawn")
    return tuple(lines)


def _cloud(content: Mapping[str, Any], path: Path, faults: list[str]) -> Cloud | None:
    try:
        points = tuple((float(x), float(y)) for x, y in content["points"])
        labels = tuple(int(label) for label in content["labels"])
        names = tuple(str(name) for name in content.get("class_names") or ())
    except (KeyError, TypeError, ValueError, OverflowError):
        points, labels, names = (), (), ()
    sound = points and len(points) == len(labels) and all(map(_on_paper, points))
    if not sound or not 0 <= min(labels) <= max(labels) < max(len(names), MOST_CLASSES):
        faults.append(f"{path} must hold one finite point and one label per sample; it is not drawn")
        return None
    # Labels beyond the names are classes all the same.
    unnamed = range(len(names), max(labels) + 1)
    return Cloud(points, labels, names + tuple(f"class {label}" for label in unnamed))


def _on_paper(point: tuple[float, float]) -> bool:
    return all(math.isfinite(value) for value in point)
