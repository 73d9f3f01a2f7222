"""The report of run directories: one page that needs no script, no other file and no network."""

import base64
import json
import shlex
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from debiased_contrastive.domain import Domain, Metric
from debiased_contrastive.files import write_atomically
from debiased_contrastive.report import groups, plots
from debiased_contrastive.report.groups import Row
from debiased_contrastive.report.numbers import DASH, GLUE, count, decimal, plain, whole_percent
from debiased_contrastive.report.records import EMBEDDINGS, Cloud, Record, read_records
from debiased_contrastive.report.words import notes_on_results, results_heading, summarise
from debiased_contrastive.runs import STRIP, Run

FLOORED = Metric("floored", "Floored anchors", "Share of anchors whose estimate fell below its floor.")
"""A curve that every domain may log."""

Lines: TypeAlias = Sequence[tuple[Row, plots.Stroke]]
"""Rows with the look of their lines."""
TextTable: TypeAlias = tuple[str, list[tuple[str, str]], list[list[str]]]
"""Caption, headings with their meanings, and rows of cells."""


class Figure(NamedTuple):
    """A picture, drawn by `plots` or read from a file as base64, with its caption."""

    svg: str
    caption: str
    heading: str = ""
    png: str = ""
    alt: str = ""


def write_report(
    runs: Sequence[Run],
    out: Path,
    *,
    title: str,
    domains: Sequence[Domain],
    main: Metric | None = None,
    meaning: str = "",
) -> None:
    """Write the report of these runs, in one step, to the file `out`."""
    content = render_report(runs, title=title, domains=domains, main=main, meaning=meaning)
    out.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(out, content)


def render_report(
    runs: Sequence[Run], *, title: str, domains: Sequence[Domain], main: Metric | None = None, meaning: str = ""
) -> str:
    """The report as HTML; the same runs always give the same bytes.

    It opens with one sentence and one picture, of the number `main` if that was measured; `meaning` says how to
    read them. Runs that cannot be read are named on it; runs of none of the domains are shown as far as they can.
    """
    records, left_out = read_records(runs)
    rows = groups.group_records(records, domains, main)
    present = groups.present_domains(rows, domains)
    lines = list(zip(rows, plots.strokes(rows), strict=True))
    results = groups.result_metrics(rows, domains)
    heading, caption = results_heading(results) if results else ("Accuracy", "")
    clouds = _choose_clouds(rows)
    opening, curves = _draw_intervals(lines, results), _draw_curves(lines, present)
    if len(rows) == 1 and rows[0].main.key in curves:
        # A single dot compares nothing: the course of that number says more.
        opening = [curves.pop(rows[0].main.key)]
    summary = summarise(rows)
    report = {
        "rows": lines,
        "results": results,
        "heading": heading,
        "caption": caption,
        "opening": opening,
        "meaning": meaning,
        "findings": summary.findings,
        "notes": notes_on_results(rows, results, present),
        "has_gap": groups.has_unbiased(rows),
        "has_paper": any(row.paper is not None for row in rows),
        "published": [domain.published_table for domain in present if domain.published_table],
        "embeddings": [metric for metric in EMBEDDINGS if any(metric.key in row.measures for row in rows)],
        "curves": list(curves.values()),
        "legend": [(look, row.label) for row, look in lines],
        "curves_note": _describe_curves(rows, present),
        "clouds": [
            Figure(plots.plot_cloud(cloud, name=f"cloud{place}", label=row.label), f"Seed {seed}.", row.label)
            for place, (row, cloud, seed) in enumerate(clouds)
        ],
        "classes": [
            (plots.class_mark(label), clouds[0][1].class_names[label])
            for label in sorted({label for _, cloud, _ in clouds for label in cloud.labels})
        ],
        "strips": _read_strips(rows, present),
        **_origin(rows, left_out),
    }
    return render(title=title, what=summary.what, lead=summary.headline, report=report)


def render(
    *, title: str, what: str, lead: str, report: dict[str, Any] | None = None, audit: dict[str, Any] | None = None
) -> str:
    """The page of a report or an audit: what it is about and what was found, in words; then its parts."""
    return _template().render(title=title, what=what, lead=lead, report=report, audit=audit)


@cache
def _template() -> Template:
    environment = Environment(
        loader=PackageLoader("debiased_contrastive.report", ""),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
        # The name of a folder may not be valid Unicode, which a page must be.
        finalize=lambda value: value.encode("utf-8", "backslashreplace").decode() if type(value) is str else value,
    )
    environment.filters.update(column=_column, decimal=decimal, glue=_glue, whole_percent=whole_percent)
    environment.globals["dash"] = DASH
    return environment.get_template("page.html.j2")


def _glue(words: str) -> str:
    """The words with spaces in formulas and percentages that no line break may split."""
    return words.replace(" = ", f"{GLUE}={GLUE}").replace(" %", f"{GLUE}%")


def _column(metric: Metric, unit: bool = False) -> tuple[str, str]:
    return f"{metric.heading} (%)" if unit and metric.percent else metric.heading, metric.meaning


def _draw_intervals(lines: Lines, results: Sequence[Metric]) -> list[Figure]:
    """A picture for each quantity."""
    measured = [(row, look) for row, look in lines if row.main.key in row.measures]
    quantities = dict.fromkeys(metric.quantity for metric in results)
    chosen = {name: [line for line in measured if line[0].main.quantity == name] for name in quantities}
    return [
        Figure(*plots.plot_intervals(f"intervals-{name}", *zip(*some, strict=True)))
        for name, some in chosen.items()
        if some
    ]


