"""The record of the domain, with its settings and presets; no torch."""

from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

from debiased_contrastive.domain import Domain, Metric, Preset, Work, name_presets
from debiased_contrastive.training.settings import Objective, Training, check_at_least, from_json


@dataclass(frozen=True)
class PointObjective(Objective):
    """Which loss between two shaken copies of a point."""

    kind: Literal["biased", "debiased"] = "debiased"


@dataclass(frozen=True)
class PointSettings:
    """Everything that a run on points depends on."""

    preset: str = ""
    seed: int = 0
    count: int = 120
    """Points of each of the three classes."""
    objective: PointObjective = field(default_factory=PointObjective)
    training: Training = field(default_factory=Training)

    def __post_init__(self) -> None:
        check_at_least(2, count=self.count)


def _load() -> Work:
    from tests.toy import run

    return Work(run.open_points, run.train, run.evaluate)


KNN = Metric("knn", "Neighbours", "vote of the nearest points")
PRESETS: dict[str, Preset[Any]] = name_presets(
    {
        "points": Preset(
            "three classes of points in the plane", PointSettings(training=Training(epochs=30, batch=60))
        )
    }
)
POINTS = Domain(
    name="points",
    extra="vision",
    unit="points",
    presets=PRESETS,
    results=(KNN,),
    mains=(KNN,),
    read_settings=partial(from_json, PointSettings),
    load=_load,
    describe_data=lambda settings: f"{3 * settings['count']} points in the plane",
)
