"""Runs that differ only in their seed, together; and which groups may be compared with each other."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from debiased_contrastive.report.label import labels
from debiased_contrastive.report.record import Record
from debiased_contrastive.report.setting import comparable_settings

ORDER = ("none", "biased", "debiased", "unbiased")
CHOICES = ("kind", "tau_plus", "auto", "num_positives", "known_labels", "on_floor", "floor", "beta")
"""Settings of the objective that rows of one comparison may differ in."""


@dataclass(frozen=True)
class Group:
    """The seeds of one setting."""

    label: str
    records: tuple[Record, ...]
    """One per seed."""
    repeated: tuple[Record, ...]
    """Further runs of a seed that is there already: they are not independent, so they do not count."""

    @property
    def kind(self) -> str:
        """Which objective: biased, debiased or unbiased."""
        return self.records[0].kind

    @property
    def settings(self) -> dict[str, Any]:
        """What all of it was trained with, its seeds aside."""
        return self.records[0].settings

    @property
    def objective(self) -> dict[str, Any]:
        """The settings of the objective."""
        return self.records[0].section("objective")

    @property
    def frame(self) -> str:
        """All that must be equal for a comparison of objectives: data, views, encoder, training, the rest."""
        rest = {key: value for key, value in comparable_settings(self.settings).items() if key != "preset"}
        for choice in CHOICES:
            rest.pop(f"objective.{choice}", None)
        return json.dumps(rest, sort_keys=True)


def grouped(records: Iterable[Record]) -> tuple[Group, ...]:
    """Groups of equal settings: comparable ones together, in the order of their kinds."""
    by_settings: dict[str, list[Record]] = {}
    for record in records:
        by_settings.setdefault(json.dumps(comparable_settings(record.settings), sort_keys=True), []).append(record)
    members = list(by_settings.values())
    names = labels([some[0].settings for some in members])
    groups = [Group(name, *_seeds(some)) for name, some in zip(names, members, strict=True)]
    frames = list(dict.fromkeys(group.frame for group in groups))
    return tuple(sorted(groups, key=lambda group: (frames.index(group.frame), *_rank(group))))


def baseline(group: Group, groups: Sequence[Group], kind: str) -> Group | None:
    """The group of that kind whose settings are the group's own but for the objective; the nearest of several."""
    candidates = [other for other in groups if other.kind == kind and other.frame == group.frame]
    return min(candidates, key=lambda other: _distance(group, other), default=None)


def _seeds(records: Sequence[Record]) -> tuple[tuple[Record, ...], tuple[Record, ...]]:
    """One record per seed, an evaluated one where there is a choice, and the remaining ones."""
    chosen: dict[str, Record] = {}
    for record in sorted(records, key=lambda record: not record.evaluation):
        chosen.setdefault(record.seed, record)
    rest = [record for record in records if chosen[record.seed] is not record]
    # Shorter first, so that 10 comes after 9.
    return tuple(chosen[seed] for seed in sorted(chosen, key=lambda seed: (len(seed), seed))), tuple(rest)


def _rank(group: Group) -> tuple[int, tuple[float, ...], str]:
    objective = group.objective
    kind = ORDER.index(group.kind) if group.kind in ORDER else len(ORDER)
    numbers = (objective.get(key) for key in ("tau_plus", "num_positives", "known_labels", "beta"))
    return kind, tuple(n if isinstance(n, int | float) else 0.0 for n in numbers), group.label


def _distance(group: Group, other: Group) -> int:
    """How many choices beyond the correction itself differ; a biased row's tau_plus means nothing."""
    return sum(group.objective.get(key) != other.objective.get(key) for key in ("beta", "num_positives"))
