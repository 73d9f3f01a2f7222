"""What the correction does inside: the floor, the largest safe tau_plus, the one that is needed, and estimates."""

from pathlib import Path
from statistics import fmean
from typing import Any

from debiased_contrastive.files import read_json
from debiased_contrastive.reproduce.results import Seeds, curve_points, read_results
from figures.panel import Line, Panel, Row, row
from studies.auto_tau_plus import read_worlds

WORLDS = {
    "ten": ("ten classes, tight positives", "biased", False),
    "ten-overlapping-near": ("ten classes that overlap, wide positives", "debiased1", False),
    "hundred": ("a hundred classes, tight positives", "debiased2", False),
    "ten-true": ("ten classes, positives of the class", "unbiased", True),
}


def _worlds(folder: Path) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for record in read_worlds(folder / "auto_tau_plus"):
        found.setdefault(record["world"]["name"], []).append(record)
    return found


def floor(folder: Path) -> tuple[Panel, ...]:
    """Anchors on the floor at tau_plus = 1/K, by temperature."""
    worlds = _worlds(folder)
    lines = tuple(
        Line(
            label,
            tuple(record["temperature"] for record in worlds[name]),
            tuple(100 * record["1/K"]["floored"] for record in worlds[name]),
            colour,
            dashed,
        )
        for name, (label, colour, dashed) in WORLDS.items()
    )
    return (Panel(lines, "temperature", "anchors on the floor, % (τ⁺ = 1/K)"),)


def auto(folder: Path) -> tuple[Panel, ...]:
    """How far the loss is from the unbiased one, by temperature."""
    names = {"biased": ("biased", "biased"), "1/K": ("τ⁺ = 1/K", "other"), "auto": ('τ⁺ = "auto"', "debiased0")}
    panels = []
    for world, title in (("ten", "tight positives"), ("ten-true", "positives of the class")):
        records = _worlds(folder)[world]
        lines = tuple(
            Line(
                label,
                tuple(record["temperature"] for record in records),
                tuple(record[name]["loss"] - record["unbiased"]["loss"] for record in records),
                colour,
            )
            for name, (label, colour) in names.items()
        )
        panels.append(Panel(lines, "temperature", "loss - unbiased loss", f"Ten classes, {title}"))
    return tuple(panels)


def mean_line(runs: Seeds, key: str, label: str, colour: str, *, dashed: bool = False) -> Line:
    """The mean over seeds of a logged number, by step."""
    curves = [dict(curve_points(run["course"], key)) for run in runs.values()]
    steps = sorted(set.intersection(*map(set, curves)))
    means = tuple(fmean(curve[step] for curve in curves) for step in steps)
    return Line(label, tuple(map(float, steps)), means, colour, dashed)


def tau_cap(folder: Path) -> tuple[Panel, ...]:
    """The largest safe tau_plus while biased multiview coding trains."""
    runs = read_results(folder / "cmc", "biased")["biased"]
    lines = (
        mean_line(runs, "tau_cap_median", "half of the anchors stay off the floor", "debiased0"),
        mean_line(runs, "tau_cap_low", "95 % of the anchors stay off the floor", "debiased1", dashed=True),
    )
    return (Panel(lines, "step of training", "largest τ⁺", marks=(("1 / 100 classes", 0.01),), log=("y",)),)


def tau_eff(folder: Path) -> tuple[Panel, ...]:
    """The tau_plus that views as positives would need, after training with each objective."""
    results = read_results(folder / "cifar10_small", "biased")
    labels = {
        "biased": "biased",
        "tau-0.1": "debiased, τ⁺ 0.1",
        "tau-0.2": "debiased, τ⁺ 0.2",
        "labels-1.0": "positives by all labels",
        "unbiased": "unbiased",
    }
    rows = tuple(
        row(label, [run["measures"]["tau_effective"] for run in results[name].values()], "debiased0")
        for name, label in labels.items()
    )
    return (Panel(rows, "τ_eff: the τ⁺ that would be right", marks=(("true share", 0.2),)),)


def priors(folder: Path) -> tuple[Panel, ...]:
    """Estimates of tau_plus for ten even classes."""
    panels = []
    for kind, title in (("true", "positives of the class"), ("stand-in", "positives near their anchor")):
        record = read_json(folder / f"priors/{kind}-even-10.json")
        rows = tuple(
            Row(one["method"], one["value"], (one["low"], one["high"]), "biased" if one["warnings"] else "unbiased")
            for one in record["estimates"]
        )
        panels.append(Panel(rows, "estimate of τ⁺", title=title, marks=(("truth", record["truth"]),)))
    return tuple(panels)


def sentence_floors(folder: Path) -> tuple[Panel, ...]:
    """Pairs on the floor, and the biased loss, while a text is learnt by heart."""
    looks = {
        "biased": ("biased loss", "biased"),
        "floor-zero": ("floor 0, as published", "debiased0"),
        "floor-relative": ("floor relative", "debiased1"),
        "floor-biased": ("floor biased", "debiased3"),
    }
    shown = {"floored": "share of pairs on the floor", "biased_loss": "biased loss of all pairs"}
    return _curves(read_results(folder / "sentence_floors", "biased"), looks, shown, "step of training")


def agents_floor(folder: Path) -> tuple[Panel, ...]:
    """Queries on the floor, and the contrastive loss, of agents that learn."""
    looks = {
        "biased": ("biased", "biased"),
        "tau-0.1-M1": ("debiased, M = 1", "debiased0"),
        "tau-0.1-M2": ("debiased, M = 2", "debiased2"),
    }
    shown = {"floored": "share of queries on the floor", "contrast_loss": "contrastive loss"}
    return _curves(read_results(folder / "control/cartpole-swingup", "biased"), looks, shown, "step of the agent")


def _curves(
    results: dict[str, Seeds], looks: dict[str, tuple[str, str]], shown: dict[str, str], x: str
) -> tuple[Panel, ...]:
    """A panel for each logged number, with a line for each row."""
    return tuple(
        Panel(tuple(mean_line(results[name], key, *look) for name, look in looks.items()), x, what)
        for key, what in shown.items()
    )


def bank_order(folder: Path) -> tuple[Panel, ...]:
    """The loss of a memory bank by the order in which images come."""
    results = read_results(folder / "cmc_order", "biased", "epochs")
    lines = (
        mean_line(results["epochs"], "loss", "each image once in an epoch", "biased"),
        mean_line(results["biased"], "loss", "every batch drawn anew", "debiased0"),
    )
    return (Panel(lines, "step of training", "biased loss"),)
