"""Run directories to one page that needs nothing but itself: no script, no file beside it, no network."""

from collections.abc import Sequence
from pathlib import Path

from debiased_contrastive.files import write_atomically
from debiased_contrastive.report.course import course
from debiased_contrastive.report.frame import document
from debiased_contrastive.report.group import grouped
from debiased_contrastive.report.origin import origin
from debiased_contrastive.report.palette import strokes
from debiased_contrastive.report.plane import plane
from debiased_contrastive.report.record import read_records
from debiased_contrastive.report.result import embeddings, results
from debiased_contrastive.report.strip import strips
from debiased_contrastive.report.summary import summary
from debiased_contrastive.report.table import summarised
from debiased_contrastive.runs import Run


def write_report(runs: Sequence[Run], out: Path, *, title: str) -> None:
    """Write the report of these runs, in one step, to the file `out`."""
    content = page(runs, title=title)
    out.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(out, content)


def page(runs: Sequence[Run], *, title: str) -> str:
    """The report as HTML; the same runs always give the same bytes."""
    records, left_out = read_records(runs)
    rows = summarised(grouped(records))
    what, found = summary(rows)
    looks = strokes([row.group for row in rows])
    parts = (
        results(rows, looks),
        embeddings(rows, looks),
        course(rows, looks),
        plane(rows),
        strips(rows),
        origin(rows, left_out),
    )
    return document(title, what, found, "\n".join(filter(None, parts)))
