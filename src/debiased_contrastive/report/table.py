"""The summary of runs as plain data: one row per setting, each number with its interval over seeds."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import NamedTuple

from debiased_contrastive.domain import Metric
from debiased_contrastive.evaluation.seeds import gap_closed, mean_and_interval
from debiased_contrastive.paper import published
from debiased_contrastive.report.group import Group, baseline, grouped
from debiased_contrastive.report.measure import MAINS, RETURN, values
from debiased_contrastive.report.record import finite, read_records
from debiased_contrastive.runs import Run


class Measure(NamedTuple):
    """A mean over seeds."""

    mean: float
    half_width: float
    """Of the 95 % interval; NaN for a single seed."""
    n: int

    def overlaps(self, other: "Measure") -> bool:
        """Whether the two intervals have a point in common."""
        return abs(self.mean - other.mean) <= self.half_width + other.half_width


@dataclass(frozen=True)
class Row:
    """One setting, all its seeds."""

    group: Group
    measures: Mapping[str, Measure]
    """By the keys of `measure.values`; shares and accuracies from 0 to 1."""
    main: Metric
    """The accuracy that costs and gaps are counted in, the same for all rows that may be compared."""
    gap_closed: float | None
    """Share of what bias costs that a debiased row wins back; None where that cost may be chance."""
    paper: float | None
    """The published top-1 in percent, or return."""

    @property
    def label(self) -> str:
        """The name of the row."""
        return self.group.label

    @property
    def seeds(self) -> int:
        """How many."""
        return len(self.group.records)


def rows(runs: Sequence[Run]) -> tuple[Row, ...]:
    """The summary of run directories: comparable settings together, biased, then debiased, then unbiased.

    >>> rows([])
    Traceback (most recent call last):
    ValueError: a report needs at least one readable run; got none: name folders that hold a settings.json
    """
    records, _ = read_records(runs)
    return summarised(grouped(records))


def summarised(groups: Sequence[Group]) -> tuple[Row, ...]:
    """A row for each group, in their order."""
    measures = {id(group): _measures(group) for group in groups}
    frames: dict[str, list[Group]] = {}
    for group in groups:
        frames.setdefault(group.frame, []).append(group)
    mains = {
        frame: _main(members[0], {key for group in members for key in measures[id(group)]})
        for frame, members in frames.items()
    }

    def share(group: Group) -> float | None:
        biased, unbiased = (baseline(group, groups, kind) for kind in ("biased", "unbiased"))
        if group.kind != "debiased" or biased is None or unbiased is None:
            return None
        main = mains[group.frame]
        if any(main.key not in measures[id(one)] for one in (group, biased, unbiased)):
            return None
        # Without a cost there is nothing to win back, nor a share of what may be chance.
        cost = _paired(unbiased, biased, main.key)
        if cost.mean <= 0 or cost.mean <= cost.half_width:
            return None
        return gap_closed(*(measures[id(one)][main.key].mean for one in (biased, group, unbiased)))

    return tuple(
        Row(group, measures[id(group)], mains[group.frame], share(group), _paper(group)) for group in groups
    )


def _main(group: Group, keys: Collection[str]) -> Metric:
    """Of what was measured the first that counts; before anything was, what will."""
    waiting = RETURN if group.settings.get("task") else MAINS[0]
    return next((one for one in MAINS if one.key in keys), waiting)


def has_unbiased(rows: Sequence[Row]) -> bool:
    """Whether there is a gap to speak of."""
    return any(row.group.kind == "unbiased" for row in rows)


def paired_difference(row: Row, other: Row) -> Measure:
    """The mean of row - other, with the interval of the differences seed by seed; NaN where seeds do not match."""
    return _paired(row.group, other.group, row.main.key)


def _paired(group: Group, other: Group, key: str) -> Measure:
    by_seed, others = (_by_seed(one, key) for one in (group, other))
    difference = fmean(by_seed.values()) - fmean(others.values())
    if by_seed.keys() != others.keys():
        return Measure(difference, math.nan, 0)
    half_width = mean_and_interval([by_seed[seed] - others[seed] for seed in by_seed])[1]
    return Measure(difference, half_width, len(by_seed))


def _by_seed(group: Group, key: str) -> dict[str, float]:
    return {record.seed: found[key] for record in group.records if key in (found := values(record))}


def _measures(group: Group) -> dict[str, Measure]:
    found = [values(record) for record in group.records]
    result = {}
    for key in dict.fromkeys(key for some in found for key in some):
        numbers = [some[key] for some in found if key in some]
        result[key] = Measure(*mean_and_interval(numbers), len(numbers))
    return result


def _paper(group: Group) -> float | None:
    objective = group.objective
    tau_plus = finite(objective.get("tau_plus"))
    # The published runs that are known by their data had no hard negatives, queue, bank or labels and a constant
    # tau_plus; agents had floor 0.
    if group.settings.get("task") and objective.get("floor", "zero") != "zero":
        return None
    if any(objective.get(key) for key in ("beta", "known_labels", "auto")) or objective.get("negatives") in (
        "queue",
        "bank",
    ):
        return None
    task = group.settings.get("task")
    return published(
        str(task or group.records[0].section("data").get("name")),
        group.kind,
        tau_plus=tau_plus or 0.0,
        num_positives=objective.get("num_positives", 1),
        measure="return" if task else "top1",
    )
