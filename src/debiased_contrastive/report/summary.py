"""What was measured and what came out, in plain words; every sentence follows from the runs."""

import math
from collections.abc import Sequence
from pathlib import PurePath

from debiased_contrastive.domain import Metric
from debiased_contrastive.report.group import Group, baseline
from debiased_contrastive.report.measure import LINEAR, RETURN, SIX_TASKS
from debiased_contrastive.report.number import GLUE, counted, decimal, interval, share
from debiased_contrastive.report.setting import plain
from debiased_contrastive.report.table import Measure, Row, paired_difference

DATA = {
    "fashion": "Fashion-MNIST (the part that comes with the package)",
    "cifar10": "CIFAR-10",
    "stl10": "STL-10",
    "folder": "a folder of images",
}
FULL = 3
"""How many debiased rows, or comparisons, get sentences of their own."""


def summary(rows: Sequence[Row]) -> tuple[str, str]:
    """What was done, and what came out of it."""
    measured = [row for row in rows if row.main.key in row.measures]
    if not measured:
        return _what(rows), "No run has been evaluated yet, so there is nothing to compare."
    accuracies = ", or ".join(dict.fromkeys(_how(row.main) for row in measured if row.main is not RETURN))
    returns = f"return is {RETURN.meaning}" if any(row.main is RETURN for row in measured) else ""
    how = _sentence("; ".join(filter(None, (f"accuracy is {accuracies}" if accuracies else "", returns))))
    if any(row.measures[row.main.key].n > 1 for row in measured):
        how += f", ±{GLUE}half of its 95{GLUE}% interval over seeds"
    frames = dict.fromkeys(row.group.frame for row in measured if row.group.kind == "biased")
    said = [_compared([row for row in measured if row.group.frame == frame]) for frame in frames]
    if len(said) > FULL:
        said = [f"The runs form {len(said)} comparisons; the table has the numbers of each."]
    if alone := sum(row.group.frame not in frames for row in measured):
        said.append(
            f"For {counted(alone, 'row')} there is no biased run that agrees in all else, so no gain is known."
        )
    if any(row.measures[row.main.key].n == 1 for row in measured):
        said.append("Rows with a single seed have no interval: their differences may be chance.")
    return f"{_what(rows)} {how}.", " ".join(said)


def _how(main: Metric) -> str:
    if main is LINEAR:
        return "that of a linear classifier on the frozen features, on test samples"
    what = "the mean over six sentence tasks" if main is SIX_TASKS else f"that on the sentence task {main.heading}"
    return f"{what} of logistic regression on the frozen vectors"


def _what(rows: Sequence[Row]) -> str:
    def distinct(section: str, key: str) -> list[str]:
        found = (row.group.records[0].section(section).get(key) for row in rows)
        return list(dict.fromkeys(plain(value) for value in found if value is not None))

    parts = [f"{counted(len(rows), 'setting')} of contrastive training"]
    if data := list(dict.fromkeys(filter(None, (_data(row) for row in rows)))):
        parts.append(f"on {_listed(data)}")
    if frames := distinct("training", "frames"):
        parts.append(f"for {_listed(frames)} frames")
    for section, what in (("encoder", "encoder"), ("towers", "tower")):
        if names := distinct(section, "name"):
            parts.append(f"with {what}{'s' if len(names) > 1 or section == 'towers' else ''} {_listed(names)}")
    if epochs := distinct("training", "epochs"):
        parts.append(f"for {_listed(epochs)} epoch{'' if epochs == ['1'] else 's'}")
    fewest, most = min(row.seeds for row in rows), max(row.seeds for row in rows)
    seeds = counted(most, "seed") if fewest == most else f"{fewest} to {counted(most, 'seed')}"
    return f"{' '.join(parts)}, {seeds}{' each' if len(rows) > 1 else ''}."


def _data(row: Row) -> str:
    if text := row.group.records[0].section("text"):
        # Of a path only its end: the rest is somebody's machine.
        return PurePath(text["path"]).name if isinstance(text.get("path"), str) else "novels of Jane Austen"
    if task := row.group.settings.get("task"):
        return plain(task)
    data = row.group.records[0].section("data")
    if data.get("name") is None:
        return ""
    name, classes = plain(data["name"]), data.get("classes")
    chosen = f"{counted(len(classes), 'class', 'classes')} of " if isinstance(classes, list) and classes else ""
    return chosen + DATA.get(name, name)


