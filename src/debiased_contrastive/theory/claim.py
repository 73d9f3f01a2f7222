"""A statement of the paper beside numbers: what it promises, what was measured, what holds."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

Relation: TypeAlias = Literal["at most", "at least", "above", "equal"]
Subject: TypeAlias = Literal["statement", "proof", "assumption", "order"]
ROUNDING = 1e-9

_IN_PRINT = {
    "statement": "printed fails, corrected holds",
    "proof": "the printed derivation fails",
    "assumption": "fails without its assumption",
    "order": "printed up to a factor; with factor 1 it fails",
}


@dataclass(frozen=True)
class Case:
    """One number, and what the statement says of it."""

    where: str
    """World and setting."""
    measured: float
    corrected: float
    """The bound or value that holds."""
    printed: float | None = None
    """The one in the paper; None where it has none."""
    error: float = 0.0
    """Four standard errors, of what was simulated."""
    tolerance: float = 0.0
    """A width that is accepted, of what is only nearly so."""

    def agrees(self, value: float, relation: Relation) -> bool:
        """Whether the measured number stands to that value as it should."""
        if relation == "above":
            return self.measured - self.error > value + ROUNDING * max(1.0, abs(value))
        room = self.error + self.tolerance + ROUNDING * max(1.0, abs(value))
        low, high = self.measured <= value + room, self.measured >= value - room
        return {"at most": low, "at least": high, "equal": low and high}[relation]

    def room(self, relation: Relation) -> float:
        """How far the correction could still be sharpened here; for ordering cases."""
        gap = self.corrected - self.measured
        if relation == "at most":
            # Bounds of very different size are compared by what share of them is used.
            return self.corrected / self.measured if self.measured > 0 else math.inf
        return abs(gap) if relation == "equal" else -gap


@dataclass(frozen=True)
class Line:
    """Points of a plot with logarithmic axes."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    kind: Literal["measured", "printed", "corrected"] = "measured"


@dataclass(frozen=True)
class Plot:
    """Lines that belong together."""

    name: str
    title: str
    x_label: str
    y_label: str
    lines: Sequence[Line]
    x_scale: Literal["log", "linear"] = "log"


@dataclass(frozen=True)
class Claim:
    """A lemma, a theorem or a part of one."""

    name: str
    statement: str
    relation: Relation
    cases: Sequence[Case]
    plots: Sequence[Plot] = ()
    subject: Subject = "statement"
    """What a failure in print is a failure of; order: only the order of magnitude is printed."""

    @property
    def holds(self) -> bool:
        """Whether what this library says holds everywhere; if not, the library is wrong."""
        return all(case.agrees(case.corrected, self.relation) for case in self.cases)

    @property
    def printed_holds(self) -> bool | None:
        """Whether what the paper says holds everywhere; None where it says nothing."""
        printed = [(case, case.printed) for case in self.cases if case.printed is not None]
        return all(case.agrees(value, self.relation) for case, value in printed) if printed else None

    @property
    def verdict(self) -> str:
        """In words."""
        if not self.holds:
            return "FAILS"
        if self.printed_holds is None:
            return "holds; not in print"
        if not self.printed_holds:
            return _IN_PRINT[self.subject]
        if self.subject == "order" or self.relation == "equal":
            return "holds as printed"
        sign = 1 if self.relation == "at most" else -1
        differences = [sign * (case.printed - case.corrected) for case in self.cases if case.printed is not None]
        if not any(differences):
            return "holds as printed"
        sharper = sum(difference > 0 for difference in differences)
        return f"holds as printed; corrected is sharper in {sharper} of {len(differences)}"

    @property
    def tightest(self) -> Case:
        """The case to show: where something fails, if it does somewhere; else where there is least room."""
        for wrong in (
            [case for case in self.cases if not case.agrees(case.corrected, self.relation)],
            [
                case
                for case in self.cases
                if case.printed is not None and not case.agrees(case.printed, self.relation)
            ],
        ):
            if wrong:
                return wrong[0]
        return min(self.cases, key=lambda case: case.room(self.relation))


def forms(bound: Callable[..., float], *sizes: float, **rest: Any) -> dict[str, float]:
    """A bound in both forms, as the fields of a case."""
    return {which: bound(*sizes, which=which, **rest) for which in ("corrected", "printed")}
