"""How far the contrastive loss moves an agent's encoder, compared with the critics.

    python -m studies.control_steps --runs build/table3/TASK --out results/control
    python -m studies.control_steps --tables results/control

The runs are those of Table 3, with their checkpoints; the result is `steps-TASK.json`. Adam divides a gradient by
its own length, so a loss that is nearly 0 may still move weights. How far, its optimiser knows, and every
checkpoint holds that.
"""

import json
from argparse import Namespace
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from torch import Tensor

from debiased_contrastive.report.numbers import markdown_table
from debiased_contrastive.reproduce.runner import Job
from debiased_contrastive.reproduce.table3 import LABELS
from debiased_contrastive.training.checkpoint import load_whole
from studies.command import Study, main

LOSSES = {"encoder": "contrast", "critic": "critics"}
"""What moves the encoder, by the name of its optimiser."""


def make_jobs(flags: Namespace) -> Iterator[Job]:
    """One file for a folder of runs."""
    yield Job(f"steps-{flags.runs.name}", partial(measure_runs, flags.runs))


def encoder_steps(state: Mapping[str, Any]) -> dict[str, float]:
    """Mean absolute value of the last step of each loss's optimiser on the weights of the encoder."""
    # Earlier versions called the encoder eyes.
    weights = sum(name.startswith(("encoder.", "eyes.")) for name in state["module"])
    found = {}
    for name, loss in LOSSES.items():
        if name in state["optimisers"]:
            optimiser = state["optimisers"][name]
            (group,) = optimiser["param_groups"]
            # The encoder's come first in both.
            steps = [adam_step(optimiser["state"][place], group) for place in range(weights)]
            found[loss] = float(torch.cat([step.flatten() for step in steps]).abs().mean())
    return found


def adam_step(state: Mapping[str, Any], group: Mapping[str, Any]) -> Tensor:
    """What Adam subtracted from a weight in its last step."""
    mean, square, count = state["exp_avg"], state["exp_avg_sq"], float(state["step"])
    mean = mean / (1 - group["betas"][0] ** count)
    square = square / (1 - group["betas"][1] ** count)
    step: Tensor = group["lr"] * mean / (square.sqrt() + group["eps"])
    return step


def measure_runs(folder: Path) -> list[dict[str, Any]]:
    """The steps at every checkpoint of the runs in a folder that have a contrast."""
    rows = []
    for path in sorted(folder.glob("*/checkpoint-*.pt")):
        state = load_whole(path)
        steps = encoder_steps(state)
        if "contrast" in steps:
            name, _, seed = path.parent.name.rpartition("-seed")
            rows.append({"objective": name, "seed": int(seed), "step": int(state["step"]), **steps})
    if not rows:
        raise ValueError(f"{folder} must hold runs with a contrast and their checkpoints; there are none")
    return rows


def markdown(rows: list[dict[str, Any]]) -> str:
    """Means over seeds and checkpoints, for docs/control.md."""
    lines = []
    for name, label in LABELS.items():
        own = [row for row in rows if row["objective"] == name]
        if own:
            contrast, critics = (fmean(row[loss] for row in own) for loss in LOSSES.values())
            lines.append([label, f"{contrast:.1e}", f"{critics:.1e}", f"{contrast / critics:.2f}", str(len(own))])
    return markdown_table(["objective", "by the contrast", "by the critics", "ratio", "checkpoints"], lines)


def tables(folder: Path) -> str:
    """A table for each task."""
    paths = sorted(folder.glob("steps-*.json"))
    return "\n".join(markdown(json.loads(path.read_text(encoding="utf-8"))) for path in paths)


STUDY = Study(make_jobs, (tables,))

if __name__ == "__main__":
    main("studies.control_steps")
