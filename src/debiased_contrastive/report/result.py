"""The part of the page with the numbers: accuracies, geometry, and the paper's beside ours."""

import math
from collections.abc import Sequence

from debiased_contrastive.domain import Metric
from debiased_contrastive.paper import SENTENCE_TASKS, SENTENCE_TAU_PLUS, SIMCLR, published_sentence_score
from debiased_contrastive.report.markup import figure, line_key, listed, paragraph, section, table, text, words
from debiased_contrastive.report.measure import EMBEDDINGS, MAIN_RESULTS, RETURN
from debiased_contrastive.report.number import DASH, counted, decimal, share
from debiased_contrastive.report.palette import Stroke
from debiased_contrastive.report.plot import interval_plot
from debiased_contrastive.report.setting import plain
from debiased_contrastive.report.table import Row, has_unbiased


def results(rows: Sequence[Row], strokes: Sequence[Stroke]) -> str:
    """Pictures, table and notes of the accuracies and returns."""
    shown = _present(MAIN_RESULTS, rows)
    if not shown:
        return section("results", "Accuracy", paragraph("No run has been evaluated yet."))
    # Without the labels there is no gap to close.
    closed = [("Gap closed", "share of what bias costs that the row wins back")] if has_unbiased(rows) else []
    compared = any(row.paper is not None for row in rows)
    paper = [("Paper", "published number of the same objective")] if compared else []
    headings = [
        ("Objective", ""),
        ("Seeds", ""),
        *((metric.heading, metric.meaning) for metric in shown),
        *closed,
        *paper,
    ]
    body = [
        [
            _name(row, stroke),
            str(row.seeds),
            *(_cell(row, metric) for metric in shown),
            *([text(DASH if row.gap_closed is None else share(row.gap_closed))] if closed else []),
            *([_published(row)] if paper else []),
        ]
        for row, stroke in zip(rows, strokes, strict=True)
    ]
    notes = listed(_notes(rows, shown))
    heading, caption = results_heading(shown)
    return section(
        "results",
        heading,
        f'<div class="beside">{_pictures(rows, strokes)}<div><h3>How to read it</h3>{notes}</div></div>',
        table(caption, headings, body),
        _published_tasks(shown),
    )


def results_heading(shown: Sequence[Metric]) -> tuple[str, str]:
    """What these numbers are, in a word and in a line."""
    kinds = [
        *([("Accuracy", "Accuracy in percent")] if any(metric is not RETURN for metric in shown) else []),
        *([("Return", "return")] if RETURN in shown else []),
    ]
    words, lines = zip(*kinds, strict=True)
    caption = ", ".join(lines)
    return " and ".join(words).capitalize(), f"{caption[0].upper()}{caption[1:]}, mean ± 95 % interval over seeds"


def _published(row: Row) -> str:
    return text(DASH if row.paper is None else decimal(row.paper, 2 if row.main.percent else 0))


def _published_tasks(shown: Sequence[Metric]) -> str:
    """Table 2, where sentence tasks were measured."""
    tasks = [metric for metric in shown if metric.key in SENTENCE_TASKS]
    if not tasks:
        return ""
    body = [
        [
            text("biased" if not tau_plus else f"debiased, τ⁺ = {tau_plus}"),
            *(text(decimal(published_sentence_score(metric.key, tau_plus))) for metric in tasks),
        ]
        for tau_plus in SENTENCE_TAU_PLUS
    ]
    return table(
        "The paper's Table 2, trained on BookCorpus (columns as printed; SUBJ and MPQA look exchanged)",
        [("Objective", ""), *((metric.heading, metric.meaning) for metric in tasks)],
        body,
    )


def embeddings(rows: Sequence[Row], strokes: Sequence[Stroke]) -> str:
    """The table of geometry and of what the batches held."""
    shown = _present(EMBEDDINGS, rows)
    if not shown:
        return ""
    headings = [("Objective", ""), *((_with_unit(metric), metric.meaning) for metric in shown)]
    body = [
        [_name(row, stroke), *(_cell(row, metric) for metric in shown)]
        for row, stroke in zip(rows, strokes, strict=True)
    ]
    return section(
        "embeddings",
        "Embeddings and negatives",
        table("Mean ± 95 % interval over seeds", headings, body),
        listed(f"{metric.heading}: {metric.meaning}." for metric in shown),
    )


def _name(row: Row, stroke: Stroke) -> str:
    return line_key(stroke) + words(row.label)


