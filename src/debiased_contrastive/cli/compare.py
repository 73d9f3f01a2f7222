"""Runs beside each other in the terminal."""

from collections.abc import Sequence

from debiased_contrastive.cli.terminal import table
from debiased_contrastive.domain import Metric
from debiased_contrastive.report.measure import MAIN_RESULTS
from debiased_contrastive.report.number import interval
from debiased_contrastive.report.result import results_heading
from debiased_contrastive.report.table import Row, has_unbiased, rows
from debiased_contrastive.runs import Run


def compare(runs: Sequence[Run]) -> None:
    """The accuracies and returns of the page, in the terminal."""
    found = rows(runs)
    shown = [metric for metric in MAIN_RESULTS if any(metric.key in row.measures for row in found)]
    gap = ["gap closed"] if has_unbiased(found) else []
    header = ["objective", *(metric.heading for metric in shown), *gap, "seeds"]
    lines = []
    for row in found:
        numbers = [_number(row, metric) for metric in shown]
        closed = "-" if row.gap_closed is None else f"{100 * row.gap_closed:.0f} %"
        lines.append([row.label, *numbers, *([closed] if gap else []), str(row.seeds)])
    table(results_heading(shown)[1] if shown else "Not evaluated", header, lines)


def _number(row: Row, metric: Metric) -> str:
    measure = row.measures.get(metric.key)
    return "-" if measure is None else interval(measure, metric.scale, metric.decimals)
