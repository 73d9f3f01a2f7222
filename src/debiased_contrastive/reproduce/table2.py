"""Table 2: biased beside debiased sentence vectors on the six tasks, with untrained ones for scale.

python -m debiased_contrastive.reproduce table2 --corpus NOVELS --task-data TASKS --out results/novels
python -m debiased_contrastive.reproduce table2 --tables results/novels
"""

from argparse import Namespace
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

import torch

from debiased_contrastive.numerics import derive_seed
from debiased_contrastive.paper import SENTENCE_SCORES, SENTENCE_TASKS
from debiased_contrastive.report.numbers import markdown_table, mean_cell, paired_differences
from debiased_contrastive.reproduce import runner
from debiased_contrastive.reproduce.runner import Job, Seeds, Study, grid, read_results
from debiased_contrastive.runs import Run
from debiased_contrastive.text.corpus import Corpus
from debiased_contrastive.text.frozen import SentenceEncoder
from debiased_contrastive.text.quickthoughts import make_method
from debiased_contrastive.text.run import evaluate, read_corpus, score_tasks
from debiased_contrastive.text.settings import TEXT_PRESETS, TextObjective, TextSettings, TowerName, with_corpus

SCALES = {"small": TEXT_PRESETS["quickthoughts-small"].settings, "paper": TEXT_PRESETS["quickthoughts"].settings}
UNTRAINED: dict[str, TowerName] = {"random-bag": "bag", "random-gru": "gru"}
"""Towers before their first step: a bag with a random direction for each word, and a recurrent network."""
OBJECTIVES = {
    "biased": TextObjective("biased"),
    "tau-0.005": TextObjective("debiased", tau_plus=0.005),
    "tau-0.01": TextObjective("debiased", tau_plus=0.01),
}
LABELS = {
    "random-bag": "bag of words, random directions",
    "random-gru": "random towers",
    "biased": "biased",
    "tau-0.005": "tau_plus 0.005",
    "tau-0.01": "tau_plus 0.01",
}
LOGGED = ("step", "loss", "floored", "tau_cap_median", "sentences_per_second")
CURVE_STEPS = 50
"""Steps between two lines of a curve in a result."""


def make_jobs(base: TextSettings, seeds: int, tasks: Path) -> Iterator[Job]:
    """Jobs for every objective with every seed, and for untrained towers."""
    objectives = {name: replace(base, objective=objective) for name, objective in OBJECTIVES.items()}
    yield from grid(objectives, seeds, "text", partial(measure, tasks=tasks))
    untrained = {name: replace(base, towers=replace(base.towers, name=tower)) for name, tower in UNTRAINED.items()}
    for job in grid(untrained, seeds, "", measure_untrained):
        yield replace(job, measure=partial(measure_untrained, job.settings, tasks))


def measure(_settings: TextSettings, run: Run, corpus: Corpus, *, tasks: Path) -> dict[str, Any]:
    """The scores on the six tasks, and the curves."""
    evaluate(run, task_data=tasks)
    lines = [line for line in run.metrics() if line["step"] % CURVE_STEPS == 0 or line["step"] == 1]
    curve = [{key: line[key] for key in LOGGED} for line in lines]
    return {"trained": True, "sentences": len(corpus), "tasks": run.evaluation["tasks"], "course": curve}


def measure_untrained(settings: TextSettings, tasks: Path) -> dict[str, Any]:
    """The scores of towers before their first step."""
    corpus = read_corpus(settings)
    torch.manual_seed(derive_seed(settings.seed, "weights"))
    method = make_method(settings, corpus.tokenizer.get_vocab_size())
    scores = score_tasks(SentenceEncoder(method, corpus.tokenizer, settings.text.longest).encode, tasks)
    content = runner.settings_without_places(settings)
    return {"settings": content, "trained": False, "sentences": len(corpus), "tasks": scores}


def markdown(folder: Path) -> str:
    """One row for each setting: scores in percent, mean of the accuracies, and what that gains on biased."""
    results = read_results(folder, "biased")
    biased, lines = _means(results["biased"]), []
    for name in sorted(results, key=[*LABELS, *results].index):
        runs, means = results[name], _means(results[name])
        cells = [mean_cell([_score(run, task) for run in runs.values()]) for task in SENTENCE_TASKS]
        gains = "" if name == "biased" else mean_cell(paired_differences(means, biased), "+")
        lines.append([LABELS.get(name, name), *cells, mean_cell(list(means.values())), gains, str(len(runs))])
    for tau_plus, paper in SENTENCE_SCORES.items():
        mean = fmean(value for task, value in paper.items() if task != "MSRP F1")
        label = f"paper, tau_plus {tau_plus}" if tau_plus else "paper, biased"
        lines.append([label, *(f"{value:.1f}" for value in paper.values()), f"{mean:.1f}", "", ""])
    return markdown_table(["vectors", *SENTENCE_TASKS, "mean", "mean - biased", "seeds"], lines)


def _score(run: Mapping[str, Any], task: str) -> float:
    name, _, key = task.partition(" ")
    return 100 * float(run["tasks"][name][key.lower() or "accuracy"])


def _means(runs: Seeds) -> dict[int, float]:
    tasks = [task for task in SENTENCE_TASKS if task != "MSRP F1"]
    return {seed: fmean(_score(run, task) for task in tasks) for seed, run in runs.items()}


def course_markdown(folder: Path) -> str:
    """Share of the pairs on the floor in each tenth of the training, and tau_cap in the last."""
    results, lines = read_results(folder, "biased"), []
    for name in filter(results.__contains__, ("tau-0.005", "tau-0.01")):
        shares = [cell.rstrip("%") for cell in runner.cells_by_part(results[name], "floored", 10, "{:.2%}")]
        caps = [runner.means_by_part(run["course"], "tau_cap_median", 10)[-1] for run in results[name].values()]
        lines.append([LABELS[name], *shares, f"{fmean(caps):.2f}"])
    return markdown_table(["floored, %", *(f"{10 * k} %" for k in range(1, 11)), "tau_cap at the end"], lines)


def _jobs(flags: Namespace) -> Iterator[Job]:
    base = with_corpus(SCALES[flags.scale], flags.corpus)
    return make_jobs(replace(base, text=replace(base.text, cache=flags.cache)), flags.seeds, flags.task_data)


STUDY = Study(
    jobs=_jobs,
    tables=(markdown, course_markdown),
    scales=SCALES,
    seeds=3,
    flags={
        "corpus": {"type": Path, "required": True, "help": "The text to train on, as for debiased train."},
        "task-data": {"type": Path, "required": True, "help": "The folder with the files of the six tasks."},
        "cache": {"type": Path, "help": "The folder for the tokens; beside the corpus if not given."},
    },
)
