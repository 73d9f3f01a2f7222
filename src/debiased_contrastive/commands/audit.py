"""The command that audits embeddings: tables in the terminal, and one page."""

import json
import os
from pathlib import Path
from typing import Any

from debiased_contrastive.auditing.audit import audit
from debiased_contrastive.files import write_atomically
from debiased_contrastive.report.audit import (
    affected_of,
    false_negatives,
    losses_of,
    page,
    priors_of,
    settings_of,
)
from debiased_contrastive.terminal import progress, table

SETTINGS = ("pairs", "labels", "temperature", "batch_size", "prior", "tau_plus", "seed")
"""What `audit` takes beside the embeddings."""


def audited(embeddings: str, settings: dict[str, Any], out: Path | None, *, as_json: bool, quiet: bool) -> None:
    """Audit a file, and show what was found."""
    if out is not None:
        _check_out(out)
    with progress("audit", quiet=quiet) as bar:
        found = audit(embeddings, **settings, shown=bar.at).to_dict()
    if as_json:
        print(json.dumps(found, indent=1))
    else:
        _show(found)
    if out is not None:
        write_atomically(out, page(found))
        if not as_json:
            print(f"\npage in {out}")


def _check_out(out: Path) -> None:
    """Before the long work, not after it."""
    if not out.parent.is_dir() or not os.access(out.parent, os.W_OK):
        raise ValueError(f"the folder of --out must be there and writable; got {out.parent}: make it first")
    if out.is_dir():
        raise ValueError(f"--out must be a file, such as report.html; got the folder {out}")


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
        print(f"\n{line}")
