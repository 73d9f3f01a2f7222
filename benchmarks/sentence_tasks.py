"""The six sentence tasks, all fits of a task at once, beside the same protocol with scikit-learn, fit by fit."""

import json
import os
import random
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score
from sklearn.model_selection import KFold
from sklearn.multiclass import OneVsRestClassifier
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]
from torch import Tensor
from torch.nn import functional as F

from benchmarks.contenders import OURS
from benchmarks.results import environment, parser, whole_number
from debiased_contrastive.files import write_atomically
from debiased_contrastive.report.numbers import markdown_table
from debiased_contrastive.text.task_files import SentenceTask, read_tasks
from debiased_contrastive.text.tasks import (
    FOLDS,
    REGULARISATIONS,
    SEED,
    TaskScore,
    evaluate_sentences,
)

THREADS = (1, 2)
TOLERANCES = {"scikit-learn": 1e-4, "scikit-learn-tight": 1e-5}
"""Its default stops where accuracies still move; a tenth of it is close to the optimum."""
FASTER, POINTS = 20.0, 0.3
Array: TypeAlias = npt.NDArray[Any]
Result = TypeVar("Result")


class Sets(NamedTuple):
    """What a task is to scikit-learn: shuffled train, test if there is one, and whether F1 chooses C."""

    x: Array
    y: Array
    test_x: Array
    test_y: Array
    by_f1: bool


class Fit(NamedTuple):
    rows: Array
    C: float


def made_up(samples: int) -> tuple[SentenceTask, ...]:
    """Tasks where the real ones are not at hand: classes differ in some of their words."""
    draw = random.Random(0)

    def sentence(label: int) -> str:
        return " ".join(
            f"own{label}-{draw.randrange(50)}" if draw.random() < 0.1 else f"word{draw.randrange(2000)}"
            for _ in range(12)
        )

    labels = tuple(place % 2 for place in range(samples))
    nested = SentenceTask("two classes", "cv", tuple(map(sentence, labels)), labels)
    labels = tuple(place % 6 for place in range(samples))
    split = SentenceTask(
        "six classes",
        "split",
        tuple(map(sentence, labels)),
        labels,
        test_sentences=tuple(map(sentence, labels)),
        test_labels=labels,
    )
    return nested, split


def words_projected(sentences: Sequence[str], features: int) -> Tensor:
    """Bags of words, each word a random direction, at length 1: vectors that need no training."""
    numbers: dict[str, int] = {}
    words = [numbers.setdefault(word, len(numbers)) for text in sentences for word in text.split()]
    ends = torch.tensor([len(text.split()) for text in sentences]).cumsum(0)
    table = torch.randn(len(numbers), features, generator=torch.Generator().manual_seed(0))
    bags = F.embedding_bag(torch.tensor(words), table, torch.cat([ends.new_zeros(1), ends[:-1]]), mode="sum")
    return F.normalize(bags)


def sets_of(task: SentenceTask, vectors: Tensor) -> Sets:
    counts = [len(task.sentences), len(task.partners), len(task.test_sentences), len(task.test_partners)]
    u, v, test_u, test_v = (part.numpy() for part in vectors.split(counts))
    if task.kind == "pairs":
        u, test_u = (np.c_[abs(a - b), a * b] for a, b in ((u, v), (test_u, test_v)))
    order = np.random.RandomState(SEED).permutation(len(u))
    return Sets(u[order], np.array(task.labels)[order], test_u, np.array(task.test_labels), task.kind == "pairs")


def choosing_fits(task: SentenceTask, samples: int) -> list[list[Fit]]:
    """The fits that choose C, for each C."""
    everything = np.arange(samples)
    outer = [rows for rows, _ in KFold(FOLDS).split(everything)] if task.kind == "cv" else [everything]
    folds = [rows[kept] for rows in outer for kept, _ in KFold(FOLDS).split(rows)]
    return [[Fit(kept, C) for kept in folds] for C in REGULARISATIONS]


