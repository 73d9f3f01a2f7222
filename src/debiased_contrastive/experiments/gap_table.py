"""The results of `experiments.gap` as a table, each number with its interval over seeds."""

import json
import re
import sys
from pathlib import Path
from statistics import fmean
from typing import Any, TypeAlias

from debiased_contrastive.evaluation.interval import gap_closed, mean_and_interval

Results: TypeAlias = dict[str, dict[int, dict[str, Any]]]
"""By name of the objective and seed."""

_LABELS = {
    "biased": "biased",
    "unbiased": "unbiased, all labels",
    "tau": "debiased, M = 1, tau_plus {}",
    "auto": "debiased, M = 1, tau_plus auto",
    "views": "debiased, M = {} views",
    "labels": "debiased, positives by {:.0%} of the labels",
}
_PROBES = {"linear": "linear_top1", "kNN": "knn", "mean classifier": "mean_classifier"}


def read_results(folder: Path) -> Results:
    """The files that the grid wrote."""
    found: Results = {}
    for path in sorted(folder.glob("*.json")):
        match = re.fullmatch(r"(.+)-seed(\d+)", path.stem)
        if match is None:
            raise ValueError(f"{path} must be named OBJECTIVE-seedN.json, as the grid names it")
        found.setdefault(match[1], {})[int(match[2])] = json.loads(path.read_text(encoding="utf-8"))
    if "biased" not in found or "unbiased" not in found:
        raise ValueError(f"{folder} must hold biased and unbiased runs, the two ends of the gap; got {list(found)}")
    return found


def markdown(folder: Path) -> str:
    """One row for each objective: accuracies in percent, what they gain on biased seed by seed, the gap closed."""
    results = read_results(folder)
    ends = {probe: [_mean(results[name], probe) for name in ("biased", "unbiased")] for probe in _PROBES}
    header = [
        "objective",
        *_PROBES,
        "linear - biased",
        "kNN - biased",
        "gap closed: linear, kNN",
        "floored",
        "tau_eff",
        "seeds",
    ]
    lines = [header, ["---", *["---:"] * (len(header) - 1)]]
    for name in sorted(results, key=_rank):
        runs = results[name]
        shares = [gap_closed(ends[probe][0], _mean(runs, probe), ends[probe][1]) for probe in ("linear", "kNN")]
        lines.append([
            _label(name),
            *(_shown(list(_of(runs, probe).values())) for probe in _PROBES),
            *(_shown(_gains(runs, results["biased"], probe), "+") for probe in ("linear", "kNN")),
            ", ".join(f"{100 * share:.0f} %" for share in shares),
            f"{100 * fmean(_measured(runs, 'floored').values()):.1f} %",
            f"{fmean(_measured(runs, 'tau_effective').values()):.3f}",
            str(len(runs)),
        ])  # fmt: skip
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _of(runs: dict[int, dict[str, Any]], probe: str) -> dict[int, float]:
    """Accuracy of each seed, in percent."""
    return {seed: 100 * value for seed, value in _measured(runs, _PROBES[probe]).items()}


def _measured(runs: dict[int, dict[str, Any]], key: str) -> dict[int, float]:
    return {seed: float(run["measures"][key]) for seed, run in runs.items()}


def _mean(runs: dict[int, dict[str, Any]], probe: str) -> float:
    return mean_and_interval(list(_of(runs, probe).values()))[0]


def _gains(runs: dict[int, dict[str, Any]], biased: dict[int, dict[str, Any]], probe: str) -> list[float]:
    """Differences of runs with the same seed, so with the same weights at the start and the same order."""
    own, others = _of(runs, probe), _of(biased, probe)
    return [own[seed] - others[seed] for seed in own if seed in others]


def _shown(values: list[float], sign: str = "") -> str:
    if not values:
        return "-"
    mean, half_width = mean_and_interval(values)
    return f"{mean:{sign}.1f} ± {half_width:.1f}" if len(values) > 1 else f"{mean:{sign}.1f}"


def _label(name: str) -> str:
    kind, _, number = name.partition("-")
    return _LABELS[kind].format(float(number) if kind == "labels" else number)


def _rank(name: str) -> tuple[int, float]:
    kind, _, number = name.partition("-")
    return ("biased", "tau", "auto", "views", "labels", "unbiased").index(kind), float(number or 0)


if __name__ == "__main__":
    print(markdown(Path(sys.argv[1])), end="")
