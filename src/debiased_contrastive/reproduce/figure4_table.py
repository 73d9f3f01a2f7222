"""The results of `reproduce.figure4` as a table, each number with its interval over seeds."""

import sys
from pathlib import Path
from statistics import fmean
from typing import Any

from debiased_contrastive.evaluation.seeds import gap_closed
from debiased_contrastive.reproduce.runner import gains, read_results, shown, table

_LABELS = {
    "biased": "biased",
    "unbiased": "unbiased, all labels",
    "tau": "debiased, M = 1, tau_plus {}",
    "auto": "debiased, M = 1, tau_plus auto",
    "views": "debiased, M = {} views",
    "labels": "debiased, positives by {:.0%} of the labels",
}
_PROBES = {"linear": "linear_top1", "kNN": "knn", "mean classifier": "mean_classifier"}


def markdown(folder: Path) -> str:
    """One row for each objective: accuracies in percent, what they gain on biased seed by seed, the gap closed."""
    results = read_results(folder, "biased", "unbiased")
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
    lines = []
    for name in sorted(results, key=_rank):
        runs = results[name]
        shares = [gap_closed(ends[probe][0], _mean(runs, probe), ends[probe][1]) for probe in ("linear", "kNN")]
        lines.append([
            _label(name),
            *(shown(list(_of(runs, probe).values())) for probe in _PROBES),
            *(shown(gains(_of(runs, probe), _of(results["biased"], probe)), "+") for probe in ("linear", "kNN")),
            ", ".join(f"{100 * share:.0f} %" for share in shares),
            f"{100 * fmean(_measured(runs, 'floored').values()):.1f} %",
            f"{fmean(_measured(runs, 'tau_effective').values()):.3f}",
            str(len(runs)),
        ])  # fmt: skip
    return table(header, lines)


def _of(runs: dict[int, dict[str, Any]], probe: str) -> dict[int, float]:
    """Accuracy of each seed, in percent."""
    return {seed: 100 * value for seed, value in _measured(runs, _PROBES[probe]).items()}


def _measured(runs: dict[int, dict[str, Any]], key: str) -> dict[int, float]:
    return {seed: float(run["measures"][key]) for seed, run in runs.items()}


def _mean(runs: dict[int, dict[str, Any]], probe: str) -> float:
    return fmean(_of(runs, probe).values())


def _label(name: str) -> str:
    kind, _, number = name.partition("-")
    return _LABELS[kind].format(float(number) if kind == "labels" else number)


def _rank(name: str) -> tuple[int, float]:
    kind, _, number = name.partition("-")
    return ("biased", "tau", "auto", "views", "labels", "unbiased").index(kind), float(number or 0)


if __name__ == "__main__":
    print(markdown(Path(sys.argv[1])), end="")
