"""The first run: the three objectives beside each other on images that come with the package."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from debiased_contrastive.images.presets import PRESETS
from debiased_contrastive.images.settings import Objective, Settings
from debiased_contrastive.runs import Run
from debiased_contrastive.training.fit import same_run

OBJECTIVES = (Objective("biased"), Objective("debiased", tau_plus=0.1), Objective("unbiased"))
"""Ten balanced classes: tau_plus is 0.1."""


def demo_runs(folder: Path, seeds: int) -> Iterator[tuple[Run, Settings]]:
    """A run for each seed and objective, new or as far as it came before."""
    for seed in range(seeds):
        for objective in OBJECTIVES:
            settings = replace(PRESETS["demo"].settings, seed=seed, objective=objective)
            yield same_run(folder / f"{objective.kind}-seed{seed}", settings), settings
