"""The commands that check the paper's statements, and that say what they promise for a setting."""

import json
import sys
import time
from importlib.metadata import version
from pathlib import Path

from debiased_contrastive.cli.terminal import progress, say, show, table
from debiased_contrastive.files import check_can_be_written, write_atomically
from debiased_contrastive.report.theory import figures, number, rows
from debiased_contrastive.theory.promises import Promise, needed_unlabeled, promises
from debiased_contrastive.theory.verification import CLAIMS, as_json

RESULTS = "theory.json"


def verify(out: Path, *, quiet: bool) -> None:
    """Check every claim, write numbers and plots, and end with exit code 1 if one fails."""
    check_can_be_written(out / RESULTS)
    start = time.perf_counter()
    claims = []
    with progress("verify", quiet=quiet) as bar:
        for done, claim in enumerate(CLAIMS):
            bar.at(done, len(CLAIMS), claim.__name__)
            claims.append(claim())
        bar.at(len(CLAIMS), len(CLAIMS))
    record = {
        "claims": [as_json(claim) for claim in claims],
        "versions": {name: version(name) for name in ("torch", "scipy")},
        "seconds": round(time.perf_counter() - start, 1),
    }
    out.mkdir(parents=True, exist_ok=True)
    write_atomically(out / RESULTS, json.dumps(record, indent=1) + "\n")
    for name, drawing in figures(record).items():
        write_atomically(out / f"{name}.svg", drawing)
    header, *lines = rows(record)
    table("The paper's statements", header, lines)
    show(f"\nnumbers and plots in {out}")
    failing = [claim.name for claim in claims if not claim.holds]
    if failing:
        say(f"debiased: {', '.join(failing)} did not hold; see {out / RESULTS}")
        sys.exit(1)


def bounds(
    tau_plus: float,
    num_unlabeled: int,
    num_positives: int,
    temperature: float,
    delta: float,
    num_anchors: int | None,
    rademacher: float,
    *,
    as_json: bool,
) -> None:
    """Show what the theory promises for one setting."""
    found = promises(
        tau_plus, num_unlabeled, num_positives, temperature,
        delta=delta, num_anchors=num_anchors, rademacher=rademacher,
    )  # fmt: skip
    if as_json:
        print(json.dumps([promise._asdict() | {"verdict": promise.verdict} for promise in found], indent=1))
        return
    title = f"tau_plus = {tau_plus}, N = {num_unlabeled}, M = {num_positives}, t = {temperature}"
    header = ["what", "is at most", "printed", "without theory", "verdict"]
    table(title, header, [_line(promise) for promise in found])
    needed = needed_unlabeled(tau_plus, temperature)
    positives = max(1, round(tau_plus * needed))
    show(f"For a mean distance of 0.1 Theorem 3 asks for N = {needed:,} and M = {positives:,}.")


def _line(promise: Promise) -> list[str]:
    limits = (promise.value, promise.printed, promise.trivial)
    return [promise.statement, *("-" if limit is None else number(limit) for limit in limits), promise.verdict]
