"""How far the contrast moves an agent's encoder beside the critics, whatever share of its queries is on the floor.

    python -m studies.control_steps RUNS --out results/control/steps-TASK.json

RUNS is a folder of runs of `reproduce.table3`. Adam divides a gradient by its own length, so a loss that is
nearly 0 may still move weights; how far, its optimiser knows, and every checkpoint holds that.
"""

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from torch import Tensor

from debiased_contrastive.files import write_atomically
from debiased_contrastive.reproduce.runner import table
from debiased_contrastive.reproduce.table3_table import LABELS
from debiased_contrastive.training.checkpoint import load_whole

LOSSES = {"encoder": "contrast", "critic": "critics"}
"""What moves the encoder, by the name of its optimiser."""


def steps_of(state: Mapping[str, Any]) -> dict[str, float]:
    """Mean absolute length of the step that each loss's optimiser stands at, on the weights of the encoder."""
    weights = sum(name.startswith("eyes.") for name in state["module"])
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
    """What Adam subtracted from a weight when it was last asked."""
    mean, square, count = state["exp_avg"], state["exp_avg_sq"], float(state["step"])
    mean = mean / (1 - group["betas"][0] ** count)
    square = square / (1 - group["betas"][1] ** count)
    step: Tensor = group["lr"] * mean / (square.sqrt() + group["eps"])
    return step


def measured(folder: Path) -> list[dict[str, Any]]:
    """Of every checkpoint of the runs in a folder that has a contrast."""
    rows = []
    for path in sorted(folder.glob("*/checkpoint-*.pt")):
        state = load_whole(path)
        steps = steps_of(state)
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
    return table(["objective", "by the contrast", "by the critics", "ratio", "checkpoints"], lines)


def main() -> None:
    """Read checkpoints, write a file, show the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    rows = measured(arguments.runs)
    write_atomically(arguments.out, json.dumps(rows, indent=1) + "\n")
    print(markdown(rows), end="")


if __name__ == "__main__":
    main()
