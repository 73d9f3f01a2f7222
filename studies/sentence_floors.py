"""What each floor does while a text is learnt by heart: which share of the pairs it stops training, and how far.

    python -m studies.sentence_floors --out results/sentence_floors

The text is that of the package, so small that towers come to know it: the state in which large towers end on a
large one. Floors differ only there.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from debiased_contrastive.reproduce.runner import fill, grid_parser, shared
from debiased_contrastive.text.presets import TEXT_PRESETS
from debiased_contrastive.text.quickthoughts import Floor
from debiased_contrastive.text.run import text_of, trained_towers
from debiased_contrastive.text.settings import TextObjective, TextSettings
from debiased_contrastive.training.fit import fabric_of, same_run
from debiased_contrastive.training.memory import keep_freed_memory
from debiased_contrastive.training.settings import as_json

FLOORS: tuple[Floor, ...] = ("zero", "small", "relative", "biased")
"""Of raw products."""
LOGGED = ("step", "epoch", "loss", "biased_loss", "floored", "tau_cap_median")


def grid(seeds: int) -> Iterator[tuple[str, TextSettings]]:
    """Name and settings of every run."""
    preset = TEXT_PRESETS["quickthoughts-small"].settings
    base = replace(preset, training=replace(preset.training, epochs=20, log_every=15))
    for seed in range(seeds):
        yield f"biased-seed{seed}", replace(base, seed=seed, objective=TextObjective("biased"))
        for floor in FLOORS:
            yield f"floor-{floor}-seed{seed}", replace(base, seed=seed, objective=TextObjective(floor=floor))


def result_of(settings: TextSettings, folder: Path) -> dict[str, Any]:
    """Train one run, from wherever it stands."""
    run = same_run(folder, settings)
    for _ in trained_towers(settings, run, fabric_of(settings.training), text_of(settings)):
        pass
    course = [{key: line[key] for key in LOGGED} for line in run.metrics()]
    return {"settings": as_json(settings), "course": course}


def main() -> None:
    """Run what is missing of the grid."""
    arguments = grid_parser(__doc__, "build/floors").parse_args()
    torch.set_num_threads(arguments.threads)
    keep_freed_memory()
    items = shared(grid(arguments.seeds), arguments.share)
    fill(((name, partial(result_of, settings, arguments.runs / name)) for name, settings in items), arguments.out)


if __name__ == "__main__":
    main()
