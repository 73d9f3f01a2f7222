"""The commands that train nothing: verify the paper's statements, show its bounds, audit embeddings."""

import json
import sys
import time
from importlib.metadata import version
from typing import Any

from debiased_contrastive.cli.commands import Audit, Bounds, Verify
from debiased_contrastive.cli.terminal import progress, say, show, table
from debiased_contrastive.files import check_can_be_written, write_atomically
from debiased_contrastive.report.analyses import (
    CLAIM_HEADER,
    claim_rows,
    class_rows,
    describe_false_negatives,
    loss_rows,
    plot_claims,
    prior_rows,
    render_audit,
    setting_rows,
    source_rows,
)
from debiased_contrastive.report.numbers import four_digits

RESULTS = "theory.json"
_AUDIT_SETTINGS = (
    "pairs", "labels", "temperature", "batch_size", "prior", "tau_plus", "guide", "groups", "membership", "seed",
)  # fmt: skip
"""Arguments of an audit beside the embeddings."""


def verify(command: Verify) -> None:
    """Check every claim, write numbers and plots, and end with exit code 1 if one fails."""
    from debiased_contrastive.theory.guarantee_claims import CLAIMS

    out = command.out
    check_can_be_written(out / RESULTS)
    start = time.perf_counter()
    claims = []
    with progress("verify", quiet=command.quiet) as bar:
        for done, claim in enumerate(CLAIMS):
            bar.at(done, len(CLAIMS), claim.__name__)
            claims.append(claim())
        bar.at(len(CLAIMS), len(CLAIMS))
    record = {
        "claims": [claim.to_dict() for claim in claims],
        "versions": {name: version(name) for name in ("torch", "scipy")},
        "seconds": round(time.perf_counter() - start, 1),
    }
    out.mkdir(parents=True, exist_ok=True)
    write_atomically(out / RESULTS, json.dumps(record, indent=1) + "\n")
    for name, drawing in plot_claims(record).items():
        write_atomically(out / f"{name}.svg", drawing)
    table("The paper's statements", CLAIM_HEADER, claim_rows(record))
    show(f"\nnumbers and plots in {out}")
    failing = [claim.name for claim in claims if not claim.holds]
    if failing:
        say(f"debiased: {', '.join(failing)} did not hold; see {out / RESULTS}")
        sys.exit(1)


def bounds(command: Bounds) -> None:
    from debiased_contrastive.theory.promises import needed_unlabeled, promises

    sizes = (command.tau_plus, command.num_unlabeled, command.num_positives, command.temperature)
    found = promises(*sizes, delta=command.delta, num_anchors=command.num_anchors, rademacher=command.rademacher)
    if command.json:
        print(json.dumps([promise._asdict() | {"verdict": promise.verdict} for promise in found], indent=1))
        return
    header = ["what", "is at most", "printed", "without theory", "verdict"]
    table(
        "tau_plus = {}, N = {}, M = {}, t = {}".format(*sizes),
        header,
        [_format_promise(promise) for promise in found],
    )
    needed = needed_unlabeled(command.tau_plus, command.temperature)
    positives = max(1, round(command.tau_plus * needed))
    show(f"For a mean distance of 0.1 Theorem 3 asks for N = {needed:,} and M = {positives:,}.")


def _format_promise(promise: Any) -> list[str]:
    limits = (promise.value, promise.printed, promise.trivial)
    return [promise.statement, *("-" if limit is None else four_digits(limit) for limit in limits), promise.verdict]


def audit(command: Audit) -> None:
    from debiased_contrastive.auditing import audit as auditing

    settings = {name: getattr(command, name) for name in _AUDIT_SETTINGS}
    if command.out is not None:
        check_can_be_written(command.out)
    with progress("audit", quiet=command.quiet) as bar:
        found = auditing.audit(command.embeddings, **settings, progress=bar.at).to_dict()
    if command.out is not None:
        command.out.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(command.out, render_audit(found))
    if command.json:
        print(json.dumps(found, indent=1))
        return
    _show_audit(found)
    if command.out is not None:
        show(f"\npage in {command.out}")


def _show_audit(found: dict[str, Any]) -> None:
    header = ["by", "tau_plus", "95 % interval", "against it"]
    table("What tau_plus is", header, [[*row] for row in prior_rows(found)])
    if found["sources"]:
        header = ["source", "force share", "strength", "share there", "what to do"]
        table("What would change the force", header, [[*row] for row in source_rows(found)])
    table("Settings of tau_plus", ["setting", "value", "what it is"], [[*row] for row in setting_rows(found)])
    table("Losses", ["loss", "value", "what it is"], [[*row] for row in loss_rows(found)])
    if found["classes"]:
        header = ["class", "share", "false negatives", "bias of the loss"]
        table("Most affected classes", header, [[*row] for row in class_rows(found)])
    for line in (describe_false_negatives(found), *found["notes"], found["advice"]):
        show(f"\n{line}")
