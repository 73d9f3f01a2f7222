"""Table 2: biased beside debiased sentence vectors on the six tasks, with untrained ones for scale.

`--data` is the text to train on, `--task-data` the folder with the files of the tasks.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

from debiased_contrastive.paper import SENTENCE_SCORES, SENTENCE_TASKS
from debiased_contrastive.report.numbers import markdown_table, mean_cell, paired_differences
from debiased_contrastive.reproduce.item import Claim, Item, Request, Scale
from debiased_contrastive.reproduce.results import Seeds, cells_by_part, read_results
from debiased_contrastive.reproduce.runner import Job, grid, settings_without_places
from debiased_contrastive.runs import Run
from debiased_contrastive.text.settings import TEXT_PRESETS, TextObjective, TextSettings, TowerName, with_corpus

SMALL = TEXT_PRESETS["quickthoughts-small"].settings
SMOKE = replace(
    SMALL,
    text=replace(SMALL.text, vocabulary=500, longest=12),
    towers=replace(SMALL.towers, word_dim=8, hidden_dim=6),
    training=replace(SMALL.training, epochs=1, batch=400, log_every=1),
)
SCALES: dict[Any, Scale] = {
    "smoke": Scale("6,000 sentences of six novels, tiny towers, 1 epoch", "8 s", SMOKE, seeds=1),
    "small": Scale(
        "any text, small towers, 2 epochs", "half an hour on a core for 490,000 sentences", SMALL,
        data="--data TEXT and --task-data DIR",
    ),
    "paper": Scale(
        "BookCorpus, the paper's towers, 1 epoch of 114,466 steps", "a time that --first-step tells",
        TEXT_PRESETS["quickthoughts"].settings, seeds=3, data="--data BOOKCORPUS and --task-data DIR",
    ),
}  # fmt: skip
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


def make_jobs(base: TextSettings, seeds: int, tasks: Path | None) -> Iterator[Job]:
    """Jobs for every objective with every seed, and for untrained towers; without tasks, those of stand-ins."""
    objectives = {name: replace(base, objective=objective) for name, objective in OBJECTIVES.items()}
    yield from grid(objectives, seeds, "text", partial(measure, tasks=tasks))
    untrained = {name: replace(base, towers=replace(base.towers, name=tower)) for name, tower in UNTRAINED.items()}
    for job in grid(untrained, seeds, "", measure_untrained):
        yield replace(job, measure=partial(measure_untrained, job.settings, tasks))


def measure(_settings: TextSettings, run: Run, corpus: Any, *, tasks: Path | None) -> dict[str, Any]:
    """The scores on the six tasks, and the curves."""
    from debiased_contrastive.text.frozen import load_encoder
    from debiased_contrastive.text.tasks import write_scores

    write_scores(run, load_encoder(run.folder).encode, _read_tasks(tasks), None)
    lines = [line for line in run.metrics() if line["step"] % CURVE_STEPS == 0 or line["step"] == 1]
    curve = [{key: line[key] for key in LOGGED} for line in lines]
    return {"trained": True, "sentences": len(corpus), "tasks": run.evaluation["tasks"], "course": curve}


def _read_tasks(tasks: Path | None) -> Any:
    if tasks is None:
        from debiased_contrastive.reproduce.smoke_data import novel_tasks

        return novel_tasks()
    from debiased_contrastive.text.task_files import read_tasks

    return read_tasks(tasks)


def measure_untrained(settings: TextSettings, tasks: Path | None) -> dict[str, Any]:
    """The scores of towers before their first step."""
    import torch

    from debiased_contrastive.numerics import derive_seed
    from debiased_contrastive.text.frozen import SentenceEncoder
    from debiased_contrastive.text.quickthoughts import make_method
    from debiased_contrastive.text.run import read_corpus
    from debiased_contrastive.text.tasks import evaluate_sentences

    corpus = read_corpus(settings)
    torch.manual_seed(derive_seed(settings.seed, "weights"))
    method = make_method(settings, corpus.tokenizer.get_vocab_size())
    encode = SentenceEncoder(method, corpus.tokenizer, settings.text.longest).encode
    scores = {score.name: score.as_json() for score in evaluate_sentences(encode, _read_tasks(tasks))}
    content = settings_without_places(settings)
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
    return {seed: _mean(run) for seed, run in runs.items()}


def course_markdown(folder: Path) -> str:
    """Share of the pairs on the floor in each tenth of the training, and tau_cap in the last."""
    results, lines = read_results(folder, "biased"), []
    for name in filter(results.__contains__, ("tau-0.005", "tau-0.01")):
        shares = [cell.rstrip("%") for cell in cells_by_part(results[name], "floored", 10, "{:.2%}")]
        *_, cap = cells_by_part(results[name], "tau_cap_median", 10, "{:.2f}")
        lines.append([LABELS[name], *shares, cap])
    return markdown_table(["floored, %", *(f"{10 * k} %" for k in range(1, 11)), "tau_cap at the end"], lines)


def _jobs(request: Request) -> Iterator[Job]:
    base = with_corpus(SCALES[request.scale].settings, request.data)
    if request.epochs is not None:
        base = replace(base, training=replace(base.training, epochs=request.epochs))
    return make_jobs(base, request.seeds, request.task_data and request.task_data.resolve())


def _check(request: Request) -> None:
    """Raise where the tasks are not there: before hours of training, not after."""
    if request.scale == "smoke":
        return
    if request.data is None or request.task_data is None:
        raise ValueError("table2 needs --data, the text to train on, and --task-data, the files of the six tasks")
    _read_tasks(request.task_data)


def _mean(run: Mapping[str, Any]) -> float:
    return fmean(_score(run, task) for task in SENTENCE_TASKS if task != "MSRP F1")


ITEM = Item(
    "table2",
    "Table 2: sentence vectors on six tasks (BookCorpus)",
    SCALES,
    _jobs,
    (markdown, course_markdown),
    (
        Claim(
            "Debiasing with tau_plus 0.01 beats the biased loss",
            "tau-0.01",
            "biased",
            _mean,
            what="mean of six tasks",
        ),
    ),
    note="Levels of another text than BookCorpus do not compare with the paper's; differences may.",
    check=_check,
    folders={"small": "novels"},
)
