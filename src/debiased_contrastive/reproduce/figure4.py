"""How much of the gap between the biased and the unbiased loss each correction closes (Figures 2 and 4).

    python -m debiased_contrastive.reproduce.figure4 --preset cifar10-small --out results/cifar10_small

Every run's numbers go to one file of `--out`; a run whose file is there is skipped, one that was cut off is
resumed, so the same command, given again, finishes the grid. `--share 0/2` and `--share 1/2` split it over
two processes.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from debiased_contrastive.evaluation.prior import effective_prior
from debiased_contrastive.images.evaluate import evaluated
from debiased_contrastive.images.folder import FolderImages
from debiased_contrastive.images.images import Images
from debiased_contrastive.images.networks import method_of
from debiased_contrastive.images.presets import PRESETS
from debiased_contrastive.images.run import checked_images, trained
from debiased_contrastive.images.settings import Objective, Settings
from debiased_contrastive.images.simclr import SimCLR
from debiased_contrastive.numerics import generator_of
from debiased_contrastive.report.measure import values
from debiased_contrastive.report.record import read_records
from debiased_contrastive.reproduce.runner import fill, grid_parser, shared
from debiased_contrastive.runs import Run
from debiased_contrastive.training.checkpoint import latest_checkpoint
from debiased_contrastive.training.fit import fabric_of, same_run
from debiased_contrastive.training.memory import keep_freed_memory

ANCHORS = 2000
"""Training images whose effective prior is measured."""


def objectives(tau_plus: float) -> dict[str, Objective]:
    """The rows of the table: priors up to the true one, more views, true positives of few or all labels."""
    debiased = Objective("debiased", tau_plus=tau_plus)
    return {
        "biased": Objective("biased"),
        "unbiased": Objective("unbiased"),
        **{f"tau-{tau}": replace(debiased, tau_plus=tau) for tau in (tau_plus / 4, tau_plus / 2, tau_plus)},
        "auto": replace(debiased, auto=True),
        **{f"labels-{known}": replace(debiased, known_labels=known) for known in (1.0, 0.1, 0.01)},
        **{f"views-{m}": replace(debiased, num_positives=m) for m in (2, 4)},
    }


def grid(base: Settings, seeds: int) -> Iterator[tuple[str, Settings]]:
    """Name and settings of every run; whole seeds first, so that a part of it is already a table."""
    for seed in range(seeds):
        for name, objective in objectives(base.objective.tau_plus).items():
            yield f"{name}-seed{seed}", replace(base, seed=seed, objective=objective)


def result_of(settings: Settings, folder: Path) -> dict[str, Any]:
    """Train and evaluate one run of the grid, from wherever it stands."""
    run = same_run(folder, settings)
    fabric = fabric_of(settings.training)
    images = checked_images(settings, fabric)
    for update in trained(settings, run, fabric, images):
        if update.step % 100 == 0:
            print(f"{folder.name} {update.step}/{update.steps} loss {float(update.loss):.3f}", flush=True)
    evaluated(run)
    (record,), _ = read_records([run])
    return {
        "settings": run.settings,
        "measures": {**values(record), "tau_effective": _tau_effective(settings, run, images)},
        "knn": {str(line["step"]): line["knn"] for line in record.metrics if "knn" in line},
        **{key: run.environment[key] for key in ("revision", "modified", "versions")},
    }


def _tau_effective(settings: Settings, run: Run, images: Images | FolderImages) -> float:
    """The effective prior of what the loss saw: two views of training images, through the projector."""
    state, _ = latest_checkpoint(run.folder)
    assert state is not None
    assert images.labels is not None
    method = method_of(settings, gather=False)
    assert isinstance(method, SimCLR)
    method.load_state_dict(state["module"])
    generator = generator_of(settings.seed, "effective prior")
    chosen = torch.randperm(len(images), generator=generator)[:ANCHORS]
    with torch.no_grad():
        views = settings.views(images.batch(chosen), 2, generator)
        z0, z1 = (method.eval().projector(method.encoder(view)) for view in views)
    return effective_prior(z0, z1, images.labels[chosen], settings.objective.temperature)


def main() -> None:
    """Run what is missing of the grid."""
    parser = grid_parser(__doc__, "build/gap")
    parser.add_argument("--preset", default="cifar10-small", choices=PRESETS)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    keep_freed_memory()
    items = shared(grid(PRESETS[arguments.preset].settings, arguments.seeds), arguments.share)
    fill(((name, partial(result_of, settings, arguments.runs / name)) for name, settings in items), arguments.out)


if __name__ == "__main__":
    main()
