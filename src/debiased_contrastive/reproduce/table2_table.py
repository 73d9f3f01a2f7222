"""The results of `reproduce.table2`, beside the paper's Table 2, and of `studies.sentence_floors`."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from debiased_contrastive.paper import SENTENCE_TASKS, SENTENCE_TAU_PLUS, published_sentence_score
from debiased_contrastive.reproduce.runner import gains, read_results, shown, table

LABELS = {
    "random-bag": "bag of words, random directions",
    "random-gru": "random towers",
    "biased": "biased",
    "tau-0.005": "tau_plus 0.005",
    "tau-0.01": "tau_plus 0.01",
}
EPOCHS = (5, 10, 20)
"""After which floors are compared."""


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


def course_markdown(folder: Path) -> str:
    """Share of the pairs on the floor in each tenth of the grid's training, and tau_cap in the last."""
    results = read_results(folder, "biased")
    lines = []
    for name in filter(results.__contains__, ("tau-0.005", "tau-0.01")):
        tenths = zip(*(_tenths(run["course"], "floored") for run in results[name].values()), strict=True)
        caps = [_tenths(run["course"], "tau_cap_median")[-1] for run in results[name].values()]
        shares = [f"{100 * fmean(tenth):.2f}" for tenth in tenths]
        lines.append([LABELS[name], *shares, f"{fmean(caps):.2f}"])
    return table(["floored, %", *(f"{10 * k} %" for k in range(1, 11)), "tau_cap at the end"], lines)


def floors_markdown(folder: Path) -> str:
    """Pairs on the floor, and the biased loss, after some epochs of learning a text by heart."""
    results = read_results(folder, "biased")
    lines = []
    for name in sorted(results, key=lambda name: (name != "biased", name)):
        runs = results[name].values()
        cells = []
        for epoch in EPOCHS:
            last = [_until(run["course"], epoch) for run in runs]
            cells.append(f"{100 * fmean(line['floored'] for line in last):.0f} %")
            cells.append(f"{fmean(line['biased_loss'] for line in last):.2f}")
        lines.append([name.replace("floor-", "floor "), *cells])
    columns = [f"{what}, epoch {epoch}" for epoch in EPOCHS for what in ("floored", "biased loss")]
    return table(["", *columns], lines)


def _tenths(course: Sequence[Mapping[str, float]], key: str) -> list[float]:
    """Means over the ten parts of a training."""
    end = course[-1]["step"]
    parts: list[list[float]] = [[] for _ in range(10)]
    for line in course:
        parts[min(9, int(10 * line["step"] / (end + 1)))].append(line[key])
    return [fmean(part) for part in parts]


def _until(course: Sequence[Mapping[str, float]], epoch: int) -> Mapping[str, float]:
    """The last line up to the end of an epoch."""
    return [line for line in course if line["epoch"] <= epoch][-1]


def _score(run: Mapping[str, Any], task: str) -> float:
    name, _, measure = task.partition(" ")
    return 100 * float(run["tasks"][name][measure.lower() or "accuracy"])


def _means(runs: Mapping[int, Mapping[str, Any]]) -> dict[int, float]:
    tasks = [task for task in SENTENCE_TASKS if task != "MSRP F1"]
    return {seed: fmean(_score(run, task) for task in tasks) for seed, run in runs.items()}


def _rank(name: str) -> int:
    return list(LABELS).index(name) if name in LABELS else len(LABELS)


if __name__ == "__main__":
    found = Path(sys.argv[1])
    grids = (floors_markdown,) if list(found.glob("floor-*")) else (markdown, course_markdown)
    print("\n".join(made(found) for made in grids), end="")
