"""The first run in control: an agent that learns to balance a pole from pixels."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from debiased_contrastive.control.presets import CONTROL_PRESETS
from debiased_contrastive.control.settings import ControlSettings, settled
from debiased_contrastive.runs import Run
from debiased_contrastive.training.fit import same_run


def demo_runs(folder: Path, seeds: int) -> Iterator[tuple[Run, ControlSettings]]:
    """A run for each seed, new or as far as it came before."""
    for seed in range(seeds):
        settings = replace(demo_settings(), seed=seed)
        yield same_run(folder / f"{settings.objective.kind}-seed{seed}", settings), settings


def demo_settings() -> ControlSettings:
    """Of a task in which the pole stands at the start, of which minutes teach the beginning."""
    preset = CONTROL_PRESETS["curl"].settings
    training = replace(preset.training, frames=32_000, random_steps=500, evaluate_every=500, episodes=3)
    return settled(replace(preset, task="cartpole-balance", training=training))
