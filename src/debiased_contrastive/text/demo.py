"""The first run on text: biased beside debiased, and whether vectors tell which novel a sentence is of."""

import json
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple

import torch

from debiased_contrastive.evaluation.knn import knn_accuracy
from debiased_contrastive.evaluation.linear import linear_probe
from debiased_contrastive.evaluation.means import mean_classifier
from debiased_contrastive.files import write_atomically
from debiased_contrastive.runs import EVALUATION, Run
from debiased_contrastive.text.presets import TEXT_PRESETS
from debiased_contrastive.text.run import sentence_encoder, text_settings_from
from debiased_contrastive.text.sentences import austen_rows
from debiased_contrastive.text.settings import TextObjective, TextSettings
from debiased_contrastive.training.fit import device_of, same_run

HELD_OUT = 0.15
"""Share of each novel, its end, that is not trained on."""
OBJECTIVES = (TextObjective("biased"), TextObjective("debiased", tau_plus=0.01))
NEIGHBOURS = 50


class Novels(NamedTuple):
    """Sentences by novel, and which of them are held out."""

    sentences: list[str]
    books: torch.Tensor
    held_out: torch.Tensor


def novels() -> Novels:
    """The sentences in the package; the end of each novel is held out."""
    rows = austen_rows()
    names = list(dict.fromkeys(book for book, _ in rows))
    books = torch.tensor([names.index(book) for book, _ in rows])
    place = torch.cat([torch.arange(int(count)) / int(count) for count in books.bincount()])
    return Novels([sentence for _, sentence in rows], books, place >= 1 - HELD_OUT)


def demo_runs(folder: Path, seeds: int) -> Iterator[tuple[Run, TextSettings]]:
    """A run for each seed and objective, new or as far as it came before."""
    folder.mkdir(parents=True, exist_ok=True)
    text = _written(folder / "novels.txt")
    for seed in range(seeds):
        for objective in OBJECTIVES:
            settings = replace(settings_on(text.resolve()), seed=seed, objective=objective)
            yield same_run(folder / f"{objective.kind}-seed{seed}", settings), settings


def settings_on(text: Path) -> TextSettings:
    """Those of a run of the demonstration, on that text."""
    preset = TEXT_PRESETS["quickthoughts-small"].settings
    # Of so few sentences bags of words learn more than recurrent networks do, and in a tenth of the time.
    return replace(
        preset,
        text=replace(preset.text, path=text),
        towers=replace(preset.towers, name="bag"),
        training=replace(preset.training, epochs=10, batch=100),
    )


def probed(run: Run) -> dict[str, Any]:
    """Probe which novel held-out sentences are of, and write what was found to the run directory."""
    found = novels()
    device = device_of(text_settings_from(run.settings).training.accelerator)
    vectors = sentence_encoder(run.folder, device)(found.sentences)
    sets = (
        vectors[~found.held_out],
        found.books[~found.held_out],
        vectors[found.held_out],
        found.books[found.held_out],
    )
    result = {
        "linear": asdict(linear_probe(*sets)),
        "knn": knn_accuracy(*sets, k=NEIGHBOURS),
        "mean_classifier": asdict(mean_classifier(*sets)),
    }
    write_atomically(run.folder / EVALUATION, json.dumps({**run.evaluation, **result}, indent=2) + "\n")
    return result


def _written(path: Path) -> Path:
    """The sentences to train on, one a line, with a break between two novels."""
    found, lines = novels(), []
    for place, sentence in enumerate(found.sentences):
        if not found.held_out[place]:
            lines.append(sentence)
        elif lines and lines[-1]:
            lines.append("")
    content = "\n".join(lines) + "\n"
    if not path.exists() or path.read_text(encoding="utf-8") != content:
        write_atomically(path, content)
    return path
