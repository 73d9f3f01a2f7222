"""The part of the page that says where its numbers come from: settings, machines, commands, gaps."""

import json
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from debiased_contrastive.report.markup import details, listed, section, table, text, words
from debiased_contrastive.report.number import DASH, counted
from debiased_contrastive.report.record import Record
from debiased_contrastive.report.setting import differing_keys, plain, row_settings, shared_settings
from debiased_contrastive.report.table import Row


def origin(rows: Sequence[Row], left_out: Sequence[str]) -> str:
    """All that is needed to make the runs again, folded away."""
    records = [record for row in rows for record in row.group.records]
    return section(
        "origin",
        "Where this comes from",
        _missing(rows, left_out),
        details("Settings that tell the rows apart", _differing(rows)),
        details("Settings that all runs share", _shared(rows)),
        details("Environment", _environments(records)),
        details("Commands", _commands(records)),
        details("Folders", listed(str(record.folder) for record in records)),
    )


def _missing(rows: Sequence[Row], left_out: Sequence[str]) -> str:
    lines = [f"Left out: {reason}" for reason in left_out]
    for row in rows:
        lines += [fault for record in row.group.records for fault in record.faults]
        lines += [
            f"Left out: {record.folder} repeats settings and seed of another run, so it is no further evidence."
            for record in row.group.repeated
        ]
    return f'<div class="missing"><h3>What is missing</h3>{listed(lines)}</div>' if lines else ""


def _shared(rows: Sequence[Row]) -> str:
    shared = shared_settings([row.group.settings for row in rows])
    if not shared:
        return ""
    body = [[text(key), text(plain(value))] for key, value in shared.items()]
    return table("Shared settings", [("Setting", ""), ("Value", "")], body)


def _differing(rows: Sequence[Row]) -> str:
    keys = differing_keys([row.group.settings for row in rows])
    if not keys:
        return ""
    flat = [row_settings(row.group.settings) for row in rows]
    body = [
        [words(row.label), *(text(plain(settings[key]) if key in settings else DASH) for key in keys)]
        for row, settings in zip(rows, flat, strict=True)
    ]
    return table("Settings that differ", [("Objective", ""), *((key, "") for key in keys)], body)


def _environments(records: Sequence[Record]) -> str:
    found: dict[str, int] = {}
    for record in records:
        rest = {key: value for key, value in record.environment.items() if key != "command"}
        if rest:
            key = json.dumps(rest)
            found[key] = found.get(key, 0) + 1
    tables = []
    for content, count in found.items():
        body = [[text(key), text(plain(value))] for key, value in row_settings(json.loads(content)).items()]
        tables.append(table(f"Environment of {counted(count, 'run')}", [("What", ""), ("Value", "")], body))
    return "".join(tables)


def _commands(records: Sequence[Record]) -> str:
    lines = dict.fromkeys(_command(record.environment.get("command")) for record in records)
    shown = "\n".join(text(line) for line in lines if line)
    return f"<pre>{shown}</pre>" if shown else ""


def _command(words: Any) -> str:
    if not isinstance(words, list) or not words:
        return plain(words) if words else ""
    first, *rest = map(str, words)
    # Where an installed program lies on that machine helps nobody else.
    return shlex.join([Path(first).name if Path(first).is_absolute() else first, *rest])
