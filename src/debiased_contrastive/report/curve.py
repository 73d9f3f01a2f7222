"""Logged numbers over the course of training: the mean over seeds, between the smallest and the largest."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal, TypeAlias

from debiased_contrastive.report.record import Record, finite

Axis: TypeAlias = Literal["epoch", "step"]
MOST_POINTS = 200
"""More only add noise: a picture has few pixels for each."""


@dataclass(frozen=True)
class Curve:
    """One number of one group over time."""

    x: tuple[float, ...]
    mean: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]


def time_axis(records: Iterable[Record], key: str) -> Axis:
    """Epochs, which may be parts of one, where any run logged the key in more than a single one; else steps."""
    for record in records:
        lines = [line for line in record.metrics if finite(line.get(key)) is not None]
        epochs = [epoch for line in lines if (epoch := finite(line.get("epoch"))) is not None]
        if epochs and max(epochs) - min(epochs) >= 1:
            return "epoch"
    return "step"


def curve(records: Sequence[Record], key: str, axis: Axis) -> Curve | None:
    """The course of one logged number, None where no run logged it; seeds that stopped early count until then."""
    courses = [course for record in records if (course := _course(record, key, axis))]
    if not courses:
        return None
    places = sorted({place for course in courses for place, _ in course})
    width = (places[-1] - places[0]) / MOST_POINTS if len(places) > MOST_POINTS else 0.0
    binned = [_binned(course, places[0], width) for course in courses]
    places = sorted({place for course in binned for place in course})
    at = [[course[place] for course in binned if place in course] for place in places]
    return Curve(tuple(places), tuple(map(fmean, at)), tuple(map(min, at)), tuple(map(max, at)))


def _course(record: Record, key: str, axis: Axis) -> list[tuple[float, float]]:
    course = []
    for line in record.metrics:
        place, value = finite(line.get(axis)), finite(line.get(key))
        if place is not None and value is not None:
            course.append((place, value))
    return course


def _binned(course: Iterable[tuple[float, float]], first: float, width: float) -> dict[float, float]:
    """The mean of what was logged at one place, or between two places that are `width` apart."""
    bins: dict[float, list[float]] = {}
    for place, value in course:
        # A number belongs to the end of its bin, as it was logged after the steps it is about.
        # Rounded first, or the last place could fall behind the last bin.
        end = first + math.ceil(round((place - first) / width, 6)) * width if width else place
        bins.setdefault(end, []).append(value)
    return {end: fmean(numbers) for end, numbers in bins.items()}