def _compared(rows: Sequence[Row]) -> str:
    """What bias costs among comparable rows, one of them biased, and what debiasing wins back."""
    debiased = [row for row in rows if row.group.kind == "debiased"]
    first = (debiased or rows)[0]
    biased, unbiased = (_nearest(first, rows, kind) for kind in ("biased", "unbiased"))
    assert biased is not None
    sentences = [_cost(biased, unbiased) if unbiased else _unknown_cost(biased)]
    if len(debiased) > FULL:
        sentences.append(_range(debiased))
        debiased = []
    without = [row for row in rows if row.group.kind == "none"]
    sentences.extend(_gain(row, _nearest(row, rows, "biased") or biased) for row in (*without, *debiased))
    return " ".join(sentences)


def _nearest(row: Row, rows: Sequence[Row], kind: str) -> Row | None:
    found: Group | None = baseline(row.group, [other.group for other in rows], kind)
    return next((other for other in rows if other.group is found), None)


def _cost(biased: Row, unbiased: Row) -> str:
    cost = paired_difference(unbiased, biased)
    ends = f"{biased.label} reaches {_level(biased)}, {unbiased.label} {_level(unbiased)}"
    if cost.mean <= 0:
        return f"No cost of sampling bias shows here: {ends}, so there is no gap to close."
    said = f"Sampling bias costs {_points(cost, biased.main)} here: {ends}."
    if cost.half_width >= cost.mean:
        said += " That gap is within the noise of these seeds, so shares of it say little."
    return said


def _unknown_cost(biased: Row) -> str:
    said = f"{_sentence(biased.label)} reaches {_level(biased)}"
    # What an agent sees has no classes, which an unbiased run would need.
    return f"{said}." if biased.main is RETURN else f"{said}; what bias costs is unknown without an unbiased run."


def _gain(row: Row, biased: Row) -> str:
    gain = paired_difference(row, biased)
    verb = "gains" if gain.mean > 0 else "loses" if gain.mean < 0 else "changes by"
    said = f"{_sentence(row.label)} {verb} {_points(gain, row.main)} against {biased.label}"
    if row.gap_closed is not None:
        said += f" and closes {share(row.gap_closed) if row.gap_closed > 0 else 'none'} of that gap"
    ours, theirs = row.measures[row.main.key], biased.measures[row.main.key]
    if ours.n > 1 and theirs.n > 1:
        said += f"; the intervals of the two {'overlap' if ours.overlaps(theirs) else 'do not overlap'}"
    return said + "."


def _range(debiased: Sequence[Row]) -> str:
    ordered = sorted(debiased, key=lambda row: row.measures[row.main.key].mean)
    low, high = ordered[0], ordered[-1]
    ends = f"{_level(low)} ({low.label}) to {_level(high)} ({high.label})"
    said = f"The {len(debiased)} debiased rows reach from {ends}"
    if low.gap_closed is not None and high.gap_closed is not None:
        said += f", or {share(low.gap_closed)} to {share(high.gap_closed)} of the gap"
    return said + "; the best of many is partly luck."


def _level(row: Row) -> str:
    measure, scale, decimals = row.measures[row.main.key], row.main.scale, row.main.decimals
    said = interval(measure, scale, decimals) if measure.n > 1 else decimal(scale * measure.mean, decimals)
    return f"{said}{GLUE}%" if row.main.percent else said


def _points(difference: Measure, main: Metric) -> str:
    size, half_width = (
        decimal(main.scale * value, main.decimals) for value in (abs(difference.mean), difference.half_width)
    )
    if not math.isfinite(difference.half_width):
        return f"{size} points"
    return f"{size}{GLUE}±{GLUE}{half_width} points"


def _sentence(words: str) -> str:
    return words[:1].upper() + words[1:]


def _listed(words: Sequence[str]) -> str:
    return " and ".join([*([", ".join(words[:-1])] if words[:-1] else []), words[-1]])
