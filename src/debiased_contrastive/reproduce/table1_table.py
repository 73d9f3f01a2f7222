"""The results of `reproduce.table1`, in the form of the paper's Table 1, and how often the floor was met.

python -m debiased_contrastive.reproduce.table1_table results/cmc
"""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

from debiased_contrastive.paper import published
from debiased_contrastive.reproduce.runner import fifths, gains, logged, read_results, shown, table

BIASED = ("biased", "epochs")
"""Trained with the biased loss."""
LABELS = {"auto": "tau_plus auto", "epochs": "biased, each image once in an epoch"}
RULES = {"clamp": "clamped", "biased": "biased loss below", "smooth": "smooth", "cap_tau": "capped tau_plus"}
"""What happens at the floor."""


def markdown(folder: Path) -> str:
    """One row for each objective: accuracies in percent, gains on biased seed by seed, and the paper's."""
    results = read_results(folder, "biased")
    biased = _accuracies(results["biased"], "linear_top1")
    lines = []
    for name in sorted(results, key=_rank):
        top1, top5, knn = (_accuracies(results[name], key) for key in ("linear_top1", "linear_top5", "knn"))
        lines.append([
            _label(name),
            *(shown(list(one.values())) for one in (top1, top5, knn)),
            "" if name == "biased" else shown(gains(top1, biased), "+"),
            *_published(name),
            str(len(top1)),
        ])  # fmt: skip
    header = [
        "objective",
        "top-1",
        "top-5",
        "kNN",
        "top-1 - biased",
        "ImageNet-100 in the paper: top-1",
        "top-5",
        "seeds",
    ]
    return table(header, lines)


def floors_markdown(folder: Path) -> str:
    """By fifths of a run: the tau_plus that anchors bear in biased training, how many do not bear the given one."""
    results = read_results(folder, "biased")
    lines = []
    for name in sorted(results, key=_rank):
        caps = ("tau_cap_median", "tau_cap_low")
        for key in caps if name in BIASED else ("floored",):
            by_run = zip(*(fifths(run["course"], key) for run in results[name].values()), strict=True)
            form = "{:.3f}" if key in caps else "{:.1%}"
            lines.append([f"{_label(name)}: {key}", *(form.format(fmean(fifth)) for fifth in by_run)])
    return table(["", *(f"{20 * k} %" for k in range(1, 6))], lines)


def thirds_markdown(folder: Path) -> str:
    """The loss of biased training by the third of an epoch, in the second half of its epochs."""
    results = read_results(folder, *BIASED)
    lines = []
    for name in BIASED:
        thirds: list[list[float]] = [[], [], []]
        for run in results[name].values():
            epochs = run["settings"]["training"]["epochs"]
            epoch = run["course"][-1]["step"] / epochs
            for step, loss in logged(run["course"], "loss"):
                if 2 * step > epochs * epoch:
                    thirds[int(3 * ((step - 1) % epoch) / epoch)].append(loss)
        lines.append([_label(name), *(f"{fmean(third):.2f}" for third in thirds), str(len(results[name]))])
    return table(["", "first third", "second", "last", "seeds"], lines)


def _accuracies(runs: Mapping[int, dict[str, Any]], key: str) -> dict[int, float]:
    """In percent, by seed; of few classes there is no top-5."""
    return {seed: 100 * float(run["measures"][key]) for seed, run in runs.items() if key in run["measures"]}


def _published(name: str) -> list[str]:
    """Top-1 and top-5; the paper took the biased loss below the floor."""
    kind, tau_plus, on_floor = _parts(name)
    if kind in LABELS or on_floor not in ("", "biased"):
        return ["", ""]
    objective = "biased" if kind == "biased" else "debiased"
    found = [
        published("imagenet100", objective, tau_plus=tau_plus, measure=measure) for measure in ("top1", "top5")
    ]
    return ["" if value is None else f"{value:.2f}" for value in found]


def _label(name: str) -> str:
    kind, tau_plus, on_floor = _parts(name)
    return LABELS.get(kind, kind) if kind != "tau" else f"tau_plus {tau_plus}, {RULES[on_floor]}"


def _rank(name: str) -> tuple[int, float, int]:
    kind, tau_plus, on_floor = _parts(name)
    return ("biased", "tau", *LABELS).index(kind), tau_plus, ("", *RULES).index(on_floor)


def _parts(name: str) -> tuple[str, float, str]:
    kind, *rest = name.split("-")
    return (kind, float(rest[0]), rest[1]) if rest else (kind, 0.0, "")


TABLES: tuple[Callable[[Path], str], ...] = (markdown, floors_markdown)

if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m debiased_contrastive.reproduce.table1_table FOLDER")
    found = Path(sys.argv[1])
    print("\n".join(made(found) for made in TABLES), end="")
    if all(any(found.glob(f"{name}-seed*.json")) for name in BIASED):
        print(f"\n{thirds_markdown(found)}", end="")
