"""The results of `experiments.sentence_grid` as a table, the paper's Table 2 below them."""

import sys
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

from debiased_contrastive.experiments.grid import gains, read_results, shown, table
from debiased_contrastive.paper import SENTENCE_TASKS, SENTENCE_TAU_PLUS, published_sentence_score

LABELS = {
    "random-bag": "bag of words, random directions",
    "random-gru": "random towers",
    "biased": "biased",
    "tau-0.005": "tau_plus 0.005",
    "tau-0.01": "tau_plus 0.01",
}


def markdown(folder: Path) -> str:
    """One row for each setting: scores in percent, mean of the accuracies, and what that gains on biased."""
    results = read_results(folder, "biased")
    biased = _means(results["biased"])
    lines = []
    for name in sorted(results, key=_rank):
        runs = results[name]
        lines.append([
            LABELS.get(name, name),
            *(shown([_score(run, task) for run in runs.values()]) for task in SENTENCE_TASKS),
            shown(list(_means(runs).values())),
            shown(gains(_means(runs), biased), "+") if name != "biased" else "",
            str(len(runs)),
        ])  # fmt: skip
    for tau_plus in SENTENCE_TAU_PLUS:
        scores = {task: published_sentence_score(task, tau_plus) for task in SENTENCE_TASKS}
        mean = fmean(value for task, value in scores.items() if task != "MSRP F1")
        name = f"paper, tau_plus {tau_plus}" if tau_plus else "paper, biased"
        lines.append([name, *(f"{value:.1f}" for value in scores.values()), f"{mean:.1f}", "", ""])
    return table(["vectors", *SENTENCE_TASKS, "mean", "mean - biased", "seeds"], lines)


def _score(run: Mapping[str, Any], task: str) -> float:
    name, _, measure = task.partition(" ")
    return 100 * float(run["tasks"][name][measure.lower() or "accuracy"])


def _means(runs: Mapping[int, Mapping[str, Any]]) -> dict[int, float]:
    tasks = [task for task in SENTENCE_TASKS if task != "MSRP F1"]
    return {seed: fmean(_score(run, task) for task in tasks) for seed, run in runs.items()}


def _rank(name: str) -> int:
    return list(LABELS).index(name) if name in LABELS else len(LABELS)


if __name__ == "__main__":
    print(markdown(Path(sys.argv[1])), end="")
