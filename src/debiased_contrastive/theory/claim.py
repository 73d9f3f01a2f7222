"""A statement of the paper beside numbers: what it promises, what was measured, what holds."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

Relation: TypeAlias = Literal["at most", "at least", "equal"]
ROUNDING = 1e-9


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
    """Four standard errors of what was simulated, or a width that is accepted."""

    def agrees(self, value: float, relation: Relation) -> bool:
        """Whether the measured number stands to that value as it should."""
        room = self.error + ROUNDING * max(1.0, abs(value))
        above, below = self.measured <= value + room, self.measured >= value - room
        return {"at most": above, "at least": below, "equal": above and below}[relation]

    def sharper(self, relation: Relation) -> bool:
        """Whether the correction says more than the print."""
        assert self.printed is not None
        return self.corrected < self.printed if relation == "at most" else self.corrected > self.printed

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


@dataclass(frozen=True)
class Claim:
    """A lemma, a theorem or a part of one."""

    name: str
    statement: str
    relation: Relation
    cases: Sequence[Case]
    plots: Sequence[Plot] = ()

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
            return "printed fails, corrected holds"
        sharper = [case for case in self.cases if case.printed is not None and case.sharper(self.relation)]
        return "holds as printed, corrected is sharper" if sharper else "holds as printed"

    @property
    def tightest(self) -> Case:
        """The case to show: where print fails, if it does somewhere; else where there is least room."""
        failing = [
            case for case in self.cases if case.printed is not None and not case.agrees(case.printed, self.relation)
        ]
        wrong = [case for case in self.cases if not case.agrees(case.corrected, self.relation)]
        return (wrong or failing or sorted(self.cases, key=lambda case: case.room(self.relation)))[0]
