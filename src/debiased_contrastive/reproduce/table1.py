"""Contrastive multiview coding: biased, debiased, and what stands below the floor (Table 1).

    python -m debiased_contrastive.reproduce.table1 --images DIR --out results/cmc

DIR holds `train` and `val`, with a folder for each class. Every run's numbers go to one file of `--out`; a run
whose file is there is skipped, one that was cut off is resumed, so the same command, given again, finishes it.
`--share 0/2` and `--share 1/2` split it over two processes. What order does to a bank takes fewer epochs:

    python -m debiased_contrastive.reproduce.table1 --rows biased epochs --epochs 10 --seeds 1 --images DIR \
        --out results/cmc_order
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, get_args

import torch

from debiased_contrastive.images.evaluate import evaluated
from debiased_contrastive.images.presets import PRESETS
from debiased_contrastive.images.run import check_images, trained
from debiased_contrastive.images.settings import Settings
from debiased_contrastive.images.sources import Probed, probe_images
from debiased_contrastive.objectives.checks import OnFloor
from debiased_contrastive.report.measure import values
from debiased_contrastive.report.record import read_records
from debiased_contrastive.reproduce.runner import fill, grid_parser, shared, shortened
from debiased_contrastive.training.fit import fabric_of, same_run
from debiased_contrastive.training.memory import keep_freed_memory

TAU_PLUS = (0.005, 0.01)
LOGGED = ("step", "loss", "floored", "tau_plus", "tau_cap_median", "tau_cap_low", "images_per_second")
POINTS = 100
"""Of a course, three in an epoch."""


def rows(base: Settings) -> dict[str, Settings]:
    """What the paper's table asks for."""
    made = {"biased": _with(base, kind="biased")}
    for tau_plus in TAU_PLUS:
        for on_floor in get_args(OnFloor):
            name = f"tau-{tau_plus}-{on_floor}"
            made[name] = _with(base, kind="debiased", tau_plus=tau_plus, on_floor=on_floor)
    return made


def further(base: Settings) -> dict[str, Settings]:
    """A tau_plus that follows training, told the prior of a hundred classes; epochs of all images."""
    return {
        "auto": _with(base, kind="debiased", tau_plus=0.01, auto=True),
        "epochs": replace(_with(base, kind="biased"), data=replace(base.data, order="epochs")),
    }


def _with(base: Settings, **changed: Any) -> Settings:
    return replace(base, objective=replace(base.objective, **changed))


def grid(base: Settings, seeds: int) -> Iterator[tuple[str, Settings]]:
    """Name and settings of every run; whole seeds first, so that a part of it is already a table."""
    for part in (rows, further):
        for seed in range(seeds):
            for name, settings in part(base).items():
                yield f"{name}-seed{seed}", replace(settings, seed=seed)


def result_of(settings: Settings, folder: Path, images: Probed, *, official: bool = False) -> dict[str, Any]:
    """Train and evaluate one run of the grid, from wherever it stands."""
    run = same_run(folder, settings)
    fabric = fabric_of(settings.training)
    check_images(settings, images[0], fabric)
    for update in trained(settings, run, fabric, images[0]):
        if update.step % 500 == 0:
            print(f"{folder.name} {update.step}/{update.steps} loss {float(update.loss):.3f}", flush=True)
    evaluated(run, official=official, images=images)
    (record,), _ = read_records([run])
    return {
        # Where the images were is of no use to others.
        "settings": {**run.settings, "data": {**run.settings["data"], "root": None, "test_root": None}},
        "measures": values(record),
        "course": shortened(record.metrics, LOGGED, points=POINTS),
        **{key: run.environment[key] for key in ("revision", "modified", "versions")},
    }


def main() -> None:
    """Run what is missing of the grid."""
    parser = grid_parser(__doc__, "build/cmc")
    parser.add_argument("--images", type=Path, required=True, help="a folder with train and val")
    preset = PRESETS["cmc-small"].settings
    names = [*rows(preset), *further(preset)]
    parser.add_argument("--rows", nargs="+", choices=names, default=names, metavar="NAME", help=", ".join(names))
    parser.add_argument("--epochs", type=int, default=preset.training.epochs)
    parser.add_argument("--official", action="store_true", help="also the probe of the released code")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    keep_freed_memory()
    roots = {"root": arguments.images.resolve() / "train", "test_root": arguments.images.resolve() / "val"}
    data, training = replace(preset.data, **roots), replace(preset.training, epochs=arguments.epochs)
    base = replace(preset, data=data, training=training)
    chosen = (item for item in grid(base, arguments.seeds) if item[0].rpartition("-seed")[0] in arguments.rows)
    items = shared(chosen, arguments.share)
    # Read once: they are the same in every run.
    images = probe_images(base.data)
    made = (
        (name, partial(result_of, settings, arguments.runs / name, images, official=arguments.official))
        for name, settings in items
    )
    fill(made, arguments.out)


if __name__ == "__main__":
    main()
