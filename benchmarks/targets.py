"""What the measured rows must satisfy: the judgement, and the targets of the losses."""

import operator
from collections.abc import Callable
from typing import Any, NamedTuple

from benchmarks.contenders import BARE, CODES, CONTENDERS, MEMBERSHIP, OURS, PAPER

PEERS = tuple(name for name in CONTENDERS if name not in (OURS, MEMBERSHIP, CODES, BARE))


class Target(NamedTuple):
    """Ours compared with the least of `against`, or ours itself where there is none, is at most `limit`.

    It counts for rows with the values of `where`, such as (("pairs", 256),): at other sizes there is none.
    """

    measure: str
    field: str
    against: tuple[str, ...]
    limit: float
    where: tuple[tuple[str, float], ...]
    compared: Callable[[float, float], float] = operator.truediv
    at_least: bool = False
    """Ours is at least `limit`."""


def speed_up(ours: float, peer: float) -> float:
    """How many times as fast as the peer, of the seconds."""
    return peer / ours


TARGETS = (
    Target("time / fastest peer", "seconds", PEERS, 0.5, (("pairs", 256),)),
    Target("extra memory / paper formula", "extra_mib", (PAPER,), 1.0, (("pairs", 256),)),
    Target("time / fastest peer", "seconds", PEERS, 0.5, (("pairs", 1024),)),
    Target("extra memory / paper formula", "extra_mib", (PAPER,), 0.3, (("pairs", 1024),)),
    Target("time / fastest peer", "seconds", PEERS, 0.2, (("pairs", 4096),)),
    Target("extra memory / paper formula", "extra_mib", (PAPER,), 0.05, (("pairs", 4096),)),
    Target("time / bare products", "seconds", (BARE,), 2.0, (("pairs", 4096),)),
    # The other way round: what knows more takes longer.
    Target("with membership: time / without", "seconds", (MEMBERSHIP,), 1.4, (("pairs", 4096),), speed_up),
    Target("with partitions: time / without", "seconds", (CODES,), 2.0, (("pairs", 4096),), speed_up),
    Target("peak memory in all, MiB", "peak_mib", (), 1024.0, (("pairs", 32768),)),
)


def judged(rows: list[dict[str, Any]], targets: tuple[Target, ...] = TARGETS) -> list[dict[str, Any]]:
    """The targets for which there are rows, each with its value."""
    judgements = (_judged(target, _found(target, rows)) for target in targets)
    return [judgement for judgement in judgements if judgement is not None]


def _found(target: Target, rows: list[dict[str, Any]]) -> dict[str, float]:
    """What was measured, by contender."""
    return {
        row["contender"]: row[target.field]
        for row in rows
        if target.field in row and all(row[name] == value for name, value in target.where)
    }


def _judged(target: Target, found: dict[str, float]) -> dict[str, Any] | None:
    present = [name for name in target.against if name in found]
    if OURS not in found or (target.against and not present):
        return None
    against = min(present, key=lambda name: found[name], default=None)
    value = found[OURS] if against is None else target.compared(found[OURS], found[against])
    met = value >= target.limit if target.at_least else value <= target.limit
    judgement = {
        **dict(target.where),
        "measure": target.measure,
        "against": against,
        "value": value,
        "limit": target.limit,
    }
    return {**judgement, **({"at_least": True} if target.at_least else {}), "met": met}
