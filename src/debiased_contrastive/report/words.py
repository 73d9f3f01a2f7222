"""Sentences on what was measured and what came out, made from the runs alone."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from debiased_contrastive.domain import Domain, Metric, section
from debiased_contrastive.report.groups import Row, baseline, has_unbiased, present_domains, row_settings
from debiased_contrastive.report.numbers import (
    DASH,
    GLUE,
    Measure,
    count,
    decimal,
    plain,
    plus_minus,
    whole_percent,
)

MAX_SENTENCES = 3
"""How many debiased rows, or comparisons, get sentences of their own."""


class Summary(NamedTuple):
    """What a page says first."""

    headline: str
    """What came out, in one sentence."""
    what: str
    """What was done."""
    findings: str
    """What came out, row by row."""


def summarise(rows: Sequence[Row]) -> Summary:
    """What was done, and what came out of it."""
    measured = [row for row in rows if row.main.key in row.measures]
    if not measured:
        return Summary(
            "No run has been evaluated yet, so there is nothing to compare.", _describe_training(rows), ""
        )
    meanings: dict[str, dict[str, None]] = {}
    for main in sorted((row.main for row in measured), key=lambda main: not main.percent):
        meanings.setdefault(main.quantity, {})[main.in_words or main.meaning] = None
    how = _sentence("; ".join(f"{quantity} is {', or '.join(words)}" for quantity, words in meanings.items()))
    counts = [row.measures[row.main.key].n for row in measured]
    if max(counts) > 1:
        how += f", ±{GLUE}half of its 95{GLUE}% interval over seeds"
    frames = dict.fromkeys(row.frame for row in measured if row.kind == "biased")
    findings = [_compare([row for row in measured if row.frame == frame]) for frame in frames]
    if len(findings) > MAX_SENTENCES:
        findings = [f"The runs form {len(findings)} comparisons; the table has the numbers of each."]
    if alone := sum(row.frame not in frames for row in measured):
        findings.append(
            f"For {count(alone, 'row')} there is no biased run that agrees in all else, so no gain is known."
        )
    if min(counts) == 1 and len(measured) > 1:
        findings.append("Rows with a single seed have no interval: their differences may be chance.")
    return Summary(_headline(measured), f"{_describe_training(rows)} {how}.", " ".join(findings))


def results_heading(results: Sequence[Metric]) -> tuple[str, str]:
    """What these numbers are, in a word and in a line."""
    units = {metric.quantity: " in percent" if metric.percent else "" for metric in results}
    line = ", ".join(quantity + unit for quantity, unit in units.items())
    return _sentence(" and ".join(units)), f"{_sentence(line)}, mean ± 95 % interval over seeds"


def notes_on_results(rows: Sequence[Row], results: Sequence[Metric], domains: Sequence[Domain]) -> list[str]:
    """How to read the table of results."""
    meanings: dict[str, list[str]] = {}
    for metric in results:
        meanings.setdefault(metric.meaning, []).append(metric.heading)
    notes = [f"{_join(headings)}: {meaning}." for meaning, headings in meanings.items()]
    mains = [row.measures[row.main.key] for row in rows if row.main.key in row.measures]
    if has_unbiased(rows):
        headings = {row.main.heading for row in rows}
        column = f" in the column {headings.pop()}" if len(headings) == 1 else ""
        notes.append(
            f"Gap closed: the share of the way from biased to unbiased{column}, among rows that agree "
            "in all settings but the objective. Unbiased knows every label: a yardstick, not a rival."
        )
    if any(measure.n > 1 for measure in mains):
        notes.append(
            "A difference in the text has its interval from differences seed by seed, so it may be clear of zero "
            "although the intervals of its two rows overlap."
        )
    if any(math.isnan(measure.half_width) for measure in mains):
        notes.append(f"± {DASH} means a single seed, which has no interval.")
    if waiting := sum(row.seeds for row in rows) - sum(measure.n for measure in mains):
        notes.append(f"{count(waiting, 'run')} had no such number yet; means are over the others.")
    for domain in domains:
        compared = [row.settings for row in rows if row.domain is domain and row.paper is not None]
        if compared and (note := domain.describe_published(compared)):
            notes.append(note)
    return notes


def _describe_training(rows: Sequence[Row]) -> str:
    flat = [row_settings(row.settings) for row in rows]

    def distinct(key: str) -> list[str]:
        found = (settings.get(key) for settings in flat)
        return list(dict.fromkeys(plain(value) for value in found if value is not None))

    parts = [f"{count(len(rows), 'setting')} of contrastive training"]
    described = (row.domain.describe_data(row.settings) for row in rows)
    if data := list(dict.fromkeys(filter(None, described))):
        parts.append(f"on {_join(data)}")
    for domain in present_domains(rows):
        for key, (one, several) in domain.summary_words.items():
            if values := distinct(key):
                parts.append((one if len(values) == 1 else several).format(_join(values)))
    if epochs := distinct("training.epochs"):
        parts.append(f"for {_join(epochs)} epoch{'' if epochs == ['1'] else 's'}")
    fewest, most = min(row.seeds for row in rows), max(row.seeds for row in rows)
    seeds = count(most, "seed") if fewest == most else f"{fewest} to {count(most, 'seed')}"
    return f"{' '.join(parts)}, {seeds}{' each' if len(rows) > 1 else ''}."


def _headline(rows: Sequence[Row]) -> str:
    """What bias costs, and how much of it the best row without and the best with knowledge of classes win back."""
    if len(frames := {row.frame for row in rows}) > 1:
        return f"{count(len(frames), 'comparison')} of objectives, whose numbers are below."
    biased, unbiased = (next((row for row in rows if row.kind == kind), None) for kind in ("biased", "unbiased"))
    if biased is None:
        return " ".join(map(_describe_level, rows[:MAX_SENTENCES]))
    debiased = [row for row in rows if row.kind == "debiased"]
    if unbiased is None or unbiased.gain_on(biased).mean <= 0:
        best = max(debiased, key=_mean, default=None)
        return _cost(biased, unbiased) if unbiased or best is None else _gain(best, biased)
    kinds = (
        [row for row in debiased if bool(section(row.settings, "membership")) is known] for known in (False, True)
    )
    wins = [_win(max(some, key=_mean)) for some in kinds if some]
    points = _points(unbiased.gain_on(biased), biased.main)
    cost = f"Sampling bias costs {points} of {biased.main.quantity} here"
    return f"{cost}; {', '.join(wins)}." if wins else f"{cost}."


def _describe_level(row: Row) -> str:
    quantity = row.main.quantity
    return f"{_subject(row)} reaches {'an' if quantity[0] in 'aeiou' else 'a'} {quantity} of {_level(row)}."


def _win(row: Row) -> str:
    if row.gap_closed is None:
        return f"what {_noun(row.label)} wins back is within the noise of these seeds"
    share = whole_percent(row.gap_closed)
    if row.gap_closed >= 1.005:
        return f"{_noun(row.label)} wins back all of it and more ({share})"
    return f"{_noun(row.label)} wins back {share if row.gap_closed > 0 else 'none'} of it"


def _mean(row: Row) -> float:
    return row.measures[row.main.key].mean


def _compare(rows: Sequence[Row]) -> str:
    """What bias costs among comparable rows, one of them biased, and what debiasing wins back."""
    debiased = [row for row in rows if row.kind == "debiased"]
    first = (debiased or rows)[0]
    biased, unbiased = (baseline(first, rows, kind) for kind in ("biased", "unbiased"))
    assert biased is not None
    sentences = [_cost(biased, unbiased)]
    if len(debiased) > MAX_SENTENCES:
        sentences.append(_range(debiased))
        debiased = []
    without = [row for row in rows if row.kind == "none"]
    sentences.extend(_gain(row, baseline(row, rows, "biased") or biased) for row in (*without, *debiased))
    return " ".join(sentences)


def _cost(biased: Row, unbiased: Row | None) -> str:
    if unbiased is None:
        # Without classes there is no unbiased run that would tell.
        unknown = "; what bias costs is unknown without an unbiased run" if biased.domain.has_classes else ""
        return f"{_subject(biased)} reaches {_level(biased)}{unknown}."
    cost = unbiased.gain_on(biased)
    ends = f"{_noun(biased.label)} reaches {_level(biased)}, {_noun(unbiased.label)} {_level(unbiased)}"
    if cost.mean <= 0:
        return f"No cost of sampling bias shows here: {ends}, so there is no gap to close."
    text = f"Sampling bias costs {_points(cost, biased.main)} here: {ends}."
    if cost.half_width >= cost.mean:
        text += " That gap is within the noise of these seeds, so shares of it say little."
    return text


def _gain(row: Row, biased: Row) -> str:
    gain = row.gain_on(biased)
    verb = "gains" if gain.mean > 0 else "loses" if gain.mean < 0 else "changes by"
    text = f"{_subject(row)} {verb} {_points(gain, row.main)} against {_noun(biased.label)}"
    if row.gap_closed is not None:
        text += f" and closes {whole_percent(row.gap_closed) if row.gap_closed > 0 else 'none'} of that gap"
    if 0 < abs(gain.mean) <= gain.half_width:
        text += ", which may be chance"
    ours, theirs = row.measures[row.main.key], biased.measures[row.main.key]
    if ours.n > 1 and theirs.n > 1:
        text += f"; the intervals of the two {'overlap' if ours.overlaps(theirs) else 'do not overlap'}"
    return text + "."


def _range(debiased: Sequence[Row]) -> str:
    ordered = sorted(debiased, key=lambda row: row.measures[row.main.key].mean)
    low, high = ordered[0], ordered[-1]
    ends = f"{_level(low)} ({low.label}) to {_level(high)} ({high.label})"
    text = f"The {len(debiased)} debiased rows reach from {ends}"
    if low.gap_closed is not None and high.gap_closed is not None:
        text += f", or {whole_percent(low.gap_closed)} to {whole_percent(high.gap_closed)} of the gap"
    return text + "; the best of many is partly luck."


def _level(row: Row) -> str:
    measure, scale, decimals = row.measures[row.main.key], row.main.scale, row.main.decimals
    text = plus_minus(measure, scale, decimals) if measure.n > 1 else decimal(scale * measure.mean, decimals)
    return f"{text}{GLUE}%" if row.main.percent else text


def _points(difference: Measure, main: Metric) -> str:
    size = difference._replace(mean=abs(difference.mean))
    if not math.isfinite(size.half_width):
        return f"{decimal(main.scale * size.mean, main.decimals)} points"
    return f"{plus_minus(size, main.scale, main.decimals)} points"


def _noun(label: str) -> str:
    """The label with what follows its first comma in brackets, since in a sentence commas part other things.

    >>> _noun("debiased, τ⁺ = 0.1, M = 4"), _noun("unbiased (all labels), batch 8"), _noun("biased")
    ('debiased (τ⁺ = 0.1, M = 4)', 'unbiased (all labels, batch 8)', 'biased')
    """
    name, _, rest = label.partition(", ")
    if not rest:
        return name
    return f"{name.removesuffix(')')}, {rest})" if name.endswith(")") else f"{name} ({rest})"


def _subject(row: Row) -> str:
    return _sentence(_noun(row.label))


def _sentence(words: str) -> str:
    return words[:1].upper() + words[1:]


def _join(words: Sequence[str]) -> str:
    return " and ".join([*([", ".join(words[:-1])] if words[:-1] else []), words[-1]])
