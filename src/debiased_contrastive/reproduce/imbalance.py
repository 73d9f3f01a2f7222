"""Classes of different sizes: one tau_plus for all against the prior of each anchor's class, head and tail apart.

The paper assumes classes of one size. With a long tail, one tau_plus corrects anchors of rare classes too much and
those of frequent ones too little.
"""

from collections.abc import Generator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from debiased_contrastive.images.settings import Data, SimCLRSettings
from debiased_contrastive.report.numbers import markdown_table, mean_cell, paired_differences
from debiased_contrastive.reproduce import simclr_rows
from debiased_contrastive.reproduce.item import Claim, Item, Request, Scale, with_request
from debiased_contrastive.reproduce.results import read_percent, read_results
from debiased_contrastive.reproduce.runner import Job, grid
from debiased_contrastive.reproduce.simclr_rows import percent, with_objective
from debiased_contrastive.runs import Run


def long_tail(largest: int, smallest: int, classes: int) -> tuple[int, ...]:
    """Sizes of classes that fall by the same factor from one to the next (Cui et al., 2019).

    >>> long_tail(100, 25, 3)
    (100, 50, 25)
    """
    return tuple(round(largest * (smallest / largest) ** (place / (classes - 1))) for place in range(classes))


def _scale(name: str, sizes: tuple[int, ...], data: Data, what: str, cost: str) -> Scale:
    """A scale with such classes, and the probability that two images share one as tau_plus."""
    equal = simclr_rows.SCALES[name]
    prior = round(sum(size**2 for size in sizes) / sum(sizes) ** 2, 4)
    base = with_objective(equal.settings, tau_plus=prior)
    return replace(equal, settings=replace(base, data=replace(data, per_class=sizes)), what=what, cost=cost)


SCALES: dict[Any, Scale] = {
    "smoke": _scale(
        "smoke", long_tail(100, 12, 5), simclr_rows.SMOKE.data,
        "five classes of 100 to 12 images of Fashion-MNIST, 2 epochs", "5 s",
    ),
    "small": _scale(
        "small", long_tail(1000, 50, 10), Data("cifar10"),
        "CIFAR10 with ten classes of 1,000 to 50 images, width 16, batch 128, 60 epochs", "1 min on a core",
    ),
    "paper": _scale(
        "paper", long_tail(5000, 250, 10), Data("cifar10"),
        "CIFAR10 with ten classes of 5,000 to 250 images, ResNet-50, 400 epochs", "3 h on a GPU at 10 TFLOP/s",
    ),
}  # fmt: skip
LABELS = {
    "biased": "biased",
    "one": "debiased, one tau_plus",
    "priors": "debiased, the prior of each anchor's class",
    "unbiased": "unbiased, all labels",
}
PARTS = {"head": "more frequent half of the classes", "tail": "rarer half of the classes"}
PROBES = {"linear": "linear", "kNN": "knn", "10 labels": "few_shot_10"}


def make_rows(base: SimCLRSettings) -> dict[str, SimCLRSettings]:
    kinds = {"biased": "biased", "one": "debiased", "priors": "debiased", "unbiased": "unbiased"}
    return {name: with_objective(base, kind=kind) for name, kind in kinds.items()}


def make_jobs(request: Request) -> Iterator[Job]:
    base = with_request(SCALES[request.scale].settings, request)
    for job in grid(make_rows(base), request.seeds, "images", measure):
        yield replace(job, train=train_with_priors) if job.name.startswith("priors") else job


def train_with_priors(*given: Any) -> Generator[Any, None, None]:
    from debiased_contrastive.reproduce import controls

    return controls.train_with_priors(*given)


def measure(settings: SimCLRSettings, run: Run, images: Any) -> dict[str, Any]:
    from debiased_contrastive.reproduce.simclr_measures import measure_head_and_tail

    return measure_head_and_tail(settings, run, len(images.class_names) // 2)


def markdown(folder: Path) -> str:
    """Of the frequent and of the rare classes: accuracies, and what they gain on biased seed by seed."""
    results, tables = read_results(folder), []
    header = [cell for probe in PROBES for cell in (probe, "- biased")]
    for part, words in PARTS.items():
        lines = []
        for name in filter(results.__contains__, LABELS):
            cells = []
            for key in PROBES.values():
                runs = (results[name], results.get("biased", {}))
                own, biased = (read_percent(each, f"{key}_{part}") for each in runs)
                gain = "" if name == "biased" else mean_cell(paired_differences(own, biased), "+")
                cells += [mean_cell(list(own.values())), gain]
            lines.append([LABELS[name], *cells, str(len(results[name]))])
        tables.append(markdown_table([words, *header, "seeds"], lines))
    return "\n".join(tables)


ITEM = Item(
    "imbalance",
    "Class imbalance: one tau_plus, or one for each anchor",
    SCALES,
    make_jobs,
    (markdown,),
    (
        Claim(
            "The prior of each anchor's class beats one tau_plus on rare classes", "priors", "one",
            percent("knn_tail"), what="kNN accuracy", is_published=False,
        ),
        Claim(
            "Sampling bias costs rare classes accuracy", "unbiased", "biased",
            percent("knn_tail"), what="kNN accuracy", is_published=False,
        ),
    ),
    note="Probes learn from as many images of a rare class as of a frequent one.\n"
    "The prior of an anchor's class reads its label: it bounds what an estimate of it could bring.",
)  # fmt: skip
