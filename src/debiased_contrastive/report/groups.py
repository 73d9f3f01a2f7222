"""Rows of the report: runs that differ only in their seed, with a label and their numbers over seeds."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from debiased_contrastive.domain import Content, Domain, Metric, finite_number, section, unknown_domain
from debiased_contrastive.report.numbers import Measure, gap_closed, mean_and_interval, paired_difference, plain
from debiased_contrastive.report.records import EMBEDDINGS, Record, measure_run, read_records
from debiased_contrastive.runs import IMMATERIAL, Run, flat_settings

KINDS = ("none", "biased", "debiased", "unbiased")
"""Objectives in the order of their rows."""
CHOICES = ("kind", "tau_plus", "auto", "num_positives", "known_labels", "on_floor", "floor", "beta", "decoupled")
"""Settings of the objective that rows of one comparison may differ in."""

_WORDS = {
    "objective.temperature": "t = {}",
    "objective.beta": "β = {}",
    "objective.negatives": "negatives from the {}",
    "objective.on_floor": "on floor: {}",
    "training.batch": "batch {}",
    "training.epochs": "{} epochs",
}
"""Settings that tell rows apart, the most telling first, with their words in a label."""
_LATE_WORDS = {
    "objective.floor": "floor {}",
    "objective.tau_plus": "τ⁺ = {}",
    "objective.num_positives": "M = {}",
    "preset": "preset {}",
}
"""Those that come after the words of the domain."""
_USUAL = {"objective.beta": 0, "objective.negatives": "batch", "objective.on_floor": "clamp"}
"""Usual values, which a label leaves out."""


_SOURCES = {
    "labels": "{}",
    "classifier": "a classifier on {}",
    "groups": "groups",
    "guide": "a guide",
    "own": "own features",
}
"""Words for sources of membership, {} being the share of the labels that is known."""


@dataclass(frozen=True)
class Row:
    """One setting with all its seeds."""

    label: str
    domain: Domain
    records: tuple[Record, ...]
    """One per seed."""
    values: tuple[dict[str, float], ...]
    """What each record measured."""
    repeated: tuple[Record, ...]
    """Further runs of a seed that is there already: they are not independent, so they do not count."""
    main: Metric
    """The number that costs and gaps are counted in, the same for all rows that may be compared."""
    gap_closed: float | None = None
    """Share of what bias costs that a debiased row wins back; None where that cost may be chance."""

    @property
    def kind(self) -> str:
        return self.records[0].kind

    @property
    def settings(self) -> dict[str, Any]:
        return self.records[0].settings

    @property
    def seeds(self) -> int:
        return len(self.records)

    @cached_property
    def frame(self) -> str:
        """The settings that must be equal for a comparison of objectives: data, encoder, training and more."""
        free = {"preset", *(f"objective.{choice}" for choice in CHOICES)}
        settings = _comparable_settings(self.settings).items()
        fixed = {key: value for key, value in settings if key not in free and not key.startswith("membership.")}
        return json.dumps([self.domain.name, fixed], sort_keys=True)

    @cached_property
    def measures(self) -> dict[str, Measure]:
        """By the keys of `measure_run`; shares and accuracies from 0 to 1."""
        numbers = {key: list(self.by_seed(key).values()) for values in self.values for key in values}
        return {key: Measure(*mean_and_interval(some), len(some)) for key, some in numbers.items()}

    @property
    def paper(self) -> float | None:
        """The published number, as it is shown: accuracies in percent."""
        return self.domain.published(self.settings)

    def by_seed(self, key: str) -> dict[str, float]:
        """One number of each seed that has it."""
        pairs = zip(self.records, self.values, strict=True)
        return {record.seed: values[key] for record, values in pairs if key in values}

    def gain_on(self, other: "Row") -> Measure:
        """Its main number minus the other's, seed by seed; the interval is NaN where seeds do not match."""
        return paired_difference(self.by_seed(self.main.key), other.by_seed(self.main.key))


def rows(runs: Sequence[Run], domains: Sequence[Domain], main: Metric | None = None) -> tuple[Row, ...]:
    """The summary of run directories: comparable settings together, biased, then debiased, then unbiased.

    `main` is the number that counts most, where it was measured; that of the domain if not given.

    >>> rows([], [])
    Traceback (most recent call last):
    ValueError: a report needs at least one readable run; got none: name folders that hold a settings.json
    """
    return group_records(read_records(runs)[0], domains, main)


