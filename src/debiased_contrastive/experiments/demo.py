"""The first run: the three objectives beside each other on images that come with the package."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from debiased_contrastive.experiments.presets import PRESETS
from debiased_contrastive.experiments.settings import Objective, Settings, as_json
from debiased_contrastive.runs import Run, existing_run, is_run, new_run

OBJECTIVES = (Objective("biased"), Objective("debiased", tau_plus=0.1), Objective("unbiased"))
"""Ten balanced classes: tau_plus is 0.1."""


def demo_runs(folder: Path, seeds: int) -> Iterator[tuple[Run, Settings]]:
    """A run for each seed and objective, new or as far as it came before."""
    for seed in range(seeds):
        for objective in OBJECTIVES:
            settings = replace(PRESETS["demo"].settings, seed=seed, objective=objective)
            yield same_run(folder / f"{objective.kind}-seed{seed}", settings), settings


def same_run(folder: Path, settings: Any) -> Run:
    """The run with these settings in a folder, begun if there is none; one with other settings is an error."""
    if not is_run(folder):
        return new_run(folder, as_json(settings))
    run = existing_run(folder)
    if run.settings != as_json(settings):
        raise ValueError(f"{folder} holds a run with other settings: choose another --out, or remove it")
    return run
