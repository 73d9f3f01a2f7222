"""Settings as flat lists: which ones all runs share, which ones tell them apart."""

from collections.abc import Mapping, Sequence
from typing import Any

from debiased_contrastive.runs import IMMATERIAL, flat_settings


def row_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Nested settings with dotted keys; the seed is left out, since it never tells two rows apart.

    >>> row_settings({"seed": 0, "objective": {"kind": "biased", "tau_plus": 0.0}})
    {'objective.kind': 'biased', 'objective.tau_plus': 0.0}
    """
    return {key: value for key, value in flat_settings(settings).items() if key.partition(".")[0] != "seed"}


def comparable_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The flat settings without those that move no result."""
    return {key: value for key, value in row_settings(settings).items() if key not in IMMATERIAL}


def shared_settings(all_settings: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The flat settings that are the same everywhere."""
    first, *others = map(row_settings, all_settings)
    return {
        key: value for key, value in first.items() if all(key in other and other[key] == value for other in others)
    }


def differing_keys(all_settings: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """The flat keys whose values differ, in the order of their first appearance."""
    shared = shared_settings(all_settings)
    keys = dict.fromkeys(key for settings in all_settings for key in row_settings(settings))
    return tuple(key for key in keys if key not in shared)


def plain(value: object) -> str:
    """A value as people write it.

    >>> plain(0.0001), plain(True), plain(None), plain([1, 2])
    ('0.0001', 'yes', 'none', '1, 2')
    """
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None:
        return "none"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, list | tuple):
        return ", ".join(map(plain, value))
    return str(value)