def group_records(
    records: Sequence[Record], domains: Sequence[Domain], main: Metric | None = None
) -> tuple[Row, ...]:
    """A row for all records that differ only in their seed; comparable rows are together, ordered by kind."""
    known = _find_domains(records, domains)
    members: dict[str, list[Record]] = {}
    for record in records:
        same = json.dumps([record.domain, _comparable_settings(record.settings)], sort_keys=True)
        members.setdefault(same, []).append(record)
    words = {key: word for domain in known.values() for key, word in domain.label_words.items()}
    names = labels([some[0].settings for some in members.values()], words)
    rows = []
    for name, some in zip(names, members.values(), strict=True):
        domain, (seeds, repeated) = known[some[0].domain], _split_by_seed(some)
        values = tuple(measure_run(record, domain) for record in seeds)
        rows.append(Row(name, domain, seeds, values, repeated, domain.mains[0]))
    frames: dict[str, set[str]] = {}
    for row in rows:
        frames.setdefault(row.frame, set()).update(row.measures)
    for place, row in enumerate(rows):
        mains = row.domain.mains if main is None else (main, *row.domain.mains)
        measured = [metric for metric in mains if metric.key in frames[row.frame]]
        rows[place] = replace(row, main=measured[0]) if measured else row
    order = list(frames)
    rows.sort(key=lambda row: (order.index(row.frame), *_rank(row)))
    return tuple(replace(row, gap_closed=_gap_closed(row, rows)) for row in rows)


def is_cost_clear(biased: Row, unbiased: Row) -> bool:
    """Whether bias costs something, by more than the noise of the seeds; a single seed cannot tell noise."""
    cost = unbiased.gain_on(biased)
    return cost.mean > 0 and not cost.mean <= cost.half_width


def _find_domains(records: Sequence[Record], domains: Sequence[Domain]) -> dict[str, Domain]:
    """The domains of these records by name, with stand-ins for those that are not among `domains`."""
    known = {domain.name: domain for domain in domains}
    # The measures of embeddings, which any domain may have, are in a table of their own.
    elsewhere = {metric.key for metric in EMBEDDINGS}
    for name in dict.fromkeys(record.domain for record in records if record.domain not in known):
        found = (record.evaluation.items() for record in records if record.domain == name)
        known[name] = unknown_domain(name, [{k: v for k, v in items if k not in elsewhere} for items in found])
    return known


def _gap_closed(row: Row, rows: Sequence[Row]) -> float | None:
    biased, unbiased = (baseline(row, rows, kind) for kind in ("biased", "unbiased"))
    if row.kind != "debiased" or biased is None or unbiased is None:
        return None
    ends = [one.measures.get(row.main.key) for one in (biased, row, unbiased)]
    if None in ends:
        return None
    # Without a cost there is nothing to win back, nor a share of what may be chance.
    if not is_cost_clear(biased, unbiased):
        return None
    return gap_closed(*(end.mean for end in ends if end))


def baseline(row: Row, rows: Sequence[Row], kind: str) -> Row | None:
    """The row of that kind whose settings are the row's own but for the objective; the nearest of several."""
    own, choices = row.records[0].objective, ("beta", "num_positives", "decoupled")

    def distance(other: Row) -> int:
        # How many choices beyond the correction itself differ; a biased row's tau_plus means nothing.
        return sum(own.get(key) != other.records[0].objective.get(key) for key in choices)

    return min((one for one in rows if one.kind == kind and one.frame == row.frame), key=distance, default=None)


def _split_by_seed(records: Sequence[Record]) -> tuple[tuple[Record, ...], tuple[Record, ...]]:
    """One record per seed, an evaluated one where there is a choice, and the remaining ones."""
    chosen: dict[str, Record] = {}
    for record in sorted(records, key=lambda record: not record.evaluation):
        chosen.setdefault(record.seed, record)
    rest = [record for record in records if chosen[record.seed] is not record]
    # Shorter first, so that 10 comes after 9.
    return tuple(chosen[seed] for seed in sorted(chosen, key=lambda seed: (len(seed), seed))), tuple(rest)


def _rank(row: Row) -> tuple[int, tuple[float, ...], str]:
    kind = KINDS.index(row.kind) if row.kind in KINDS else len(KINDS)
    numbers = (row.records[0].objective.get(key) for key in ("tau_plus", "num_positives", "known_labels", "beta"))
    return kind, tuple(n if isinstance(n, int | float) else 0.0 for n in numbers), row.label


def row_settings(settings: Content) -> dict[str, Any]:
    """Nested settings with dotted keys; the seed is left out, since it never tells two rows apart.

    >>> row_settings({"seed": 0, "objective": {"kind": "biased", "tau_plus": 0.0}})
    {'objective.kind': 'biased', 'objective.tau_plus': 0.0}
    """
    return {key: value for key, value in flat_settings(settings).items() if key.partition(".")[0] != "seed"}


def _comparable_settings(settings: Content) -> dict[str, Any]:
    """The flat settings without those that move no result."""
    return {key: value for key, value in row_settings(settings).items() if key not in IMMATERIAL}


def shared_settings(all_settings: Sequence[Content]) -> dict[str, Any]:
    """The flat settings that are the same everywhere."""
    first, *others = map(row_settings, all_settings)
    return {
        key: value for key, value in first.items() if all(key in other and other[key] == value for other in others)
    }


def differing_keys(all_settings: Sequence[Content]) -> tuple[str, ...]:
    """The flat keys whose values differ, in the order of their first appearance."""
    shared = shared_settings(all_settings)
    keys = dict.fromkeys(key for settings in all_settings for key in row_settings(settings))
    return tuple(key for key in keys if key not in shared)


