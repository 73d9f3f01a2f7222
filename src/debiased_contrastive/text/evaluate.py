"""Scores on the six sentence tasks as run directories and results keep them."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from debiased_contrastive.files import write_atomically
from debiased_contrastive.runs import EVALUATION, Run
from debiased_contrastive.text.run import sentence_encoder, text_settings_from
from debiased_contrastive.text.task_files import NAMES, sentence_tasks
from debiased_contrastive.text.tasks import Encode, Shown, TaskScore, evaluate_sentences
from debiased_contrastive.training.fit import device_of


def scored(run: Run, root: Path, names: Sequence[str] = NAMES, shown: Shown | None = None) -> None:
    """Score a finished run on the tasks, each written when it is done; what its evaluation held besides stays."""
    device = device_of(text_settings_from(run.settings).training.accelerator)
    encode = sentence_encoder(run.folder, device)
    found = run.evaluation
    tasks = found["tasks"] if isinstance(found.get("tasks"), dict) else {}

    def keep(score: TaskScore) -> None:
        tasks[score.name] = _content(score)
        write_atomically(run.folder / EVALUATION, json.dumps({**found, "tasks": tasks}, indent=2) + "\n")

    evaluate_sentences(encode, sentence_tasks(root, names), shown=shown, on_score=keep)


def scores(encode: Encode, root: Path) -> dict[str, dict[str, Any]]:
    """Scores by task, as results keep them."""
    return {score.name: _content(score) for score in evaluate_sentences(encode, sentence_tasks(root, NAMES))}


def _content(score: TaskScore) -> dict[str, Any]:
    f1 = {} if score.f1 is None else {"f1": score.f1}
    return {"accuracy": score.accuracy, **f1, "folds": score.folds, "C": score.regularisations}
