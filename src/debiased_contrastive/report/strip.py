"""The part of the page with pictures of what agents do."""

import base64
from collections.abc import Sequence

from debiased_contrastive.report.markup import figure, grid, paragraph, section, text
from debiased_contrastive.report.table import Row
from debiased_contrastive.runs import STRIP


def strips(rows: Sequence[Row]) -> str:
    """An episode of the first agent of each row that has been filmed."""
    figures = [picture for row in rows if (picture := _first(row))]
    note = "From the beginning of an episode to its end; the agent sees less: smaller frames, and their middle."
    return (
        section("episodes", "What agents do", grid(figures, "strips"), paragraph(note, "note")) if figures else ""
    )


def _first(row: Row) -> str:
    for record in row.group.records:
        path = record.folder / STRIP
        if path.is_file():
            image = base64.b64encode(path.read_bytes()).decode()
            shown = f'<img src="data:image/png;base64,{image}" alt="{text(f"An episode: {row.label}")}">'
            return figure(shown, f"Seed {record.seed}.", row.label)
    return ""