def _present(metrics: Sequence[Metric], rows: Sequence[Row]) -> list[Metric]:
    return [metric for metric in metrics if any(metric.key in row.measures for row in rows)]


def _with_unit(metric: Metric) -> str:
    return f"{metric.heading} (%)" if metric.percent else metric.heading


def _cell(row: Row, metric: Metric) -> str:
    measure = row.measures.get(metric.key)
    if measure is None:
        return text(DASH)
    mean, half_width = (decimal(metric.scale * value, metric.decimals) for value in measure[:2])
    fewer = f' <span class="few">n = {measure.n}</span>' if measure.n < row.seeds else ""
    return f'{mean} <span class="interval">± {half_width}</span>{fewer}'


def _pictures(rows: Sequence[Row], strokes: Sequence[Stroke]) -> str:
    """One for each unit."""
    drawn = [(row, stroke) for row, stroke in zip(rows, strokes, strict=True) if row.main.key in row.measures]
    units = [[pair for pair in drawn if pair[0].main.percent is percent] for percent in (True, False)]
    figures = [_picture(f"intervals{place}", pairs) for place, pairs in enumerate(units) if pairs]
    return f"<div>{''.join(figures)}</div>" if len(figures) > 1 else "".join(figures)


def _picture(name: str, drawn: Sequence[tuple[Row, Stroke]]) -> str:
    caption = "Dots are means, ticks are seeds, lines are 95 % intervals of the mean."
    plot, has_paper = interval_plot(name, *zip(*drawn, strict=True))
    if has_paper:
        caption += " Open diamonds are the paper's numbers."
    return figure(plot, caption)


def _notes(rows: Sequence[Row], shown: Sequence[Metric]) -> list[str]:
    notes = [f"{metric.heading}: {metric.meaning}." for metric in shown]
    mains = [row.measures[row.main.key] for row in rows if row.main.key in row.measures]
    if has_unbiased(rows):
        notes.append(
            "Gap closed: the share of the way from biased to unbiased, among rows that agree "
            "in all settings but the objective. Unbiased knows every label: a yardstick, not a rival."
        )
    if any(measure.n > 1 for measure in mains):
        notes.append(
            "A difference in the text has its interval from differences seed by seed, so it may be clear of zero "
            "although the intervals of its two rows overlap."
        )
    if any(math.isnan(measure.half_width) for measure in mains):
        notes.append(f"± {DASH} means a single seed, which has no interval.")
    waiting = sum(row.seeds for row in rows) - sum(measure.n for measure in mains)
    if waiting:
        notes.append(f"{counted(waiting, 'run')} had no such number yet; means are over the others.")
    return notes + _paper_notes([row for row in rows if row.main.percent]) + _return_notes(rows)


def _return_notes(rows: Sequence[Row]) -> list[str]:
    compared = [row for row in rows if row.main is RETURN and row.paper is not None]
    if not compared:
        return []
    seen = {
        (training.get("frames"), training.get("repeat"))
        for row in compared
        for training in (row.group.records[0].section("training"),)
    }
    here = ", ".join(
        f"{plain(frames)} frames, actions {plain(repeat)} times" for frames, repeat in sorted(seen, key=str)
    )
    return [f"Paper: Table 3, of 3 seeds; likely 800000 frames, actions 8 times, 84 pixels. Here: {here}."]


def _paper_notes(rows: Sequence[Row]) -> list[str]:
    compared = [row for row in rows if row.paper is not None]
    if not compared:
        return []
    differences = list(dict.fromkeys(part for row in compared for part in _differences(row)))
    said = (
        f"Paper: numbers of the released code ({SIMCLR.encoder}, {SIMCLR.epochs} epochs, batch {SIMCLR.batch}, "
        "official probe; how many runs is not said)."
    )
    if not differences:
        return [said]
    return [f"{said} The setting here differs, so compare differences, not levels: {', '.join(differences)}."]


def _differences(row: Row) -> list[str]:
    record = row.group.records[0]
    encoder = record.section("encoder").get("name")
    training = record.section("training")
    pairs = (
        ("encoder", encoder, SIMCLR.encoder),
        ("epochs", training.get("epochs"), SIMCLR.epochs),
        ("batch", training.get("batch"), SIMCLR.batch),
        ("temperature", row.group.objective.get("temperature"), SIMCLR.temperature),
    )
    return [f"{name} {ours}" for name, ours, theirs in pairs if ours is not None and ours != theirs]
