"""The six sentence tasks for a trained run: scores in, its evaluation file out."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from debiased_contrastive.data.sentence_tasks import NAMES, sentence_tasks
from debiased_contrastive.evaluation.sentence_tasks import Encode, Shown, TaskScore, evaluate_sentences
from debiased_contrastive.experiments.features import device_of
from debiased_contrastive.experiments.quickthoughts import sentence_encoder, text_settings_from
from debiased_contrastive.files import write_atomically
from debiased_contrastive.runs import EVALUATION, Run


def scored(run: Run, root: Path, names: Sequence[str] = NAMES, shown: Shown | None = None) -> dict[str, Any]:
    """Score a finished run on the tasks; what its evaluation held besides these stays."""
    device = device_of(text_settings_from(run.settings).training.accelerator)
    found = scores(sentence_encoder(run.folder, device), root, names, shown)
    kept = run.evaluation
    content = {**kept, "tasks": {**kept.get("tasks", {}), **found}}
    write_atomically(run.folder / EVALUATION, json.dumps(content, indent=2) + "\n")
    return found


def scores(
    encode: Encode, root: Path, names: Sequence[str] = NAMES, shown: Shown | None = None
) -> dict[str, dict[str, Any]]:
    """Scores by task, as results keep them."""
    # All files are looked for before the first is encoded.
    tasks = sentence_tasks(root, names)
    return {score.name: _content(score) for score in evaluate_sentences(encode, tasks, shown=shown)}


def _content(score: TaskScore) -> dict[str, Any]:
    f1 = {} if score.f1 is None else {"f1": score.f1}
    return {"accuracy": score.accuracy, **f1, "folds": score.folds, "C": score.regularisations}
