"""Run directories to one page that needs nothing but itself: no script, no file beside it, no network."""

from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

from debiased_contrastive.files import write_atomically
from debiased_contrastive.report.course import course
from debiased_contrastive.report.group import grouped
from debiased_contrastive.report.markup import paragraph, text
from debiased_contrastive.report.origin import origin
from debiased_contrastive.report.palette import strokes
from debiased_contrastive.report.plane import plane
from debiased_contrastive.report.record import read_records
from debiased_contrastive.report.result import embeddings, results
from debiased_contrastive.report.summary import summary
from debiased_contrastive.report.table import summarised
from debiased_contrastive.runs import Run

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
"""Whatever a run may have written into a name, the browser loads and runs nothing."""


def write_report(runs: Sequence[Run], out: Path, *, title: str) -> None:
    """Write the report of these runs, in one step, to the file `out`."""
    write_atomically(out, page(runs, title=title))


def page(runs: Sequence[Run], *, title: str) -> str:
    """The report as HTML; the same runs always give the same bytes."""
    records, left_out = read_records(runs)
    rows = summarised(grouped(records))
    what, found = summary(rows)
    looks = strokes([row.group for row in rows])
    style = files("debiased_contrastive.report").joinpath("page.css").read_text(encoding="utf-8")
    parts = (
        results(rows, looks),
        embeddings(rows, looks),
        course(rows, looks),
        plane(rows),
        origin(rows, left_out),
    )
    body = "\n".join(filter(None, parts))
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<title>{text(title)}</title>
<style>
{style}</style>
</head>
<body>
<header>
<h1>{text(title)}</h1>
{paragraph(what, "what")}
{paragraph(found, "lead")}
</header>
<main>
{body}
</main>
</body>
</html>
"""
