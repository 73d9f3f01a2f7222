"""How much of the gap between the biased and the unbiased loss each correction closes (Figures 2 and 4).

    python -m debiased_contrastive.experiments.gap --preset cifar10-small --out results/cifar10_small

Every run's numbers go to one file of `--out`; a run whose file is there is skipped, one that was cut off is
resumed, so the same command, given again, finishes the grid. `--share 0/2` and `--share 1/2` split it over
two processes.
"""

import argparse
import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from debiased_contrastive.experiments.demo import same_run
from debiased_contrastive.experiments.evaluate import evaluated
from debiased_contrastive.experiments.presets import PRESETS
from debiased_contrastive.experiments.settings import Objective, Settings
from debiased_contrastive.experiments.simclr import checked_images, fabric_of, trained
from debiased_contrastive.files import write_atomically
from debiased_contrastive.runs import Run
from debiased_contrastive.terminal import keep_freed_memory

CLASSES = 0.2
"""One of five: the class prior of the grid's data."""


def objectives() -> dict[str, Objective]:
    """The rows of the table: priors around the true one, more views, true positives of few or all labels."""
    debiased = Objective("debiased", tau_plus=CLASSES)
    return {
        "biased": Objective("biased"),
        "unbiased": Objective("unbiased"),
        "tau-0.05": replace(debiased, tau_plus=0.05),
        "tau-0.1": replace(debiased, tau_plus=0.1),
        "tau-0.2": debiased,
        "labels-1": replace(debiased, known_labels=1.0),
        "labels-0.1": replace(debiased, known_labels=0.1),
        "labels-0.01": replace(debiased, known_labels=0.01),
        "views-2": replace(debiased, num_positives=2),
        "views-4": replace(debiased, num_positives=4),
    }


def grid(base: Settings, seeds: int) -> Iterator[tuple[str, Settings]]:
    """Name and settings of every run; whole seeds first, so that a part of it is already a table."""
    for seed in range(seeds):
        for name, objective in objectives().items():
            yield f"{name}-seed{seed}", replace(base, seed=seed, objective=objective)


def result_of(settings: Settings, folder: Path) -> dict[str, Any]:
    """Train and evaluate one run of the grid, from wherever it stands."""
    start = time.perf_counter()
    run = same_run(folder, settings)
    fabric = fabric_of(settings.training)
    for update in trained(settings, run, fabric, checked_images(settings, fabric)):
        if update.step % 100 == 0:
            print(f"{folder.name} {update.step}/{update.steps} loss {float(update.loss):.3f}", flush=True)
    evaluation = evaluated(run)
    return _record(run, evaluation, time.perf_counter() - start)


def _record(run: Run, evaluation: dict[str, Any], seconds: float) -> dict[str, Any]:
    lines = list(run.metrics())
    environment = run.environment
    return {
        "settings": run.settings,
        "evaluation": evaluation,
        "last": lines[-1],
        "knn": {str(line["step"]): line["knn"] for line in lines if "knn" in line},
        "seconds": round(seconds, 1),
        "revision": environment["revision"],
        "versions": environment["versions"],
    }


def main() -> None:
    """Run what is missing of the grid."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", default="cifar10-small", choices=PRESETS)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--share", default="0/1", help="which part of how many")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--runs", type=Path, default=Path("build/gap"))
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    keep_freed_memory()
    part, parts = map(int, arguments.share.split("/"))
    arguments.out.mkdir(parents=True, exist_ok=True)
    items = list(grid(PRESETS[arguments.preset].settings, arguments.seeds))
    for name, settings in items[part::parts]:
        path = arguments.out / f"{name}.json"
        if not path.exists():
            result = result_of(settings, arguments.runs / name)
            write_atomically(path, json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
