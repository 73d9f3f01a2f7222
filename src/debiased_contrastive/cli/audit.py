"""The command that audits embeddings: tables in the terminal, and one page."""

import json
from pathlib import Path
from typing import Any

from debiased_contrastive.auditing.audit import audit
from debiased_contrastive.cli.terminal import progress, show, table
from debiased_contrastive.files import check_can_be_written, write_atomically
from debiased_contrastive.report.audit import (
    affected_of,
    false_negatives,
    losses_of,
    page,
    priors_of,
    settings_of,
)

SETTINGS = ("pairs", "labels", "temperature", "batch_size", "prior", "tau_plus", "seed")
"""What `audit` takes beside the embeddings."""


def audited(embeddings: str, settings: dict[str, Any], out: Path | None, *, as_json: bool, quiet: bool) -> None:
    """Audit a file, and show what was found."""
    if out is not None:
        check_can_be_written(out)
    with progress("audit", quiet=quiet) as bar:
        found = audit(embeddings, **settings, shown=bar.at).to_dict()
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(out, page(found))
    if as_json:
        print(json.dumps(found, indent=1))
        return
    _show(found)
    if out is not None:
        show(f"\npage in {out}")


def _show(found: dict[str, Any]) -> None:
    table(
        "What tau_plus is", ["by", "tau_plus", "95 % interval", "against it"], [[*row] for row in priors_of(found)]
    )
    table("Settings of tau_plus", ["setting", "value", "what it is"], [[*row] for row in settings_of(found)])
    table("Losses", ["loss", "value", "what it is"], [[*row] for row in losses_of(found)])
    if found["classes"]:
        header = ["class", "share", "false negatives", "bias of the loss"]
        table("Most affected classes", header, [[*row] for row in affected_of(found)])
    for line in (false_negatives(found), *found["notes"], found["advice"]):
        show(f"\n{line}")
