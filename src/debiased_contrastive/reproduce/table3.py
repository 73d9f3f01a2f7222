"""Table 3: no contrast, the biased and the debiased one in an agent that learns from pixels.

    python -m debiased_contrastive.reproduce table3 --task cartpole-swingup --out results/control
    python -m debiased_contrastive.reproduce table3 --tables results/control/cartpole-swingup

Results go to a folder of the task, and `--tables` draws their curves there. `--frames 80000` is half as long.
"""

from argparse import Namespace
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from debiased_contrastive.control.settings import (
    CONTROL_PRESETS,
    ControlObjective,
    ControlSettings,
    with_task_defaults,
)
from debiased_contrastive.paper import published_number
from debiased_contrastive.report.numbers import markdown_table, mean_cell, paired_differences
from debiased_contrastive.report.plots import BIASED, DEBIASED, OTHER, axes, own_style, svg_file
from debiased_contrastive.reproduce import runner
from debiased_contrastive.reproduce.runner import Job, Seeds, Study, grid, read_results
from debiased_contrastive.runs import Run

SCALES = {"small": CONTROL_PRESETS["curl"].settings, "paper": CONTROL_PRESETS["curl-dcl-paper"].settings}
OBJECTIVES = {
    "none": ControlObjective("none"),
    "biased": ControlObjective("biased"),
    "tau-0.1-M1": ControlObjective("debiased", tau_plus=0.1),
    "tau-0.1-M2": ControlObjective("debiased", tau_plus=0.1, num_positives=2),
}
LABELS = {
    "none": "without contrast",
    "biased": "biased",
    "tau-0.1-M1": "tau_plus 0.1, M = 1",
    "tau-0.1-M2": "tau_plus 0.1, M = 2",
}
COLOURS = {"none": OTHER, "biased": BIASED, "tau-0.1-M1": DEBIASED[0], "tau-0.1-M2": DEBIASED[2]}
EVALUATIONS = 8
CURVE_STEPS = 250
"""Steps between two lines of a curve in a result; returns are all there."""
LOGGED = (
    "step", "frames", "episode", "training_return", "critic_loss", "actor_loss", "entropy", "alpha",
    "contrast_loss", "floored", "tau_cap_median", "steps_per_second", "seconds", "return", "returns",
)  # fmt: skip
PARTS = ("render", "simulate", "act", "draw", "update")
PLOTS = {"return": "return", "contrast_loss": "contrastive loss", "floored": "share of the queries on the floor"}


def make_jobs(base: ControlSettings, seeds: int) -> Iterator[Job]:
    """Every objective with every seed, in a folder of the task."""
    rows = {f"{base.task}/{name}": replace(base, objective=objective) for name, objective in OBJECTIVES.items()}
    return grid(rows, seeds, "control", measure)


