"""The part of the page with embeddings in the plane (Figure 5): one colour code for all pictures."""

from collections.abc import Sequence

from debiased_contrastive.report.group import ORDER
from debiased_contrastive.report.markup import dot_key, figure, grid, legend, paragraph, section
from debiased_contrastive.report.palette import class_look
from debiased_contrastive.report.plot import cloud_plot
from debiased_contrastive.report.record import Cloud
from debiased_contrastive.report.table import Row


def plane(rows: Sequence[Row]) -> str:
    """The first seed of the first biased, debiased and unbiased row that have a picture."""
    chosen = [found for kind in ORDER if (found := _first(rows, kind))]
    # Colours stand for classes, so pictures of other classes do not belong beside these.
    chosen = [found for found in chosen if found[1].class_names == chosen[0][1].class_names]
    if not chosen:
        return ""
    pictures = [
        figure(cloud_plot(cloud, name=f"cloud{place}", label=row.label), f"Seed {seed}.", row.label)
        for place, (row, cloud, seed) in enumerate(chosen)
    ]
    used = sorted({label for _, cloud, _ in chosen for label in cloud.labels})
    keys = legend((_key(label), chosen[0][1].class_names[label]) for label in used)
    note = "t-SNE keeps neighbours together; distances between clusters and their sizes mean little."
    return section("plane", "Embeddings in the plane", keys, grid(pictures, "clouds"), paragraph(note, "note"))


def _first(rows: Sequence[Row], kind: str) -> tuple[Row, Cloud, str] | None:
    for row in rows:
        for record in row.group.records:
            if row.group.kind == kind and record.cloud:
                return row, record.cloud, record.seed
    return None


def _key(label: int) -> str:
    colour, _, letter = class_look(label)
    return dot_key(colour, letter)
