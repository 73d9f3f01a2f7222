"""What the measured rows must satisfy."""

from typing import Any, NamedTuple

from benchmarks.contenders import BARE, CONTENDERS, OURS, PAPER

PEERS = tuple(name for name in CONTENDERS if name not in (OURS, BARE))


class Target(NamedTuple):
    """Ours may be `limit` times the least of `against`, or `limit` itself where there is none."""

    pairs: int
    measure: str
    field: str
    against: tuple[str, ...]
    limit: float


TARGETS = (
    Target(256, "time / fastest peer", "seconds", PEERS, 0.8),
    Target(256, "extra memory / paper formula", "extra_mib", (PAPER,), 1.0),
    Target(1024, "time / fastest peer", "seconds", PEERS, 0.5),
    Target(1024, "extra memory / paper formula", "extra_mib", (PAPER,), 0.3),
    Target(4096, "time / fastest peer", "seconds", PEERS, 0.2),
    Target(4096, "extra memory / paper formula", "extra_mib", (PAPER,), 0.05),
    Target(4096, "time / bare products", "seconds", (BARE,), 2.0),
    Target(32768, "peak memory in all, MiB", "peak_mib", (), 1024.0),
)


def judged(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The targets at the measured sizes, each with its value."""
    measured = {(row["pairs"], row["contender"]): row for row in rows if "skipped" not in row}
    return [_judged(target, measured) for target in TARGETS if (target.pairs, OURS) in measured]


def _judged(target: Target, measured: dict[tuple[int, str], dict[str, Any]]) -> dict[str, Any]:
    found = {name: row[target.field] for (pairs, name), row in measured.items() if pairs == target.pairs}
    present = (name for name in target.against if name in found)
    against = min(present, key=lambda name: found[name], default=None)
    value = found[OURS] if against is None else found[OURS] / found[against]
    judgement = {"value": value, "limit": target.limit, "met": value <= target.limit}
    return {"pairs": target.pairs, "measure": target.measure, "against": against, **judgement}