def labels(all_settings: Sequence[Content], domain_words: Mapping[str, str]) -> tuple[str, ...]:
    """One name per row, all different where the settings are: its objective, and more only where that is needed.

    >>> labels([{"objective": {"kind": "debiased", "tau_plus": 0.1, "temperature": t}} for t in (0.2, 0.5)], {})
    ('debiased, τ⁺ = 0.1, t = 0.2', 'debiased, τ⁺ = 0.1, t = 0.5')
    """
    names = [_name_membership(settings) or _name_objective(settings.get("objective")) for settings in all_settings]
    for name in set(names):
        same = [index for index, other in enumerate(names) if other == name]
        if len(same) > 1:
            longer = _tell_apart(name, [all_settings[i] for i in same], domain_words)
            for index, new in zip(same, longer, strict=True):
                names[index] = new
    return tuple(names)


def _name_membership(settings: Content) -> str:
    """What was known about classes beside the similarity; empty where nothing was."""
    membership = section(settings, "membership")
    source, form = str(membership.get("source", "none")), str(membership.get("form"))
    if source == "none":
        return ""
    share = f"{100 * (finite_number(membership.get('known')) or 0.0):g} % of the labels"
    parts = [f"membership from {_SOURCES.get(source, source).format(share)}"]
    if source in ("guide", "own"):
        parts.append(form)
    strength, attraction = (finite_number(membership.get(name)) for name in ("strength", "attraction"))
    if membership.get("strength") == "auto":
        # Labels tell the strength also of sources that read none.
        reads = "known" in membership and source not in ("labels", "classifier")
        parts.append(f"strength auto with {share}" if reads else "strength auto")
    elif strength not in (None, 1):
        parts.append(f"strength {strength:g}")
    if attraction:
        parts.append(f"attraction {attraction:g}")
    return ", ".join(parts)


def _name_objective(objective: object) -> str:
    if not isinstance(objective, Mapping) or "kind" not in objective:
        return "objective not named"
    kind = str(objective["kind"])
    decoupled = ", decoupled" if objective.get("decoupled") is True else ""
    if kind != "debiased":
        return {"unbiased": "unbiased (all labels)", "none": "without contrast"}.get(kind, kind) + decoupled
    tau_plus = plain(objective.get("tau_plus"))
    parts = [kind, f"auto, prior {tau_plus}" if objective.get("auto") else f"τ⁺ = {tau_plus}"]
    if objective.get("num_positives", 1) != 1:
        parts.append(f"M = {plain(objective['num_positives'])}")
    if known := finite_number(objective.get("known_labels")):
        parts.append(f"{100 * known:g} % of labels known")
    return ", ".join(parts) + decoupled


def _tell_apart(name: str, all_settings: Sequence[Content], domain_words: Mapping[str, str]) -> list[str]:
    """The name, longer by as few settings as make every row's different."""
    # Bare names, of data or task, say most.
    first = {key: word for key, word in domain_words.items() if word == "{}"}
    words = {**first, **_WORDS, **domain_words, **_LATE_WORDS}
    order = [key for key in words if key != "preset"]
    flat = [row_settings(settings) for settings in all_settings]
    names = [name] * len(flat)

    def rank(key: str) -> tuple[int, str]:
        # A preset is only a name for other settings.
        return (order.index(key) if key in order else len(order) + (key == "preset"), key)

    def word(key: str, settings: Content) -> str:
        if key not in settings:
            # In another domain: what it has instead tells it apart.
            return "" if key in domain_words else f", {key} not set"
        if key in _USUAL and settings[key] == _USUAL[key]:
            return ""
        value = plain(settings[key])
        return ", " + (words[key].format(value) if key in words else f"{key.rpartition('.')[2]} = {value}")

    for key in sorted(differing_keys(all_settings), key=rank):
        longer = [old + word(key, settings) for old, settings in zip(names, flat, strict=True)]
        if len(set(longer)) > len(set(names)):
            names = longer
    return names


def present_domains(rows: Iterable[Row], order: Sequence[Domain] = ()) -> tuple[Domain, ...]:
    """The domains of these rows, those of `order` first."""
    found = {row.domain.name: row.domain for row in rows}
    return tuple(found[name] for name in dict.fromkeys((*(one.name for one in order), *found)) if name in found)


def result_metrics(rows: Sequence[Row], domains: Sequence[Domain]) -> list[Metric]:
    """The columns of the results that any row has a number for, those first in which their domain counts costs."""
    mains = {row.main.key for row in rows}
    metrics: dict[str, Metric] = {}
    for domain in present_domains(rows, domains):
        for metric in sorted(domain.results, key=lambda metric: metric.key not in mains):
            metrics.setdefault(metric.key, metric)
    return [metric for metric in metrics.values() if any(metric.key in row.measures for row in rows)]


def has_unbiased(rows: Iterable[Row]) -> bool:
    """Whether any row is unbiased, so that there is a gap to close."""
    return any(row.kind == "unbiased" for row in rows)