def for_task(base: ControlSettings, task: str, frames: int) -> ControlSettings:
    """The settings on a task, evaluated equally often however long they are."""
    base = with_task_defaults(replace(base, task=task, training=replace(base.training, frames=frames)))
    every = max(1, frames // (base.training.repeat or 1) // EVALUATIONS)
    return replace(base, training=replace(base.training, evaluate_every=every))


def measure(_settings: ControlSettings, run: Run, _data: None) -> dict[str, Any]:
    """The curves; means are over the steps since the previous line of the log."""
    lines = [line for line in run.metrics() if line["step"] % CURVE_STEPS == 0 or "return" in line]
    return {"course": runner.shorten(lines, LOGGED, points=len(lines))}


def returns_markdown(folder: Path) -> str:
    """One row for each objective: the return at the end, as the paper gives it, with its gain on biased."""
    final = {
        name: {seed: runner.curve_points(run["course"], "return")[-1][1] for seed, run in runs.items()}
        for name, runs in _results(folder).items()
    }
    lines = []
    for name, own in final.items():
        deviation = f"{fmean(own.values()):.0f} ± {stdev(own.values()):.0f}" if len(own) > 1 else "-"
        gains = "" if name == "biased" else mean_cell(paired_differences(own, final["biased"]), "+")
        objective = OBJECTIVES[name]
        paper = published_number(
            folder.name, objective.kind, tau_plus=objective.tau_plus,
            num_positives=objective.num_positives, measure="return",
        )  # fmt: skip
        by_seed = ", ".join(f"{value:.0f}" for value in own.values())
        lines.append([LABELS[name], deviation, by_seed, gains, "-" if paper is None else f"{paper:.0f}"])
    header = ["objective", "return, mean ± deviation", "by seed", "gain on biased, 95 % interval", "paper"]
    return markdown_table(header, lines)


def floors_markdown(folder: Path) -> str:
    """Contrastive loss, share of the queries on the floor and tau_cap, in each fifth of the training."""
    forms = {"contrast_loss": "{:.2f}", "floored": "{:.1%}", "tau_cap_median": "{:.1e}"}
    lines = [
        [f"{LABELS[name]}: {key}", *runner.cells_by_part(runs, key, 5, form)]
        for name, runs in _results(folder).items()
        for key, form in forms.items()
        if name != "none"
    ]
    return markdown_table(["", *(f"{20 * k} %" for k in range(1, 6))], lines)


def time_markdown(folder: Path) -> str:
    """Steps a second, and shares of the training time; only act and update are work of the networks."""
    lines = []
    for name, runs in _results(folder).items():
        curve = [line for run in runs.values() for line in run["course"] if "update" in line["seconds"]]
        spent = {part: sum(line["seconds"][part] for line in curve) for part in PARTS}
        whole = sum(line["seconds"]["whole"] for line in curve)
        steps = sum(line["seconds"]["whole"] * line["steps_per_second"] for line in curve)
        others = 1 - (spent["act"] + spent["update"]) / whole
        shares = [f"{value / whole:.1%}" for value in (*spent.values(), whole - sum(spent.values()))]
        lines.append([LABELS[name], f"{steps / whole:.1f}", *shares, f"{others:.1%}"])
    return markdown_table(["objective", "steps/s", *PARTS, "rest", "not the networks'"], lines)


def plot(folder: Path) -> dict[str, str]:
    """Learning curves by name: means over seeds, with bands from the smallest to the largest."""
    return {key: _plot(folder, key, what) for key, what in PLOTS.items()}


def _plot(folder: Path, key: str, what: str) -> str:
    with own_style():
        ax = axes(6.4, 3.6)
        for name, runs in _results(folder).items():
            curves = [dict(runner.curve_points(run["course"], key)) for run in runs.values()]
            places = sorted(set.intersection(*map(set, curves)))
            if not places:
                continue
            at, colour = [[curve[place] for curve in curves] for place in places], COLOURS[name]
            ax.fill_between(places, list(map(min, at)), list(map(max, at)), color=colour, alpha=0.16, linewidth=0)
            ax.plot(places, list(map(fmean, at)), color=colour, label=LABELS[name])
        ax.set(xlabel="steps of the agent", ylabel=what, title=folder.name)
        ax.legend(frameon=False)
        return svg_file(ax, key)


def _results(folder: Path) -> dict[str, Seeds]:
    """The results by objective; they must be comparable."""
    results = read_results(folder, "biased")
    common = [
        {key: value for key, value in run["settings"].items() if key not in ("seed", "objective")}
        for runs in results.values()
        for run in runs.values()
    ]
    if any(one != common[0] for one in common):
        raise ValueError(f"runs in {folder} must differ in seed and objective alone: keep others in another folder")
    return {name: results[name] for name in LABELS if name in results}


def _jobs(flags: Namespace) -> Iterator[Job]:
    base = SCALES[flags.scale]
    frames = base.training.frames if flags.frames is None else flags.frames
    return make_jobs(for_task(base, flags.task, frames), flags.seeds)


STUDY = Study(
    jobs=_jobs,
    tables=(returns_markdown, floors_markdown, time_markdown),
    plot=plot,
    scales=SCALES,
    seeds=3,
    flags={
        "task": {"default": "cartpole-swingup", "help": "A task of the DeepMind control suite."},
        "frames": {"type": int, "help": "Simulated frames of each run, instead of the scale's."},
    },
)