def reported_fits(task: SentenceTask, samples: int, score: TaskScore) -> list[Fit]:
    everything = np.arange(samples)
    folds = [kept for kept, _ in KFold(FOLDS).split(everything)] if task.kind == "cv" else [everything]
    return [Fit(kept, C) for kept, C in zip(folds, score.regularisations, strict=True)]


def fitted(sets: Sets, fit: Fit, tolerance: float) -> Any:
    # At the default of 100 iterations it would stop before its tolerance.
    model = LogisticRegression(C=fit.C, tol=tolerance, max_iter=10_000)
    model = model if sets.y.max() < 2 else OneVsRestClassifier(model)
    return model.fit(sets.x[fit.rows], sets.y[fit.rows])


def tested(sets: Sets, fits: list[Fit], models: list[Any]) -> dict[str, float]:
    """Mean accuracy over the outer folds, or on test."""
    if len(sets.test_y):
        found = models[0].predict(sets.test_x)
        f1 = {"f1": float(f1_score(sets.test_y, found))} if sets.by_f1 else {}
        return {"accuracy": float((found == sets.test_y).mean()), **f1}
    scores = []
    for fit, model in zip(fits, models, strict=True):
        held = np.setdiff1d(np.arange(len(sets.y)), fit.rows)
        scores.append((model.predict(sets.x[held]) == sets.y[held]).mean())
    return {"accuracy": float(np.mean(scores))}


def seconds_with(threads: int, run: Callable[[], Result]) -> tuple[float, Result]:
    torch.set_num_threads(threads)
    with threadpool_limits(threads):
        start = time.perf_counter()
        result = run()
        return time.perf_counter() - start, result


def faster_threads(run: Callable[[], Any]) -> int:
    """One or two, whichever is faster now; benchmarks.probe says why."""
    run()
    return min(THREADS, key=lambda threads: seconds_with(threads, run)[0])


def measured(task: SentenceTask, features: int, per_c: int) -> list[dict[str, Any]]:
    """Rows of the contenders on one task."""
    texts = [*task.sentences, *task.partners, *task.test_sentences, *task.test_partners]
    vectors = words_projected(texts, features)
    sets = sets_of(task, vectors)
    own = [seconds_with(threads, lambda: evaluate_sentences(lambda _: vectors, [task])[0]) for threads in THREADS]
    seconds, found = min(own, key=lambda run: run[0])
    reported, choosing = reported_fits(task, len(sets.x), found), choosing_fits(task, len(sets.x))
    fits = sum(map(len, choosing)) + len(reported)
    base = {"task": task.name, "samples": len(sets.x), "width": sets.x.shape[1], "fits": fits}
    f1 = {} if found.f1 is None else {"f1": found.f1}
    rows = [{**base, "contender": OURS, "seconds": seconds, "accuracy": found.accuracy, **f1}]
    for name, tolerance in TOLERANCES.items():
        rows.append({**base, "contender": name, **scikit_learn(sets, choosing, reported, tolerance, per_c)})
        print(f"{task.name}: {name} {rows[-1]['seconds']:.0f} s, ours {seconds:.1f} s", flush=True)
    return rows


