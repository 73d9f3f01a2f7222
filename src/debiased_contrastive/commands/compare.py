"""Runs beside each other in the terminal."""

from collections.abc import Sequence

from debiased_contrastive.report.measure import ACCURACIES
from debiased_contrastive.report.number import interval
from debiased_contrastive.report.table import has_unbiased, rows
from debiased_contrastive.runs import Run
from debiased_contrastive.terminal import table


def compare(runs: Sequence[Run]) -> None:
    """The accuracies of the page, in the terminal."""
    found = rows(runs)
    shown = [metric for metric in ACCURACIES if any(metric.key in row.measures for row in found)]
    gap = ["gap closed"] if has_unbiased(found) else []
    header = ["objective", *(metric.heading for metric in shown), *gap, "seeds"]
    lines = []
    for row in found:
        accuracies = [interval(row.measures[metric.key]) if metric.key in row.measures else "-" for metric in shown]
        closed = "-" if row.gap_closed is None else f"{100 * row.gap_closed:.0f} %"
        lines.append([row.label, *accuracies, *([closed] if gap else []), str(row.seeds)])
    table("Accuracy in percent, mean ± 95 % interval over seeds", header, lines)
