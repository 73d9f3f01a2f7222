"""The linear probe beside scikit-learn's LogisticRegression, same objective and C: time, accuracy, value."""

import argparse
import math
import time
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import torch
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]
from torch import Tensor
from torch.nn import functional as F

from benchmarks.contenders import OURS
from benchmarks.results import environment, parser, publish, whole_number
from benchmarks.targets import Target, judged
from debiased_contrastive.evaluation.linear import linear_probe
from debiased_contrastive.evaluation.logistic import logistic_regression

THREADS = (1, 2)
CALIBRATION = 5000, 0.001
"""Samples and C of a short fit that finds the better number of threads."""
DIM, CLASSES, LATENT, DISTANCE = 512, 10, 64, 0.37
REGULARISATIONS = (0.01, 0.1, 1.0)
WHOLE, SKLEARN = "whole-probe", "scikit-learn"
TITLES = {
    OURS: "this library",
    SKLEARN: "scikit-learn LogisticRegression",
    WHOLE: "this library, C chosen among six on a validation split",
}


def points(ours: float, peer: float) -> float:
    """Difference of two accuracies in per cent."""
    return 100 * abs(ours - peer)


# At scikit-learn's default C; the other rows are there to see how time depends on C.
SIZE = (("samples", 50_000), ("C", 1.0))
TARGETS = (
    Target("time / scikit-learn", "seconds", (SKLEARN,), 0.1, SIZE),
    Target("accuracy difference, points", "accuracy", (SKLEARN,), 0.2, SIZE, compared=points),
)


class Sets(NamedTuple):
    train: Tensor
    labels: Tensor
    test: Tensor
    test_labels: Tensor


Solution: TypeAlias = tuple[Tensor, Tensor]
Fit: TypeAlias = Callable[[Sets, float], Solution]


def synthetic(samples: int, seed: int = 0) -> Sets:
    """Standardised ReLU features of a Gaussian mixture with 85 % accuracy, five to one for train and test.

    The scales of the latent directions fall as 1 / j. So the eigenvalues of the features fall from 170 to
    0.002, as those of a small convolutional encoder on CIFAR10 do, from 150 to 0.004. On features whose
    directions are all alike scikit-learn needs a sixth of the iterations; no encoder has such features.
    """
    generator = torch.Generator().manual_seed(seed)
    total = samples + samples // 5
    labels = torch.randint(CLASSES, (total,), generator=generator)
    centres = torch.randn(CLASSES, LATENT, generator=generator)
    noise = torch.randn(total, LATENT, generator=generator)
    latent = (DISTANCE * centres[labels] + noise) / torch.arange(1, LATENT + 1)
    features = torch.relu(latent @ torch.randn(LATENT, DIM, generator=generator))
    mean, deviation = features[:samples].mean(0), features[:samples].std(0)
    features = (features - mean) / deviation
    return Sets(features[:samples], labels[:samples], features[samples:], labels[samples:])


def ours(sets: Sets, C: float) -> Solution:  # noqa: N803
    return logistic_regression(sets.train, sets.labels, C)


def theirs(sets: Sets, C: float) -> Solution:  # noqa: N803
    # Default solver and tolerance; at the default of 100 iterations it would stop long before the tolerance.
    model = LogisticRegression(C=C, max_iter=5000)
    model.fit(sets.train.numpy(), sets.labels.numpy())
    return torch.tensor(model.coef_), torch.tensor(model.intercept_)


FITS: dict[str, Fit] = {OURS: ours, SKLEARN: theirs}


def row(seconds: float, solution: Solution, sets: Sets, C: float) -> dict[str, Any]:  # noqa: N803
    weight, bias = (tensor.double() for tensor in solution)
    hits = (sets.test.double() @ weight.T + bias).argmax(1) == sets.test_labels
    losses = F.cross_entropy(sets.train.double() @ weight.T + bias, sets.labels, reduction="sum")
    value = float(C * losses + weight.square().sum() / 2)
    return {"seconds": seconds, "accuracy": hits.double().mean().item(), "objective": value}


def seconds_with(threads: int, fit: Fit, sets: Sets, C: float) -> tuple[float, Solution]:  # noqa: N803
    torch.set_num_threads(threads)
    with threadpool_limits(threads):
        start = time.perf_counter()
        solution = fit(sets, C)
        return time.perf_counter() - start, solution


def best_threads(fit: Fit, sets: Sets) -> int:
    """One or two, whichever is faster now.

    On cores that others use as well, threads that wait for each other are slower than one: scikit-learn's
    two took 15 times as long as its one.
    """
    samples, C = CALIBRATION  # noqa: N806
    few = Sets(sets.train[:samples], sets.labels[:samples], sets.test, sets.test_labels)
    fit(few, C)
    return min(THREADS, key=lambda threads: seconds_with(threads, fit, few, C)[0])


def measured(
    sets: Sets,
    C: float,  # noqa: N803
    rounds: int,
    threads: dict[str, int],
) -> list[dict[str, Any]]:
    """The minimum over rounds in which the contenders take turns, so that a busy moment hits both alike."""
    runs: dict[str, list[tuple[float, Solution]]] = {name: [] for name in FITS}
    for _ in range(rounds):
        for name, fit in FITS.items():
            runs[name].append(seconds_with(threads[name], fit, sets, C))
    best = {name: min(found, key=lambda run: run[0]) for name, found in runs.items()}
    return [
        {
            "contender": name,
            "samples": len(sets.train),
            "C": C,
            "threads": threads[name],
            "rounds": rounds,
            **row(*run, sets, C),
        }
        for name, run in best.items()
    ]


def whole_probe(sets: Sets, threads: int) -> dict[str, Any]:
    """The protocol with its choice among all regularisations, for which there is no target."""
    torch.set_num_threads(threads)
    start = time.perf_counter()
    probe = linear_probe(*sets)
    seconds = time.perf_counter() - start
    setting = {"samples": len(sets.train), "C": probe.regularisation, "threads": threads, "rounds": 1}
    found = {"seconds": seconds, "accuracy": probe.top1, "validation": probe.validation}
    return {"contender": WHOLE, **setting, **found}


def _positive(text: str) -> float:
    value = float(text)
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"must be positive, got {text!r}")
    return value


def main() -> None:
    line = parser("benchmarks.probe", __doc__, "results/probe.json")
    line.add_argument("--samples", type=whole_number(1000), default=50_000)
    line.add_argument("--C", nargs="+", type=_positive, default=REGULARISATIONS, help="scikit-learn's default is 1")
    line.add_argument("--rounds", type=whole_number(1), default=2)
    arguments = line.parse_args()
    machine = environment("torch", "scikit-learn", threads=max(THREADS))
    sets = synthetic(arguments.samples)
    threads = {name: best_threads(fit, sets) for name, fit in FITS.items()}
    choices = dict.fromkeys(arguments.C)
    rows = [found for C in choices for found in measured(sets, C, arguments.rounds, threads)]
    rows.append(whole_probe(sets, threads[OURS]))
    settings = {
        "benchmark": "probe",
        "contenders": TITLES,
        "samples": arguments.samples,
        "features": DIM,
        "classes": CLASSES,
        "dtype": "float32",
    }
    results = {"environment": machine, "settings": settings, "rows": rows, "targets": judged(rows, TARGETS)}
    publish(arguments.out, results)


if __name__ == "__main__":
    main()
