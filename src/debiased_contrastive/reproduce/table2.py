"""Biased beside debiased sentence vectors on the six tasks, with untrained ones for scale (Table 2).

    python -m debiased_contrastive.reproduce.table2 --corpus NOVELS --task-data TASKS --out results/novels

Every run's numbers go to one file of `--out`; a run whose file is there is skipped, one that was cut off is
resumed, so the same command, given again, finishes the grid. `--share 0/2` and `--share 1/2` split it over two
processes.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch

from debiased_contrastive.numerics import seed_of
from debiased_contrastive.reproduce.runner import fill, grid_parser, shared
from debiased_contrastive.text.corpus import Corpus
from debiased_contrastive.text.evaluate import scores
from debiased_contrastive.text.presets import TEXT_PRESETS
from debiased_contrastive.text.run import (
    SentenceEncoder,
    encoder_with,
    method_for,
    sentence_encoder,
    text_of,
    trained_towers,
    with_corpus,
)
from debiased_contrastive.text.settings import TextObjective, TextSettings
from debiased_contrastive.text.towers import TowerName
from debiased_contrastive.training.fit import fabric_of, same_run
from debiased_contrastive.training.memory import keep_freed_memory
from debiased_contrastive.training.settings import as_json

OBJECTIVES = {
    "biased": TextObjective("biased"),
    "tau-0.005": TextObjective("debiased", tau_plus=0.005),
    "tau-0.01": TextObjective("debiased", tau_plus=0.01),
}
UNTRAINED: dict[str, TowerName] = {"random-gru": "gru", "random-bag": "bag"}
"""Towers before their first step: a recurrent network, and a bag with a random direction for each word."""
LOGGED = ("step", "loss", "floored", "tau_cap_median", "sentences_per_second")
EVERY = 50
"""Steps between two points of a course in the results."""


class Entry(NamedTuple):
    """One run of the grid."""

    name: str
    settings: TextSettings
    trained: bool = True


def grid(base: TextSettings, seeds: int) -> Iterator[Entry]:
    """Every run; whole seeds first, so that a part of it is already a table."""
    for seed in range(seeds):
        settings = replace(base, seed=seed)
        for name, objective in OBJECTIVES.items():
            yield Entry(f"{name}-seed{seed}", replace(settings, objective=objective))
        for name, tower in UNTRAINED.items():
            yield Entry(f"{name}-seed{seed}", replace(settings, towers=replace(base.towers, name=tower)), False)


def result_of(entry: Entry, tasks: Path, runs: Path) -> dict[str, Any]:
    """Train and score one run of the grid, from wherever it stands."""
    settings = entry.settings
    corpus, content = text_of(settings), as_json(settings)
    # Where the text lies is no part of a result.
    content["text"] = {key: value for key, value in content["text"].items() if key not in ("path", "cache")}
    result = {"settings": content, "trained": entry.trained, "sentences": len(corpus)}
    if not entry.trained:
        return {**result, "tasks": scores(_untrained(settings, corpus), tasks)}
    run, fabric = same_run(runs / entry.name, settings), fabric_of(settings.training)
    for update in trained_towers(settings, run, fabric, corpus):
        if update.step % 100 == 0:
            print(f"{entry.name} {update.step}/{update.steps} loss {update.loss.item():.3f}", flush=True)
    course = [
        {key: line[key] for key in LOGGED}
        for line in run.metrics()
        if line["step"] % EVERY == 0 or line["step"] == 1
    ]
    return {
        **result,
        "tasks": scores(sentence_encoder(run.folder, fabric.device), tasks),
        "course": course,
        **{key: run.environment[key] for key in ("revision", "modified", "versions")},
    }


def _untrained(settings: TextSettings, corpus: Corpus) -> SentenceEncoder:
    torch.manual_seed(seed_of(settings.seed, "weights"))
    method = method_for(settings, corpus.tokenizer.get_vocab_size())
    return encoder_with(method, corpus.tokenizer, settings.text.longest)


def main() -> None:
    """Run what is missing of the grid."""
    parser = grid_parser(__doc__, "build/sentences")
    parser.add_argument("--corpus", type=Path, required=True, help="as for debiased train")
    parser.add_argument("--task-data", type=Path, required=True, help="folder with the files of the six tasks")
    parser.add_argument("--cache", type=Path, help="folder for the tokens; beside the corpus if not given")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    keep_freed_memory()
    base = with_corpus(TEXT_PRESETS["quickthoughts-small"].settings, arguments.corpus)
    base = replace(base, text=replace(base.text, cache=arguments.cache))
    entries = shared(grid(base, arguments.seeds), arguments.share)
    tasks, runs = arguments.task_data, arguments.runs
    fill(((entry.name, partial(result_of, entry, tasks, runs)) for entry in entries), arguments.out)


if __name__ == "__main__":
    main()
