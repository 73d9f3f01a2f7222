"""The part of the page with curves: loss, accuracy of neighbours, share of floored anchors, speed."""

from collections.abc import Sequence

from debiased_contrastive.report.curve import curve, time_axis
from debiased_contrastive.report.markup import figure, grid, legend, line_key, paragraph, section
from debiased_contrastive.report.measure import SPEEDS
from debiased_contrastive.report.number import DASH, decimal
from debiased_contrastive.report.palette import Stroke
from debiased_contrastive.report.plot import curve_plot
from debiased_contrastive.report.table import Row

PLOTS = (
    ("return", "Return", False, "What an episode gains when the agent does what it thinks best."),
    ("loss", "Loss", False, "Levels of different objectives do not compare; courses do."),
    ("contrast_loss", "Contrastive loss", False, "Levels of different objectives do not compare; courses do."),
    ("knn", "kNN accuracy", True, "Accuracy of nearest neighbours while training."),
    ("floored", "Floored anchors", True, "Share of anchors whose estimate fell below its floor."),
)


def course(rows: Sequence[Row], strokes: Sequence[Stroke]) -> str:
    """Curves of all rows with one legend, and how fast training was."""
    drawn = [_picture(rows, strokes, *plot) for plot in PLOTS]
    keys = legend((line_key(stroke), row.label) for row, stroke in zip(rows, strokes, strict=True))
    pictures = [picture for picture in drawn if picture]
    if not pictures:
        return section("training", "Training", paragraph("No run has logged any metrics yet."))
    band = "Lines are means over seeds, bands reach from the smallest seed to the largest."
    return section(
        "training", "Training", keys, grid(pictures, "curves"), paragraph(f"{band} {_speed(rows)}", "note")
    )


def _picture(
    rows: Sequence[Row], strokes: Sequence[Stroke], key: str, heading: str, percent: bool, caption: str
) -> str:
    # Agents know no epochs, so each picture has the axis of those that are in it.
    axis = time_axis((record for row in rows for record in row.group.records), key)
    curves = [
        (row.label, found, stroke)
        for row, stroke in zip(rows, strokes, strict=True)
        if (found := curve(row.group.records, key, axis))
    ]
    if not curves:
        return ""
    svg = curve_plot(curves, name=key, heading=heading, axis=axis, percent=percent)
    return figure(svg, caption, heading)


def _speed(rows: Sequence[Row]) -> str:
    said = []
    for key, what in SPEEDS.items():
        speeds = [f"{row.label}: {decimal(row.measures[key].mean, 0)}" for row in rows if key in row.measures]
        if speeds:
            said.append(f"{what} per second (median of the logged steps) {DASH} {'; '.join(speeds)}.")
    return " ".join(said)
