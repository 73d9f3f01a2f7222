"""Figure 4a: accuracy against the number of negatives for several tau_plus, M = 1 (CIFAR10).

At t = 0.5, as published, and where theory expects M = 1 to act: at t = 0.1 with small batches and
tau_plus = 1 / (N + 1), which is the decoupled loss wherever the floor is not reached.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from debiased_contrastive.images.settings import SimCLRSettings
from debiased_contrastive.report.numbers import mean_and_interval
from debiased_contrastive.reproduce.item import Claim, Item, Request, ScaleName, with_request
from debiased_contrastive.reproduce.results import read_percent, read_results
from debiased_contrastive.reproduce.runner import Job, grid
from debiased_contrastive.reproduce.simclr_rows import LEGEND, SCALES, measure, percent, probe_table, with_objective


class Grid(NamedTuple):
    """Which rows there are."""

    batches: tuple[int, ...]
    tau_plus: tuple[float, ...]
    cold_batches: tuple[int, ...]
    """Batches that are trained at the low temperature, too."""
    chosen: int
    """The batch of the claims."""


WARM, COLD = 0.5, 0.1
"""The paper's temperature, and one at which the sizes of gradients differ between anchors."""
_SMALL = Grid((32, 128, 256), (0.1, 0.2), (32, 256), 256)
GRIDS: dict[ScaleName, Grid] = {
    "smoke": Grid((20, 40), (0.1, 0.2), (20,), 40),
    "small": _SMALL,
    "paper": _SMALL._replace(tau_plus=(0.05, 0.1)),
}
"""The published values of N and tau_plus are in a picture alone; these cover what it shows."""
_KINDS = {
    "biased": "biased",
    "unbiased": "unbiased, all labels",
    "decoupling": "tau_plus 1 / (N + 1), capped",
    "decoupled": "biased and decoupled",
}


def make_rows(base: SimCLRSettings, rows: Grid) -> dict[str, SimCLRSettings]:
    """Every batch at the paper's temperature, and some at the low one."""
    found: dict[str, SimCLRSettings] = {}
    for batch in rows.batches:
        sized = replace(base, training=replace(base.training, batch=batch))
        warm: dict[str, Any] = {"biased": {"kind": "biased"}, "unbiased": {"kind": "unbiased"}}
        warm |= {f"tau{tau}": {"kind": "debiased", "tau_plus": tau} for tau in rows.tau_plus}
        found |= {_name(batch, WARM, kind): with_objective(sized, **new) for kind, new in warm.items()}
        if batch in rows.cold_batches:
            one = {"kind": "debiased", "tau_plus": 1 / (2 * batch - 1), "on_floor": "cap_tau"}
            cold: dict[str, Any] = {
                "biased": {"kind": "biased"},
                "decoupling": one,
                # The control: if it gains as much, what gains is decoupling.
                "decoupled": {"kind": "biased", "decoupled": True},
                "unbiased": {"kind": "unbiased"},
            }
            found |= {
                _name(batch, COLD, kind): with_objective(sized, temperature=COLD, **new)
                for kind, new in cold.items()
            }
    return found


def _name(batch: int, temperature: float, kind: str) -> str:
    return f"batch{batch}-t{temperature}-{kind}"


def make_jobs(request: Request) -> Iterator[Job]:
    base = with_request(SCALES[request.scale].settings, request)
    return grid(make_rows(base, GRIDS[request.scale]), request.seeds, "images", measure)


def markdown(folder: Path) -> str:
    """A table for each batch and temperature: differences are between runs that share both."""
    found: dict[tuple[int, float], list[str]] = {}
    for name in read_results(folder):
        size, cold, kind = name.removeprefix("batch").split("-")
        found.setdefault((int(size), float(cold[1:])), []).append(kind)
    tables = []
    for batch, temperature in sorted(found, key=lambda key: (-key[1], key[0])):
        kinds = sorted(found[batch, temperature], key=lambda kind: (kind == "unbiased", kind != "biased", kind))
        labels = {_name(batch, temperature, kind): _label(kind) for kind in kinds}
        base = _name(batch, temperature, "biased")
        tables.append(
            f"batch {batch}, N = {2 * (batch - 1)}, t = {temperature}\n\n{probe_table(folder, labels, base=base)}"
        )
    return "\n".join(tables)


def _label(kind: str) -> str:
    return _KINDS.get(kind) or f"debiased, tau_plus {kind.removeprefix('tau')}"


def plot(folder: Path) -> Mapping[str, str]:
    """Linear accuracy against N, a line for each objective, as the paper draws it."""
    from debiased_contrastive.report.plots import BIASED, DEBIASED, OTHER, UNBIASED, axes, own_style, svg_file

    results, lines = read_results(folder), dict[str, dict[int, list[float]]]()
    for name, runs in results.items():
        batch, temperature, kind = name.removeprefix("batch").split("-")
        if temperature == f"t{WARM}":
            lines.setdefault(kind, {})[2 * (int(batch) - 1)] = list(read_percent(runs, "linear_top1").values())
    colours = {"biased": BIASED, "unbiased": UNBIASED}
    with own_style():
        ax = axes(6.4, 3.6)
        for place, (kind, found) in enumerate(sorted(lines.items())):
            sizes = sorted(found)
            means, widths = zip(*(mean_and_interval(found[n]) for n in sizes), strict=True)
            colour = colours.get(kind) or (*DEBIASED, OTHER)[place % 5]
            ax.errorbar(sizes, means, widths, color=colour, marker="o", capsize=3, label=_label(kind))
        ax.set(xlabel="N", ylabel="linear accuracy, %", xscale="log", title=f"t = {WARM}")
        ax.legend(frameon=False)
        return {"figure4a": svg_file(ax, "figure4a")}


def _claims() -> tuple[Claim, ...]:
    """What the figure says at its largest batch, and the question whether another regime shows more."""
    small = GRIDS["small"]
    top, cold, value = small.chosen, small.cold_batches[0], percent("linear_top1")
    return (
        Claim(
            f"The debiased loss with tau_plus 0.1 beats the biased one (batch {top}, t = {WARM})",
            _name(top, WARM, "tau0.1"), _name(top, WARM, "biased"), value,
        ),
        *(
            Claim(
                f"At t = {COLD} and batch {batch}, tau_plus = 1 / (N + 1) beats the biased loss",
                _name(batch, COLD, "decoupling"), _name(batch, COLD, "biased"), value, is_published=False,
            )
            for batch in (cold, top)
        ),
    )  # fmt: skip


ITEM = Item(
    "figure4a",
    "Figure 4a: number of negatives and tau_plus, M = 1 (CIFAR10)",
    SCALES,
    make_jobs,
    (markdown,),
    _claims(),
    plot,
    note=f"The paper shows this figure without numbers.\n{LEGEND}",
)
