"""The content of run directories, which may be unfinished, not evaluated or damaged."""

import json
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median
from typing import Any

from debiased_contrastive.domain import Compute, Content, Domain, Metric, finite_number, section
from debiased_contrastive.files import read_json
from debiased_contrastive.runs import ENVIRONMENT, EVALUATION, METRICS, TSNE, Run

MAX_CLASSES = 1000
"""A label above it that has no name is taken for damage."""


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
    domain: str
    settings: dict[str, Any]
    """Without the name of the domain, which runs of earlier versions do not say."""
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

    @property
    def objective(self) -> Content:
        return section(self.settings, "objective")

    @property
    def kind(self) -> str:
        return str(self.objective.get("kind", "unnamed"))


def read_records(runs: Iterable[Run]) -> tuple[tuple[Record, ...], tuple[str, ...]]:
    """All runs whose settings can be read, and why others were left out."""
    results = [_read_record(run) for run in runs]
    records = tuple(record for record in results if isinstance(record, Record))
    left_out = tuple(reason for reason in results if isinstance(reason, str))
    if not records:
        raise ValueError(
            f"a report needs at least one readable run; got {'; '.join(left_out) or 'none'}: "
            "name folders that hold a settings.json"
        )
    return records, left_out


def measure_run(record: Record, domain: Domain) -> dict[str, float]:
    """What this run measured, by key; accuracies and other shares from 0 to 1."""
    content, speed = (record.settings, record.metrics, record.evaluation), f"{domain.unit}_per_second"
    values = {metric.key: metric.read(*content) for metric in (*domain.results, *EMBEDDINGS)}
    values[speed] = _log_summary(speed, median)(*content)
    return {key: value for key, value in values.items() if value is not None}


def _log_summary(key: str, summarise: Callable[[list[float]], float]) -> Compute:
    """A summary of the values in all lines of metrics that logged the key."""

    def compute(_settings: Content, metrics: Sequence[Content], _evaluation: Content) -> float | None:
        numbers = [number for line in metrics if (number := finite_number(line.get(key))) is not None]
        return summarise(numbers) if numbers else None

    return compute


def _last_epoch_mean(key: str) -> Compute:
    """The mean over the last epoch that logged the key, one line where there are no epochs."""

    def compute(settings: Content, metrics: Sequence[Content], evaluation: Content) -> float | None:
        lines = [line for line in metrics if finite_number(line.get(key)) is not None]
        end = finite_number(lines[-1].get("epoch")) if lines else None
        # Epochs may be whole numbers or, within an epoch, parts of one.
        last = lines[-1:] if end is None else [x for x in lines if (finite_number(x.get("epoch")) or 0.0) > end - 1]
        return _log_summary(key, fmean)(settings, last, evaluation)

    return compute


EMBEDDINGS = (
    Metric("alignment", "Alignment", "mean squared distance of two views; lower is closer", False, 3),
    Metric("uniformity", "Uniformity", "log mean Gaussian potential of pairs; lower is more even", False, 3),
    Metric("within", "Cosine within", "mean cosine of pairs of one class", False, 3),
    Metric("between", "Cosine between", "mean cosine of pairs of two classes", False, 3),
    Metric(
        "floored",
        "Floored",
        "share of anchors whose estimate was below its floor in the last epoch, or line",
        compute=_last_epoch_mean("floored"),
    ),
    Metric(
        "tau_cap_low",
        "Safe τ⁺",
        "the τ⁺ that would leave 95 % of the anchors off the floor",
        percent=False,
        decimals=3,
        compute=_last_epoch_mean("tau_cap_low"),
    ),
    Metric(
        "false_negative_rate",
        "False negatives",
        "share of the negatives that had the anchor's own class",
        compute=_log_summary("false_negative_rate", fmean),
    ),
)
"""What every domain may say of its embeddings and negatives."""


def _read_record(run: Run) -> Record | str:
    """The run, or why it cannot be read."""
    try:
        settings = _unicode(run.settings)
        domain = _unicode(run.domain)
    except (OSError, ValueError) as error:
        return str(error)
    faults: list[str] = []
    environment, evaluation, tsne = (
        _read_content(run.folder / name, faults) for name in (ENVIRONMENT, EVALUATION, TSNE)
    )
    return Record(
        folder=run.folder,
        domain=domain,
        settings=settings,
        environment=environment,
        metrics=_read_metrics(run, faults),
        evaluation=evaluation,
        cloud=_read_cloud(tsne, run.folder / TSNE, faults) if tsne else None,
        faults=tuple(faults),
    )


def _read_content(path: Path, faults: list[str]) -> dict[str, Any]:
    try:
        return _unicode(read_json(path))  # type: ignore[no-any-return]
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        faults.append(f"{error}; its numbers are missing here")
        return {}


def _unicode(value: Any) -> Any:
    """The value with all that is not valid Unicode in its keys and texts, such as a folder's name, escaped."""
    if isinstance(value, dict):
        return {_unicode(key): _unicode(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_unicode(inner) for inner in value]
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value


def _read_metrics(run: Run, faults: list[str]) -> tuple[dict[str, Any], ...]:
    lines = list(run.metrics())
    if damaged := run.count_damaged_lines():
        faults.append(f"{run.folder / METRICS} has {damaged} lines that cannot be read; they are missing here")
    if lost := sum(line.get("loss") is not None and finite_number(line["loss"]) is None for line in lines):
        faults.append(f"{run.folder}: the loss was not finite in {lost} of {len(lines)} lines; they are not drawn")
    return tuple(lines)


def _read_cloud(content: Content, path: Path, faults: list[str]) -> Cloud | None:
    try:
        points = tuple((float(x), float(y)) for x, y in content["points"])
        labels = tuple(int(label) for label in content["labels"])
        names = tuple(str(name) for name in content.get("class_names") or ())
    except (KeyError, TypeError, ValueError, OverflowError):
        points, labels, names = (), (), ()
    is_finite = all(math.isfinite(value) for point in points for value in point)
    if (
        not points
        or len(points) != len(labels)
        or not is_finite
        or not 0 <= min(labels) <= max(labels) < max(len(names), MAX_CLASSES)
    ):
        faults.append(f"{path} must hold one finite point and one label per sample; it is not drawn")
        return None
    # Labels beyond the names are classes all the same.
    unnamed = range(len(names), max(labels) + 1)
    return Cloud(points, labels, names + tuple(f"class {label}" for label in unnamed))
