"""The numbers of one run: accuracies and geometry from its evaluation, the rest from its metrics."""

from collections.abc import Iterable, Mapping
from statistics import fmean, median
from typing import Any

from debiased_contrastive.domain import Metric
from debiased_contrastive.paper import SENTENCE_TASKS
from debiased_contrastive.report.record import Record, finite

TASKS = {
    "MR": "reviews of films, good or bad",
    "CR": "reviews of products, good or bad",
    "SUBJ": "subjective or objective",
    "MPQA": "polarity of phrases",
    "TREC": "what a question asks for",
    "MSRP accuracy": "whether two sentences say the same",
    "MSRP F1": "F1 of the same",
}
LINEAR = Metric("linear_top1", "Linear top-1", "test accuracy of a linear classifier on frozen features")
SIX_TASKS = Metric("six_tasks", "Six tasks", "mean of the accuracies on the six sentence tasks")
RETURN = Metric(
    "return", "Return", "what an episode gains when the agent does what it thinks best, 1,000 at most", False, 0
)
MAIN_RESULTS = (
    LINEAR,
    Metric("linear_top5", "Linear top-5", "the class is among its five likeliest"),
    Metric("official_last_top1", "Official top-1", "probe of the released code, after its last epoch"),
    Metric("official_last_top5", "Official top-5", "the class is among its five likeliest"),
    Metric("official_best_top1", "Official best", "best epoch of that probe, chosen on test, so it flatters"),
    Metric("knn", "kNN", "vote of the nearest training samples"),
    Metric("mean_classifier", "Mean classifier", "the nearest class mean, as in Lemma 4"),
    SIX_TASKS,
    *(Metric(name, name, TASKS[name]) for name in SENTENCE_TASKS),
    RETURN,
)
MAINS = (LINEAR, SIX_TASKS, *(metric for metric in MAIN_RESULTS if metric.key in TASKS), RETURN)
"""What costs and gaps are counted in: the first of them that any run of a comparison has."""
EMBEDDINGS = (
    Metric("alignment", "Alignment", "mean squared distance of two views; lower is closer", False, 3),
    Metric("uniformity", "Uniformity", "log mean Gaussian potential of pairs; lower is more even", False, 3),
    Metric("within", "Cosine within", "mean cosine of pairs of one class", False, 3),
    Metric("between", "Cosine between", "mean cosine of pairs of two classes", False, 3),
    Metric("floored", "Floored", "share of anchors whose estimate was below its floor in the last epoch, or line"),
    Metric("tau_cap_low", "Safe τ⁺", "the τ⁺ that would leave 95 % of the anchors off the floor", False, 3),
    Metric("false_negative_rate", "False negatives", "share of the negatives that had the anchor's own class"),
)


SPEEDS = {"images_per_second": "Images", "sentences_per_second": "Sentences", "frames_per_second": "Frames"}
"""What is counted by which key of the metrics."""


def values(record: Record) -> dict[str, float]:
    """What this run measured, by key; accuracies and other shares from 0 to 1."""
    evaluation = record.evaluation
    official = evaluation.get("official")
    found = {
        "linear_top1": _accuracy(evaluation.get("linear")),
        "linear_top5": _entry(evaluation.get("linear"), "top5"),
        **{f"official_{key}": _entry(official, key) for key in ("last_top1", "last_top5", "best_top1")},
        "knn": _accuracy(evaluation.get("knn")),
        "mean_classifier": _accuracy(evaluation.get("mean_classifier")),
        **{key: finite(evaluation.get(key)) for key in ("alignment", "uniformity", "within", "between")},
        **{key: _late(record.metrics, key) for key in ("floored", "tau_cap_low")},
        "false_negative_rate": _mean(record.metrics, "false_negative_rate"),
        **_tasks(evaluation.get("tasks")),
        RETURN.key: _return(record),
        **{key: _middle(record.metrics, key) for key in SPEEDS},
    }
    return {key: value for key, value in found.items() if value is not None}


def _return(record: Record) -> float | None:
    """Of the evaluation; before it, of the one at the end of a training that came to its end."""
    found = _entry(record.evaluation.get("return"), "mean")
    frames, training = finite(record.section("training").get("frames")), record.section("training")
    ended = [
        value
        for line in record.metrics
        if (value := finite(line.get("return"))) is not None
        and frames is not None
        and (finite(line.get("step")) or 0) >= frames // (finite(training.get("repeat")) or 1)
    ]
    return found if found is not None or not ended else ended[-1]


def _tasks(tasks: object) -> dict[str, float | None]:
    """Scores of the sentence tasks, and their mean where all six are there."""
    if not isinstance(tasks, Mapping):
        return {}
    found = {}
    for name in SENTENCE_TASKS:
        task, _, measure = name.partition(" ")
        found[name] = _entry(tasks.get(task), measure.lower() or "accuracy")
    accuracies = [value for name, value in found.items() if name != "MSRP F1" and value is not None]
    mean = fmean(accuracies) if len(accuracies) == len(SENTENCE_TASKS) - 1 else None
    return {**found, SIX_TASKS.key: mean}


def _accuracy(value: object) -> float | None:
    """An accuracy that stands alone or under a name."""
    if not isinstance(value, Mapping):
        return finite(value)
    return finite(value.get("top1", value.get("accuracy")))


def _entry(value: object, key: str) -> float | None:
    return finite(value.get(key)) if isinstance(value, Mapping) else None


def _logged(lines: Iterable[Mapping[str, Any]], key: str) -> list[float]:
    return [number for line in lines if (number := finite(line.get(key))) is not None]


def _mean(lines: Iterable[Mapping[str, Any]], key: str) -> float | None:
    numbers = _logged(lines, key)
    return fmean(numbers) if numbers else None


def _middle(lines: Iterable[Mapping[str, Any]], key: str) -> float | None:
    # The median, since the first step also warms caches up.
    numbers = _logged(lines, key)
    return median(numbers) if numbers else None


def _late(lines: Iterable[Mapping[str, Any]], key: str) -> float | None:
    """The mean over the last epoch that logged the key, one line where there are no epochs."""
    logged = [line for line in lines if finite(line.get(key)) is not None]
    if not logged:
        return None
    end = finite(logged[-1].get("epoch"))
    if end is None:
        return finite(logged[-1][key])
    # Epochs may be whole numbers or, within an epoch, parts of one.
    return _mean([line for line in logged if (finite(line.get("epoch")) or 0.0) > end - 1], key)