def _draw_curves(lines: Lines, domains: Sequence[Domain]) -> dict[str, Figure]:
    """A picture for each logged number, by its key."""
    figures = {}
    metrics = {metric.key: metric for domain in domains for metric in domain.curves} | {FLOORED.key: FLOORED}
    for metric in metrics.values():
        # Not every domain knows epochs, so each picture has the axis of those that are in it.
        axis = plots.time_axis((record for row, _ in lines for record in row.records), metric.key)
        means = ((row.label, plots.mean_curve(row.records, metric.key, axis), look) for row, look in lines)
        if curves := [(label, curve, look) for label, curve, look in means if curve]:
            figures[metric.key] = Figure(plots.plot_curves(curves, metric, axis), metric.meaning, metric.heading)
    return figures


def _describe_curves(rows: Sequence[Row], domains: Sequence[Domain]) -> str:
    """What lines and bands are, where there are several seeds, and how fast the runs were."""
    several = any(row.seeds > 1 for row in rows)
    bands = "Lines are means over seeds, bands reach from the smallest seed to the largest."
    sentences = [bands] if several else []
    for unit in dict.fromkeys(domain.unit for domain in domains):
        key = f"{unit}_per_second"
        speeds = [f"{row.label}: {decimal(row.measures[key].mean, 0)}" for row in rows if key in row.measures]
        if speeds:
            what = f"{unit.capitalize()} per second (median of the logged steps)"
            sentences.append(f"{what} {DASH} {'; '.join(speeds)}.")
    return " ".join(sentences)


def _choose_clouds(rows: Sequence[Row]) -> list[tuple[Row, Cloud, str]]:
    """The first seed of the first row of each kind that has a picture (Figure 5)."""
    found: dict[str, tuple[Row, Cloud, str]] = {}
    for row in rows:
        for record in row.records:
            if record.cloud and row.kind in groups.KINDS:
                found.setdefault(row.kind, (row, record.cloud, record.seed))
    chosen = [found[kind] for kind in groups.KINDS if kind in found]
    # Colours stand for classes, so pictures of other classes do not belong beside these.
    return [one for one in chosen if one[1].class_names == chosen[0][1].class_names]


def _read_strips(rows: Sequence[Row], domains: Sequence[Domain]) -> list[tuple[str, str, list[Figure]]]:
    """Heading, note and, for each row that has one, its first strip of pictures."""
    parts = []
    for domain in domains:
        heading, note = domain.strips
        figures = []
        for row in (row for row in rows if row.domain is domain and heading):
            record = next((one for one in row.records if (one.folder / STRIP).is_file()), None)
            if record is not None:
                image = base64.b64encode((record.folder / STRIP).read_bytes()).decode()
                figures.append(Figure("", f"Seed {record.seed}.", row.label, image, f"{heading}: {row.label}"))
        if figures:
            parts.append((heading, note, figures))
    return parts


def _origin(rows: Sequence[Row], left_out: Sequence[str]) -> dict[str, Any]:
    """Settings, environments, commands and folders, from which the runs can be repeated; and what is missing."""
    records = [record for row in rows for record in row.records]
    missing = [f"Left out: {reason}" for reason in left_out]
    for row in rows:
        missing += [fault for record in row.records for fault in record.faults]
        missing += [
            f"Left out: {record.folder} repeats settings and seed of another run, so it is no further evidence."
            for record in row.repeated
        ]
    shared = groups.shared_settings([row.settings for row in rows])
    commands = dict.fromkeys(_command(record.environment.get("command")) for record in records)
    return {
        "missing": missing,
        "tables": [
            ("Settings that tell the rows apart", _table_of_differences(rows)),
            ("Settings that all runs share", _table_of_values("Shared settings", "Setting", shared)),
            ("Environment", _tables_of_environments(records)),
        ],
        "commands": [command for command in commands if command],
        "folders": [str(record.folder) for record in records],
    }


def _table_of_differences(rows: Sequence[Row]) -> list[TextTable]:
    keys = groups.differing_keys([row.settings for row in rows])
    is_upright = len(keys) > len(rows)
    cells = [["Setting" if is_upright else "Objective", *keys]]
    for row in rows:
        settings = groups.row_settings(row.settings)
        cells.append([row.label, *(plain(settings[key]) if key in settings else DASH for key in keys)])
    if is_upright:
        # A page has more room downwards than across.
        cells = [list(column) for column in zip(*cells, strict=True)]
    return [("Settings that differ", [(name, "") for name in cells[0]], cells[1:])] if keys else []


def _table_of_values(caption: str, what: str, values: dict[str, Any]) -> list[TextTable]:
    rows = [[key, plain(value)] for key, value in values.items()]
    return [(caption, [(what, ""), ("Value", "")], rows)] if rows else []


def _tables_of_environments(records: Iterable[Record]) -> list[TextTable]:
    machines = [{key: value for key, value in one.environment.items() if key != "command"} for one in records]
    tables: list[TextTable] = []
    for machine, runs in Counter(json.dumps(one) for one in machines if one).items():
        caption = f"Environment of {count(runs, 'run')}"
        tables += _table_of_values(caption, "What", groups.row_settings(json.loads(machine)))
    return tables


def _command(words: Any) -> str:
    if not isinstance(words, list) or not words:
        return plain(words) if words else ""
    first, *rest = map(str, words)
    # Where an installed program lies on that machine helps nobody else.
    return shlex.join([Path(first).name if Path(first).is_absolute() else first, *rest])