def scikit_learn(
    sets: Sets, choosing: list[list[Fit]], reported: list[Fit], tolerance: float, per_c: int
) -> dict[str, Any]:
    """Time of the whole protocol, of the fits that choose from `per_c` for each C, and accuracy."""
    draw = random.Random(SEED)
    threads = faster_threads(lambda: fitted(sets, choosing[len(choosing) // 2][0], tolerance))
    total = 0.0
    for fits in choosing:
        sample = draw.sample(fits, min(per_c, len(fits)))
        seconds, _ = seconds_with(threads, lambda sample=sample: [fitted(sets, fit, tolerance) for fit in sample])  # type: ignore[misc]
        total += seconds / len(sample) * len(fits)
    seconds, models = seconds_with(threads, lambda: [fitted(sets, fit, tolerance) for fit in reported])
    return {"seconds": total + seconds, "threads": threads, **tested(sets, reported, models)}


def by_task(rows: list[dict[str, Any]]) -> list[dict[str, dict[str, Any]]]:
    """For each task the rows of its contenders."""
    names = dict.fromkeys(row["task"] for row in rows)
    return [{row["contender"]: row for row in rows if row["task"] == name} for name in names]


def judged(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The targets: speed over all tasks together, accuracy on each, against both tolerances."""
    tasks, targets = by_task(rows), []
    for peer in TOLERANCES:
        total, own = (sum(by[name]["seconds"] for by in tasks) for name in (peer, OURS))
        fast = {"measure": "times as fast, all tasks", "value": total / own, "limit": FASTER}
        targets.append({"against": peer, **fast, "met": total / own >= FASTER})
        for by in tasks:
            points = 100 * abs(by[OURS]["accuracy"] - by[peer]["accuracy"])
            close = {"measure": f"accuracy difference on {by[OURS]['task']}, points", "value": points}
            targets.append({"against": peer, **close, "limit": POINTS, "met": points <= POINTS})
    return targets


def markdown(results: dict[str, Any]) -> str:
    """The result file as text and table, for docs/benchmarks.md."""
    machine, settings, tasks = results["environment"], results["settings"], by_task(results["rows"])
    versions = ", ".join(f"{name} {number}" for name, number in machine["versions"].items())
    titles = settings["contenders"]
    header = ["", *(by[OURS]["task"] for by in tasks)]
    lines = [["fits", *(str(by[OURS]["fits"]) for by in tasks)]]
    for name, title in titles.items():
        lines.append([f"{title}, s", *(f"{by[name]['seconds']:.3g}" for by in tasks)])
    for name in TOLERANCES:
        ratios = (by[name]["seconds"] / by[OURS]["seconds"] for by in tasks)
        lines.append([f"{titles[name]}, times as long", *(f"{ratio:.0f}" for ratio in ratios)])
    for name, title in titles.items():
        lines.append([f"{title}, accuracy, %", *(f"{100 * by[name]['accuracy']:.2f}" for by in tasks)])
    total, own = (sum(by[name]["seconds"] for by in tasks) for name in ("scikit-learn", OURS))
    return (
        f"{machine['cpu']}, {machine['threads']} threads; {versions}. {settings['features']} features, float32; "
        f"each with the number of threads that is faster. All tasks together: {total / own:.0f} times as fast as "
        f"scikit-learn with its defaults. {settings['note']}\n\n{markdown_table(header, lines)}"
    )


def main() -> None:
    line = parser("benchmarks.sentence_tasks", __doc__, "results/sentence_tasks.json")
    line.add_argument(
        "--task-data",
        type=Path,
        default=os.environ.get("DEBIASED_TASK_DATA"),
        help="folder with the files of the six tasks; made-up ones if neither it nor DEBIASED_TASK_DATA is given",
    )
    line.add_argument("--samples", type=whole_number(60), default=5000, help="of made-up tasks")
    line.add_argument("--features", type=whole_number(1), default=1000)
    line.add_argument("--fits-per-C", type=whole_number(1), default=2, dest="per_c", help="timed of scikit-learn's")
    arguments = line.parse_args()
    try:
        root = arguments.task_data
        tasks = made_up(arguments.samples) if root is None else read_tasks(Path(root))
    except (OSError, ValueError) as error:
        line.error(str(error))
    machine = environment("torch", "scikit-learn", "numpy", threads=max(THREADS))
    rows = [row for task in tasks for row in measured(task, arguments.features, arguments.per_c)]
    settings = {
        "benchmark": "sentence_tasks",
        "contenders": {
            OURS: "this library",
            **{name: f"scikit-learn, tol={tol:g}" for name, tol in TOLERANCES.items()},
        },
        "features": arguments.features,
        "fits_per_C": arguments.per_c,
        "note": (
            f"Of scikit-learn's fits that choose C, {arguments.per_c} for each C, drawn at random, are timed and "
            "stand for all of them. Its accuracy is that of all reported fits, with the C that were chosen here."
        ),
    }
    results = {
        "environment": machine,
        "settings": settings,
        "rows": rows,
        "targets": judged(rows) if root is not None else [],
    }
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(arguments.out, json.dumps(results, indent=2) + "\n")
    print(f"{markdown(results)}\nwritten to {arguments.out}")


if __name__ == "__main__":
    main()
