"""The first run on text: biased beside debiased, and whether vectors tell which novel a sentence is from."""

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple

import torch

from debiased_contrastive.domain import Bar, Demo
from debiased_contrastive.evaluation.geometry import knn_accuracy, mean_classifier
from debiased_contrastive.evaluation.linear import linear_probe
from debiased_contrastive.files import write_atomically
from debiased_contrastive.runs import EVALUATION, Run
from debiased_contrastive.text.frozen import load_encoder
from debiased_contrastive.text.sentences import read_austen
from debiased_contrastive.text.settings import TEXT_PRESETS, TextObjective, TextSettings

HELD_OUT = 0.15
"""Share of each novel, its end, that is not trained on."""
OBJECTIVES = (TextObjective("biased"), TextObjective("debiased", tau_plus=0.01))
NEIGHBOURS = 50


class Novels(NamedTuple):
    """Sentences by novel, and which of them are held out."""

    sentences: list[str]
    books: torch.Tensor
    held_out: torch.Tensor


def read_novels() -> Novels:
    """Read the sentences in the package; the end of each novel is held out."""
    rows = read_austen()
    names = list(dict.fromkeys(book for book, _ in rows))
    books = torch.tensor([names.index(book) for book, _ in rows])
    place = torch.cat([torch.arange(int(count)) / int(count) for count in books.bincount()])
    return Novels([sentence for _, sentence in rows], books, place >= 1 - HELD_OUT)


def demo_settings(folder: Path) -> dict[str, TextSettings]:
    """The settings of the demonstration, one for each objective, on a text that is written to the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    text = _write_novels(folder / "novels.txt").resolve()
    return {objective.kind: replace(settings_on(text), objective=objective) for objective in OBJECTIVES}


def settings_on(text: Path) -> TextSettings:
    """The settings of one run of the demonstration, on that text."""
    preset = TEXT_PRESETS["quickthoughts-small"].settings
    # From so few sentences bags of words learn more than recurrent networks do, in a tenth of the time.
    return replace(
        preset,
        text=replace(preset.text, path=text),
        towers=replace(preset.towers, name="bag"),
        training=replace(preset.training, epochs=10, batch=100),
    )


def probe_novels(run: Run, _bar: Bar | None = None) -> dict[str, Any]:
    """Probe which novel held-out sentences are from, and add the accuracies to the run's evaluation."""
    novels = read_novels()
    vectors, test = load_encoder(run.folder).encode(novels.sentences), novels.held_out
    sets = (vectors[~test], novels.books[~test], vectors[test], novels.books[test])
    result = {
        "linear": asdict(linear_probe(*sets)),
        "knn": knn_accuracy(*sets, k=NEIGHBOURS),
        "mean_classifier": asdict(mean_classifier(*sets)),
    }
    write_atomically(run.folder / EVALUATION, json.dumps({**run.evaluation, **result}, indent=2) + "\n")
    return result


def _write_novels(path: Path) -> Path:
    """Write the sentences to train on, one a line, with a break between two novels."""
    novels, lines = read_novels(), []
    for place, sentence in enumerate(novels.sentences):
        if not novels.held_out[place]:
            lines.append(sentence)
        elif lines and lines[-1]:
            lines.append("")
    content = "\n".join(lines) + "\n"
    if not path.exists() or path.read_text(encoding="utf-8") != content:
        write_atomically(path, content)
    return path


DEMO = Demo(
    title="Which novel is this sentence from? Neighbours as positives, biased and debiased",
    seeds=3,
    settings=demo_settings,
    result="linear",
    evaluate=probe_novels,
    meaning=(
        "A sentence is pulled towards its neighbours and pushed away from all other sentences of the batch, also "
        "from those of its own chapter. There are no classes in training, so nobody knows what bias costs; "
        "afterwards a linear classifier tells which of six novels a sentence is from. One in six would be chance."
    ),
)
