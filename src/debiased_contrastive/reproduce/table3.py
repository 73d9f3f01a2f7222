"""No contrast, the biased and the debiased one in an agent that learns from pixels (Table 3).

    python -m debiased_contrastive.reproduce.table3 --task cartpole-swingup --out results/control

Every run's numbers go to one file of `--out/TASK`; a run whose file is there is skipped, one that was cut off is
resumed, so the same command, given again, finishes the grid. `--share 0/2` and `--share 1/2` split it over two
processes. `--frames 80000` is half as long.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch

from debiased_contrastive.control.presets import CONTROL_PRESETS
from debiased_contrastive.control.run import trained_agent
from debiased_contrastive.control.settings import ControlObjective, ControlSettings, settled
from debiased_contrastive.reproduce.runner import fill, grid_parser, shared, shortened
from debiased_contrastive.runs import Run
from debiased_contrastive.training.fit import same_run
from debiased_contrastive.training.memory import keep_freed_memory
from debiased_contrastive.training.settings import as_json

OBJECTIVES = {
    "none": ControlObjective("none"),
    "biased": ControlObjective("biased"),
    "tau-0.1-M1": ControlObjective("debiased", tau_plus=0.1),
    "tau-0.1-M2": ControlObjective("debiased", tau_plus=0.1, num_positives=2),
}
EVALUATIONS = 8
EVERY = 250
"""Steps between two points of a course in the results; returns are all there."""
LOGGED = (
    "step", "frames", "episode", "training_return", "critic_loss", "actor_loss", "entropy", "alpha",
    "contrast_loss", "floored", "tau_cap_median", "steps_per_second", "seconds", "return", "returns",
)  # fmt: skip


class Entry(NamedTuple):
    """One run of the grid."""

    name: str
    settings: ControlSettings


def grid(base: ControlSettings, seeds: int) -> Iterator[Entry]:
    """Every run; whole seeds first, so that a part of it is already a table."""
    for seed in range(seeds):
        for name, objective in OBJECTIVES.items():
            yield Entry(f"{name}-seed{seed}", replace(base, seed=seed, objective=objective))


def base_of(task: str, frames: int) -> ControlSettings:
    """What all runs on a task have in common."""
    preset = CONTROL_PRESETS["curl"].settings
    base = settled(replace(preset, task=task, training=replace(preset.training, frames=frames)))
    assert base.training.repeat is not None, "settings must be settled"
    every = max(1, frames // base.training.repeat // EVALUATIONS)
    return replace(base, training=replace(base.training, evaluate_every=every))


def result_of(entry: Entry, runs: Path) -> dict[str, Any]:
    """Train one run of the grid, from wherever it stands."""
    run = same_run(runs / entry.name, entry.settings)
    for stride in trained_agent(entry.settings, run, torch.device("cpu")):
        if stride.step % 500 == 0:
            print(f"{entry.name} {stride.step}/{stride.steps} {stride.said}", flush=True)
    return {
        "settings": as_json(entry.settings),
        "course": course(run),
        **{key: run.environment[key] for key in ("revision", "modified", "versions")},
    }


def course(run: Run) -> list[dict[str, Any]]:
    """Every so many steps what was logged there; means are of the steps since the line before in the log."""
    lines = [line for line in run.metrics() if line["step"] % EVERY == 0 or "return" in line]
    return shortened(lines, LOGGED, points=len(lines))


def main() -> None:
    """Run what is missing of the grid."""
    parser = grid_parser(__doc__, "build/control")
    parser.add_argument("--task", default="cartpole-swingup", help="of the DeepMind control suite")
    preset = CONTROL_PRESETS["curl"].settings.training
    parser.add_argument("--frames", type=int, default=preset.frames, help="of the simulation, in each run")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    keep_freed_memory()
    entries = shared(grid(base_of(arguments.task, arguments.frames), arguments.seeds), arguments.share)
    runs, out = arguments.runs / arguments.task, arguments.out / arguments.task
    fill(((entry.name, partial(result_of, entry, runs)) for entry in entries), out)


if __name__ == "__main__":
    main()
