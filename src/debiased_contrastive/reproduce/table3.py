"""Table 3: no contrast, the biased and the debiased one in an agent that learns from pixels.

`--task` names a task of the DeepMind control suite; results go to a folder of it. `--frames 80000` is half as long.
"""

from collections.abc import Iterator, Mapping
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
from debiased_contrastive.reproduce.item import Claim, Item, Request, Scale
from debiased_contrastive.reproduce.results import Seeds, cells_by_part, curve_points, read_results, shorten
from debiased_contrastive.reproduce.runner import Job, grid
from debiased_contrastive.runs import Run

SMALL = CONTROL_PRESETS["curl"].settings
SMOKE = replace(
    SMALL,
    camera=replace(SMALL.camera, size=16, crop=16, smooth=1),
    agent=replace(SMALL.agent, filters=4, hidden_dim=16),
    training=replace(
        SMALL.training, frames=2000, repeat=50, batch=8, random_steps=20, episodes=1, capacity=1000, log_every=5
    ),
)
SCALES: dict[Any, Scale] = {
    "smoke": Scale("cartpole-swingup from 16 pixels, 40 steps", "8 s", SMOKE, seeds=1),
    "small": Scale("a task from 48 pixels, small networks, 160,000 frames", "10 min on a core", SMALL),
    "paper": Scale(
        "a task from 100 pixels, CURL's networks, 100,000 steps", "a time that --first-step tells",
        CONTROL_PRESETS["curl-dcl-paper"].settings,
    ),
}  # fmt: skip
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
    return {"course": shorten(lines, LOGGED, points=len(lines))}


def returns_markdown(folder: Path) -> str:
    """One row for each objective: the return at the end, as the paper gives it, with its gain on biased."""
    final = {
        name: {seed: _final_return(run) for seed, run in runs.items()} for name, runs in _results(folder).items()
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
        [f"{LABELS[name]}: {key}", *cells_by_part(runs, key, 5, form)]
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
    from debiased_contrastive.report.plots import BIASED, DEBIASED, OTHER, axes, own_style, svg_file

    colours = {"none": OTHER, "biased": BIASED, "tau-0.1-M1": DEBIASED[0], "tau-0.1-M2": DEBIASED[2]}
    with own_style():
        ax = axes(6.4, 3.6)
        for name, runs in _results(folder).items():
            curves = [dict(curve_points(run["course"], key)) for run in runs.values()]
            places = sorted(set.intersection(*map(set, curves)))
            if not places:
                continue
            at, colour = [[curve[place] for curve in curves] for place in places], colours[name]
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


def _jobs(request: Request) -> Iterator[Job]:
    base = SCALES[request.scale].settings
    frames = base.training.frames if request.frames is None else request.frames
    try:
        settings = for_task(base, request.task or base.task, frames)
    except ValueError as error:
        raise error if request.frames is None else ValueError(f"--frames {frames} does not suit: {error}") from None
    return make_jobs(settings, request.seeds)


def _final_return(run: Mapping[str, Any]) -> float:
    return curve_points(run["course"], "return")[-1][1]


ITEM = Item(
    "table3",
    "Table 3: agents that learn from pixels (DeepMind control suite)",
    SCALES,
    _jobs,
    (returns_markdown, floors_markdown, time_markdown),
    (
        Claim(
            "M = 2 with tau_plus 0.1 beats the biased contrast", "tau-0.1-M2", "biased", _final_return,
            what="return", unit="",
        ),
    ),
    plot,
    folders={"small": "control"},
)  # fmt: skip
