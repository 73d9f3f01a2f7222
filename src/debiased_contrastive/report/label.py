"""The name of a row: its objective, and further settings only where two rows would have one name."""

from collections.abc import Mapping, Sequence
from typing import Any

from debiased_contrastive.report.record import finite
from debiased_contrastive.report.setting import differing_keys, plain, row_settings

FIRST = (
    "data.name", "task", "objective.temperature", "objective.beta", "objective.negatives", "objective.on_floor",
    "training.batch", "training.epochs", "encoder.name", "towers.name", "text.path", "objective.floor",
    "objective.tau_plus", "objective.num_positives",
)  # fmt: skip
"""What people look for first when two rows differ in more than one setting."""

WORDS = {
    "data.name": "{}",
    "task": "{}",
    "encoder.name": "encoder {}",
    "objective.beta": "β = {}",
    "objective.negatives": "negatives from the {}",
    "objective.num_positives": "M = {}",
    "objective.on_floor": "on floor: {}",
    "objective.floor": "floor {}",
    "towers.name": "towers {}",
    "objective.tau_plus": "τ⁺ = {}",
    "objective.temperature": "t = {}",
    "training.batch": "batch {}",
    "training.epochs": "{} epochs",
    "preset": "preset {}",
}

SILENT = {"objective.beta": 0, "objective.negatives": "batch", "objective.on_floor": "clamp"}
"""What goes without saying: a row that has it is named only by what others have."""


def labels(all_settings: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """One name per row, all different where the settings are.

    >>> labels([{"objective": {"kind": "debiased", "tau_plus": 0.1, "temperature": t}} for t in (0.2, 0.5)])
    ('debiased, τ⁺ = 0.1, t = 0.2', 'debiased, τ⁺ = 0.1, t = 0.5')
    """
    names = [_objective(settings) for settings in all_settings]
    for name in set(names):
        same = [index for index, other in enumerate(names) if other == name]
        if len(same) > 1:
            for index, longer in zip(same, _told_apart(name, [all_settings[i] for i in same]), strict=True):
                names[index] = longer
    return tuple(names)


def _objective(settings: Mapping[str, Any]) -> str:
    objective = settings.get("objective")
    if not isinstance(objective, Mapping) or "kind" not in objective:
        return "objective not named"
    kind = str(objective["kind"])
    if kind == "unbiased":
        return "unbiased (all labels)"
    if kind == "none":
        return "without contrast"
    if kind != "debiased":
        return kind
    parts = [kind, f"τ⁺ = {plain(objective.get('tau_plus'))}"]
    if objective.get("auto"):
        parts = [f"{kind}, auto, prior {plain(objective.get('tau_plus'))}"]
    if objective.get("num_positives", 1) != 1:
        parts.append(f"M = {plain(objective['num_positives'])}")
    known = finite(objective.get("known_labels"))
    if known:
        parts.append(f"{100 * known:g} % of labels known")
    return ", ".join(parts)


def _told_apart(name: str, all_settings: Sequence[Mapping[str, Any]]) -> list[str]:
    """The name, longer by as few settings as make every row's different."""
    flat = [row_settings(settings) for settings in all_settings]
    names = [name] * len(flat)
    for key in sorted(differing_keys(all_settings), key=_rank):
        longer = [old + _word(key, settings) for old, settings in zip(names, flat, strict=True)]
        if len(set(longer)) > len(set(names)):
            names = longer
    return names


def _rank(key: str) -> tuple[int, str]:
    # A preset is only a name for other settings.
    last = len(FIRST) + (key == "preset")
    return (FIRST.index(key) if key in FIRST else last, key)


def _word(key: str, settings: Mapping[str, Any]) -> str:
    if key not in settings:
        # Of another kind of data: what it has instead tells it apart.
        return "" if key in ("data.name", "task", "towers.name", "text.path") else f", {key} not set"
    if key in SILENT and settings[key] == SILENT[key]:
        return ""
    value = plain(settings[key])
    return ", " + (WORDS[key].format(value) if key in WORDS else f"{key.rpartition('.')[2]} = {value}")
