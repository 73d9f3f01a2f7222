"""A statement of the paper beside numbers: what it promises, what was measured, what holds."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import wraps
from typing import Any, Literal, TypeAlias

Relation: TypeAlias = Literal["at most", "at least", "above", "equal"]
Subject: TypeAlias = Literal["statement", "proof", "assumption", "order"]
RELATIVE_ROUNDING = 1e-9

_FAILURE_IN_PRINT = {
    "statement": "printed fails, corrected holds",
    "proof": "the printed derivation fails",
    "assumption": "fails without its assumption",
    "order": "printed up to a factor; with factor 1 it fails",
}


@dataclass(frozen=True)
class Case:
    """One number, and what the statement says of it."""

    where: str
    measured: float
    corrected: float
    """The bound or value that this library derives."""
    printed: float | None = None
    """The bound or value in the paper; None where it prints none."""
    error: float = 0.0
    """Four standard errors, if the measured number is simulated."""
    tolerance: float = 0.0
    """The deviation that is accepted, if the statement holds only in the limit."""

    def agrees(self, value: float, relation: Relation) -> bool:
        """Whether the measured number stands to that value as it should."""
        if relation == "above":
            return self.measured - self.error > value + RELATIVE_ROUNDING * max(1.0, abs(value))
        allowed = self.error + self.tolerance + RELATIVE_ROUNDING * max(1.0, abs(value))
        low, high = self.measured <= value + allowed, self.measured >= value - allowed
        return {"at most": low, "at least": high, "equal": low and high}[relation]

    def slack(self, relation: Relation) -> float:
        """How far the corrected form could still be sharpened in this case."""
        gap = self.corrected - self.measured
        if relation == "at most":
            # Bounds of very different size are compared by what share of them is used.
            return self.corrected / self.measured if self.measured > 0 else math.inf
        return abs(gap) if relation == "equal" else -gap


@dataclass(frozen=True)
class Line:
    """One line of a plot."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    kind: Literal["measured", "printed", "corrected"] = "measured"


@dataclass(frozen=True)
class Plot:
    """Lines on common axes."""

    name: str
    title: str
    x_label: str
    y_label: str
    lines: Sequence[Line]
    x_scale: Literal["log", "linear"] = "log"


@dataclass(frozen=True)
class Claim:
    """A lemma, a theorem or a part of one, with the cases that check it."""

    name: str
    statement: str
    relation: Relation
    cases: Sequence[Case]
    plots: Sequence[Plot] = ()
    subject: Subject = "statement"
    """What fails if the printed form fails; "order": the paper prints an order of magnitude only."""

    @property
    def holds(self) -> bool:
        """Whether the corrected form holds in every case; if not, this library is wrong."""
        return all(case.agrees(case.corrected, self.relation) for case in self.cases)

    @property
    def printed_holds(self) -> bool | None:
        """Whether the printed form holds in every case; None where nothing is printed."""
        printed = [(case, case.printed) for case in self.cases if case.printed is not None]
        return all(case.agrees(value, self.relation) for case, value in printed) if printed else None

    @property
    def verdict(self) -> str:
        if not self.holds:
            return "FAILS"
        if self.printed_holds is None:
            return "holds; not in print"
        if not self.printed_holds:
            return _FAILURE_IN_PRINT[self.subject]
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
        """The first case in which a form fails, or else the one with the least slack."""
        for form in ("corrected", "printed"):
            for case in self.cases:
                value = getattr(case, form)
                if value is not None and not case.agrees(value, self.relation):
                    return case
        return min(self.cases, key=lambda case: case.slack(self.relation))

    def to_dict(self) -> dict[str, Any]:
        """The claim with its verdict, ready for JSON; the tightest case comes first."""
        others = [case for case in self.cases if case is not self.tightest]
        return {
            "name": self.name,
            "statement": self.statement,
            "relation": self.relation,
            "subject": self.subject,
            "holds": self.holds,
            "printed_holds": self.printed_holds,
            "verdict": self.verdict,
            "cases": [asdict(case) for case in (self.tightest, *others)],
            "plots": [asdict(plot) for plot in self.plots],
        }


Checks: TypeAlias = Iterator[Case | Plot]


def claim(
    name: str, statement: str, relation: Relation, *, subject: Subject = "statement"
) -> Callable[[Callable[[], Checks]], Callable[[], Claim]]:
    """Turn a function that yields cases and plots into one that returns the claim about them."""

    def decorate(check: Callable[[], Checks]) -> Callable[[], Claim]:
        @wraps(check)
        def make_claim() -> Claim:
            checks = list(check())
            cases = [item for item in checks if isinstance(item, Case)]
            plots = [item for item in checks if isinstance(item, Plot)]
            return Claim(name, statement, relation, cases, plots, subject)

        return make_claim

    return decorate
