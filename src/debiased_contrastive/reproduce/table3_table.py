"""The results of `reproduce.table3`, in the form of the paper's Table 3, as tables and curves.

python -m debiased_contrastive.reproduce.table3_table results/control/cartpole-swingup
"""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, NamedTuple

from debiased_contrastive.files import write_atomically
from debiased_contrastive.paper import published
from debiased_contrastive.report.drawing import axes, own_style, svg_file
from debiased_contrastive.report.palette import BIASED, DEBIASED, OTHER
from debiased_contrastive.reproduce.runner import fifths, gains, logged, read_results, shown, table

LABELS = {
    "none": "without contrast",
    "biased": "biased",
    "tau-0.1-M1": "tau_plus 0.1, M = 1",
    "tau-0.1-M2": "tau_plus 0.1, M = 2",
}
COLOURS = dict(zip(LABELS, (OTHER, BIASED, DEBIASED[0], DEBIASED[2]), strict=True))
PARTS = ("render", "simulate", "act", "draw", "update")
PLOTS = {"return": "return", "contrast_loss": "contrastive loss", "floored": "share of the queries on the floor"}


class Seeds(NamedTuple):
    """One setting of the grid."""

    name: str
    runs: Mapping[int, dict[str, Any]]

    def final(self) -> dict[int, float]:
        """By seed, the return of the last evaluation."""
        return {seed: logged(run["course"], "return")[-1][1] for seed, run in self.runs.items()}


def returns_markdown(folder: Path) -> str:
    """One row for each setting: the return at the end, as the paper gives it, with its gain on biased."""
    settings = _settings(folder)
    biased = next(one for one in settings if one.name == "biased").final()
    lines = []
    for one in settings:
        final = one.final()
        objective = next(iter(one.runs.values()))["settings"]["objective"]
        paper = published(
            folder.name,
            objective["kind"],
            tau_plus=objective["tau_plus"],
            num_positives=objective["num_positives"],
            measure="return",
        )
        lines.append([
            LABELS[one.name],
            f"{fmean(final.values()):.0f} ± {stdev(final.values()):.0f}" if len(final) > 1 else "-",
            ", ".join(f"{value:.0f}" for value in final.values()),
            shown(gains(final, biased), "+") if one.name != "biased" else "",
            "-" if paper is None else f"{paper:.0f}",
        ])  # fmt: skip
    return table(
        ["objective", "return, mean ± deviation", "by seed", "gain on biased, 95 % interval", "paper"], lines
    )


def floors_markdown(folder: Path) -> str:
    """Contrastive loss, share of the queries on the floor and tau_cap, in each fifth of the training."""
    lines = []
    for one in _settings(folder):
        if one.name == "none":
            continue
        for key, form in (("contrast_loss", "{:.2f}"), ("floored", "{:.1%}"), ("tau_cap_median", "{:.1e}")):
            by_run = zip(*(fifths(run["course"], key) for run in one.runs.values()), strict=True)
            lines.append([f"{LABELS[one.name]}: {key}", *(form.format(fmean(fifth)) for fifth in by_run)])
    return table(["", *(f"{20 * k} %" for k in range(1, 6))], lines)


def time_markdown(folder: Path) -> str:
    """Steps a second, and shares of the time of training; all but act and update is not the networks' own."""
    lines = []
    for one in _settings(folder):
        courses = [line for run in one.runs.values() for line in run["course"] if "update" in line["seconds"]]
        spent = {part: sum(line["seconds"][part] for line in courses) for part in PARTS}
        whole = sum(line["seconds"]["whole"] for line in courses)
        steps = sum(line["seconds"]["whole"] * line["steps_per_second"] for line in courses)
        rest = whole - sum(spent.values())
        shares = [f"{value / whole:.1%}" for value in (*spent.values(), rest)]
        others = 1 - (spent["act"] + spent["update"]) / whole
        lines.append([LABELS[one.name], f"{steps / whole:.1f}", *shares, f"{others:.1%}"])
    return table(["objective", "steps/s", *PARTS, "rest", "not the networks'"], lines)


def curves(folder: Path) -> dict[str, str]:
    """Pictures by name: means over seeds, with bands from the smallest to the largest."""
    return {name: _picture(folder, name, what) for name, what in PLOTS.items()}


def _picture(folder: Path, key: str, what: str) -> str:
    with own_style():
        ax = axes(6.4, 3.6)
        for one in _settings(folder):
            courses = [dict(logged(run["course"], key)) for run in one.runs.values()]
            places = sorted(set.intersection(*map(set, courses)))
            if not places:
                continue
            at = [[course[place] for course in courses] for place in places]
            colour = COLOURS[one.name]
            ax.fill_between(places, list(map(min, at)), list(map(max, at)), color=colour, alpha=0.16, linewidth=0)
            ax.plot(places, list(map(fmean, at)), color=colour, label=LABELS[one.name])
        ax.set(xlabel="steps of the agent", ylabel=what, title=folder.name)
        ax.legend(frameon=False)
        return svg_file(ax, key)


def _settings(folder: Path) -> list[Seeds]:
    results = read_results(folder, "biased")
    common = [
        {key: value for key, value in run["settings"].items() if key not in ("seed", "objective")}
        for runs in results.values()
        for run in runs.values()
    ]
    if any(one != common[0] for one in common):
        raise ValueError(f"runs in {folder} must differ in seed and objective alone: keep others in another folder")
    return [Seeds(name, results[name]) for name in LABELS if name in results]


TABLES: tuple[Callable[[Path], str], ...] = (returns_markdown, floors_markdown, time_markdown)

if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m debiased_contrastive.reproduce.table3_table FOLDER")
    found = Path(sys.argv[1])
    print("\n".join(made(found) for made in TABLES), end="")
    for name, picture in curves(found).items():
        write_atomically(found / f"{name}.svg", picture)
