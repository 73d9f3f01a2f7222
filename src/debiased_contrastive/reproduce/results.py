"""Results as the runner wrote them: by row and seed, their measures, and the way there."""

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, TypeAlias

from debiased_contrastive.domain import find_domain
from debiased_contrastive.domains import DOMAINS
from debiased_contrastive.files import read_json
from debiased_contrastive.report.records import measure_run, read_records
from debiased_contrastive.runs import Run

Curve: TypeAlias = Sequence[Mapping[str, Any]]
"""Lines that a training logged."""
Seeds: TypeAlias = dict[int, dict[str, Any]]
"""The results of one row, by seed."""


def read_measures(run: Run) -> dict[str, float]:
    """The numbers of a run that was trained and evaluated, as a report has them."""
    (record,), _ = read_records([run])
    return measure_run(record, find_domain(DOMAINS, run.domain))


def read_results(folder: Path, *needed: str) -> dict[str, Seeds]:
    """The results in a folder by row and seed; rows of these names must be there."""
    found: dict[str, Seeds] = {}
    for path in sorted(folder.glob("*.json")):
        match = re.fullmatch(r"(.+)-seed(\d+)", path.stem)
        if match is None:
            raise ValueError(f"{path} must be named SETTING-seedN.json, as the runner names it")
        found.setdefault(match[1], {})[int(match[2])] = read_json(path)
    if not set(needed) <= set(found):
        raise ValueError(f"{folder} must hold {' and '.join(needed)} runs to compare with; got {list(found)}")
    return found


def count_seeds(folder: Path) -> int:
    """One more than the largest seed of the results in a folder, and in those in it; 0 without results."""
    found = (re.fullmatch(r".+-seed(\d+)", path.stem) for path in folder.rglob("*.json"))
    return max((int(match[1]) + 1 for match in found if match), default=0)


def read_percent(runs: Seeds, key: str) -> dict[int, float]:
    """A measure of each seed that has it, in percent."""
    return {seed: 100 * float(run["measures"][key]) for seed, run in runs.items() if key in run["measures"]}


def shorten(curve: Curve, keys: Sequence[str], points: int) -> list[dict[str, Any]]:
    """At most so many lines of a curve, always with the last; only these keys, rounded to five digits."""
    every = max(1, -(-len(curve) // points))
    lines = [line for place, line in enumerate(curve, 1) if place % every == 0 or place == len(curve)]
    return [{key: _round(line[key]) for key in keys if key in line} for line in lines]


def _round(value: Any) -> Any:
    if isinstance(value, list):
        return [_round(one) for one in value]
    return float(f"{value:.5g}") if isinstance(value, float) else value


def curve_points(curve: Curve, key: str) -> list[tuple[int, float]]:
    """Steps and values of the lines that hold the key."""
    return [(int(line["step"]), float(line[key])) for line in curve if key in line]


def means_by_part(curve: Curve, key: str, parts: int) -> list[float]:
    """The mean in each of so many equal parts of a training, NaN where a part logged nothing."""
    found: list[list[float]] = [[] for _ in range(parts)]
    for step, value in curve_points(curve, key):
        found[min(parts - 1, parts * (step - 1) // int(curve[-1]["step"]))].append(value)
    return [fmean(part) if part else math.nan for part in found]


def cells_by_part(runs: Seeds, key: str, parts: int, form: str) -> list[str]:
    """Cells of a table: the mean over seeds in each part of a training, a dash where nothing was logged."""
    by_run = [means_by_part(run["course"], key, parts) for run in runs.values()]
    means = [fmean(part) for part in zip(*by_run, strict=True)]
    return ["-" if math.isnan(mean) else form.format(mean) for mean in means]
