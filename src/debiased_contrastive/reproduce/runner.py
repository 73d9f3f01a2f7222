"""Grids of runs: every result is a file, what is there is skipped, and tables are made of the files."""

import argparse
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, TypeAlias, TypeVar

from debiased_contrastive.evaluation.seeds import mean_and_interval
from debiased_contrastive.files import write_atomically

Item = TypeVar("Item")
Results: TypeAlias = dict[str, dict[int, dict[str, Any]]]
"""By the name of a setting and seed."""


def grid_parser(description: str | None, runs: str) -> argparse.ArgumentParser:
    """The part of a grid's command line that all have."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--share", default="0/1", help="which part of how many")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--runs", type=Path, default=Path(runs))
    parser.add_argument("--out", type=Path, required=True)
    return parser


def shared(items: Iterable[Item], share: str) -> list[Item]:
    """The items of one process: of the share `1/3` the second, fifth and so on.

    >>> shared("abcd", "1/3")
    ['b']
    """
    part, parts = map(int, share.split("/"))
    if not 0 <= part < parts:
        raise ValueError(f"a share must be K/N with K from 0 to N - 1; got {share}")
    return list(items)[part::parts]


def fill(made: Iterable[tuple[str, Callable[[], dict[str, Any]]]], out: Path) -> None:
    """Make the results that have no file yet, each under its name."""
    out.mkdir(parents=True, exist_ok=True)
    for name, make in made:
        path = out / f"{name}.json"
        if not path.exists():
            write_atomically(path, json.dumps(make(), indent=1) + "\n")


def read_results(folder: Path, *needed: str) -> Results:
    """The files of a grid, in which settings of these names must be."""
    found: Results = {}
    for path in sorted(folder.glob("*.json")):
        match = re.fullmatch(r"(.+)-seed(\d+)", path.stem)
        if match is None:
            raise ValueError(f"{path} must be named SETTING-seedN.json, as the grid names it")
        found.setdefault(match[1], {})[int(match[2])] = json.loads(path.read_text(encoding="utf-8"))
    if not set(needed) <= set(found):
        raise ValueError(f"{folder} must hold {' and '.join(needed)} runs to compare with; got {list(found)}")
    return found


def gains(own: Mapping[int, float], others: Mapping[int, float]) -> list[float]:
    """Differences of runs with the same seed, so with the same weights at the start and the same order."""
    return [own[seed] - others[seed] for seed in own if seed in others]


def shown(values: Sequence[float], sign: str = "") -> str:
    """Mean and half of its 95 % interval.

    >>> shown([70.0, 72.0]), shown([1.0], "+"), shown([])
    ('71.0 ± 12.7', '+1.0', '-')
    """
    if not values:
        return "-"
    mean, half_width = mean_and_interval(list(values))
    return f"{mean:{sign}.1f} ± {half_width:.1f}" if len(values) > 1 else f"{mean:{sign}.1f}"


def shortened(course: Sequence[Mapping[str, Any]], keys: Sequence[str], points: int = 60) -> list[dict[str, Any]]:
    """At most so many lines of what was logged, the last among them, with these keys and five digits."""
    every = max(1, -(-len(course) // points))
    lines = [line for place, line in enumerate(course, 1) if place % every == 0 or place == len(course)]
    return [{key: _short(line[key]) for key in keys if key in line} for line in lines]


def _short(value: Any) -> Any:
    """With as many digits as mean something."""
    if isinstance(value, float):
        return float(f"{value:.5g}")
    if isinstance(value, list):
        return [_short(one) for one in value]
    return value


def logged(course: Sequence[Mapping[str, Any]], key: str) -> list[tuple[int, float]]:
    """Steps and values where there is one."""
    return [(int(line["step"]), float(line[key])) for line in course if key in line]


def fifths(course: Sequence[Mapping[str, Any]], key: str) -> list[float]:
    """The mean in each fifth of a training."""
    end = course[-1]["step"]
    parts: list[list[float]] = [[] for _ in range(5)]
    for step, value in logged(course, key):
        parts[min(4, 5 * (step - 1) // end)].append(value)
    return [fmean(part) if part else math.nan for part in parts]


def table(header: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """In Markdown, numbers to the right."""
    rule = ["---", *["---:"] * (len(header) - 1)]
    return "".join(f"| {' | '.join(line)} |\n" for line in (header, rule, *lines))
