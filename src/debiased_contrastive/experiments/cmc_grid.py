"""Contrastive multiview coding: biased, debiased, and what stands below the floor (Table 1).

    python -m debiased_contrastive.experiments.cmc_grid --images DIR --out results/cmc

DIR holds `train` and `val`, with a folder for each class. Every run's numbers go to one file of `--out`; a run
whose file is there is skipped, one that was cut off is resumed, so the same command, given again, finishes it.
`--share 0/2` and `--share 1/2` split it over two processes.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, get_args

import torch

from debiased_contrastive.experiments.course import fabric_of
from debiased_contrastive.experiments.demo import same_run
from debiased_contrastive.experiments.evaluate import evaluated
from debiased_contrastive.experiments.grid import fill, grid_parser, shared, shortened
from debiased_contrastive.experiments.presets import PRESETS
from debiased_contrastive.experiments.settings import Objective, Settings
from debiased_contrastive.experiments.simclr import checked_images, trained
from debiased_contrastive.objectives.settings import OnFloor
from debiased_contrastive.report.measure import values
from debiased_contrastive.report.record import read_records
from debiased_contrastive.training.memory import keep_freed_memory

TAU_PLUS = (0.005, 0.01)
LOGGED = ("step", "loss", "floored", "tau_plus", "tau_cap_median", "tau_cap_low")


def objectives(base: Objective) -> dict[str, Objective]:
    """The rows of the table; auto is told the prior of a hundred classes of one size."""
    debiased = {
        f"tau-{tau_plus}-{on_floor}": replace(base, kind="debiased", tau_plus=tau_plus, on_floor=on_floor)
        for tau_plus in TAU_PLUS
        for on_floor in get_args(OnFloor)
    }
    return {
        "biased": replace(base, kind="biased"),
        **debiased,
        "auto": replace(base, kind="debiased", tau_plus=0.01, auto=True),
    }


def grid(base: Settings, seeds: int) -> Iterator[tuple[str, Settings]]:
    """Name and settings of every run; whole seeds first, so that a part of it is already a table."""
    for seed in range(seeds):
        for name, objective in objectives(base.objective).items():
            yield f"{name}-seed{seed}", replace(base, seed=seed, objective=objective)


def result_of(settings: Settings, folder: Path, *, official: bool = False) -> dict[str, Any]:
    """Train and evaluate one run of the grid, from wherever it stands."""
    run = same_run(folder, settings)
    fabric = fabric_of(settings.training)
    for update in trained(settings, run, fabric, checked_images(settings, fabric)):
        if update.step % 500 == 0:
            print(f"{folder.name} {update.step}/{update.steps} loss {float(update.loss):.3f}", flush=True)
    evaluated(run, official=official)
    (record,), _ = read_records([run])
    return {
        # Where the images were is of no use to others.
        "settings": {**run.settings, "data": {**run.settings["data"], "root": None, "test_root": None}},
        "measures": values(record),
        "course": shortened(record.metrics, LOGGED),
        **{key: run.environment[key] for key in ("revision", "modified", "versions")},
    }


def main() -> None:
    """Run what is missing of the grid."""
    parser = grid_parser(__doc__, "build/cmc")
    parser.add_argument("--images", type=Path, required=True, help="a folder with train and val")
    parser.add_argument("--official", action="store_true", help="also the probe of the released code")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    keep_freed_memory()
    base = PRESETS["cmc-small"].settings
    roots = {"root": arguments.images.resolve() / "train", "test_root": arguments.images.resolve() / "val"}
    base = replace(base, data=replace(base.data, **roots))
    items = shared(grid(base, arguments.seeds), arguments.share)
    made = (
        (name, partial(result_of, settings, arguments.runs / name, official=arguments.official))
        for name, settings in items
    )
    fill(made, arguments.out)


if __name__ == "__main__":
    main()
