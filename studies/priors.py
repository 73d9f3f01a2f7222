"""All estimators of the class prior, compared with the truth on worlds where it is known.

python -m studies.priors --out results/priors
python -m studies.priors --tables results/priors
"""

from argparse import Namespace
from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, get_args

import torch
from torch import Tensor

from debiased_contrastive.files import read_json
from debiased_contrastive.prior.clusters import cluster_prior
from debiased_contrastive.prior.estimate import PriorEstimate, Scores
from debiased_contrastive.prior.labels import collision_prior
from debiased_contrastive.prior.mixture import Method, mixture_prior
from debiased_contrastive.report.numbers import markdown_table
from debiased_contrastive.reproduce.runner import Job
from debiased_contrastive.theory.worlds import VonMisesFisherWorld, random_means
from studies.command import Study, main

CLASSES = (2, 5, 10, 20, 100)
KAPPA = {2: 60.0, 5: 60.0, 10: 60.0, 20: 100.0, 100: 250.0}
"""Concentration of the classes, large enough to tell them apart in 64 dimensions."""
PAIRS, ITEMS, LABELS = (3000, 30_000), 5000, 500
SURROGATE = 4.0
"""Concentration of stand-ins around their anchor, as a multiple of the classes'."""
METHODS = ("labels", *get_args(Method), "clusters")


def make_jobs(_flags: Namespace) -> Iterator[Job]:
    """Every world."""
    for positives, sizes, classes in product(("true", "stand-in"), ("even", "uneven"), CLASSES):
        yield Job(f"{positives}-{sizes}-{classes}", partial(compare, classes, sizes, positives))


def make_world(classes: int, sizes: str) -> VonMisesFisherWorld:
    """Classes in random directions; uneven: the k-th has a share in proportion to 1 / (k + 1)."""
    generator = torch.Generator().manual_seed(classes)
    ranks = torch.arange(2, classes + 2, dtype=torch.float64)
    shares = 1 / ranks if sizes == "uneven" else torch.ones_like(ranks)
    return VonMisesFisherWorld(random_means(classes, 64, generator), KAPPA[classes], priors=shares / shares.sum())


def draw_scores(world: VonMisesFisherWorld, positives: str, generator: torch.Generator) -> Scores:
    """Similarities of positive pairs, of the class or stand-ins, and of random pairs."""
    x, labels = world.sample(PAIRS[0], generator)
    own = positives == "true"
    y = world.members(labels, generator) if own else world.surrogates(x, SURROGATE * world.kappa, generator)
    u, _ = world.sample(2 * PAIRS[1], generator)
    return Scores(_similarity(x, y), _similarity(u[::2], u[1::2]))


def compare(classes: int, sizes: str, positives: str) -> dict[str, Any]:
    """Every estimate in one world."""
    world = make_world(classes, sizes)
    generator = torch.Generator().manual_seed(0)
    scores = draw_scores(world, positives, generator)
    x, labels = world.sample(ITEMS, generator)
    return {
        "classes": classes,
        "sizes": sizes,
        "positives": positives,
        "truth": float(world.prior.square().sum()),
        "estimates": list_estimates(labels, scores, cluster_prior(x.numpy())),
    }


def list_estimates(labels: Tensor, scores: Scores, by_clusters: PriorEstimate) -> list[dict[str, Any]]:
    """The estimates of all METHODS, as results keep them."""
    by_mixtures = (mixture_prior(scores, method) for method in get_args(Method))
    found: list[PriorEstimate] = [collision_prior(labels[:LABELS].numpy()), *by_mixtures, by_clusters]
    return [asdict(estimate) for estimate in found]


def markdown(folder: Path) -> str:
    """One row for each world, one column for each estimator; a star where it warns."""
    records = [read_json(path) for path in sorted(folder.glob("*.json"))]
    records.sort(key=lambda record: (record["positives"] != "true", record["sizes"], record["classes"]))
    lines = []
    for record in records:
        world = [record["positives"], f"{record['classes']} {record['sizes']}", f"{record['truth']:.4f}"]
        lines.append([*world, *map(show_estimate, record["estimates"])])
    return markdown_table(["positives", "classes", "true tau_plus", *METHODS], lines, "ll")


def show_estimate(estimate: dict[str, Any]) -> str:
    """An estimate as a cell of a table, with its interval; a star where it warns."""
    star = "*" if estimate["warnings"] else ""
    return f"{estimate['value']:.4f}{star} ({estimate['low']:.3f} to {estimate['high']:.3f})"


def _similarity(x: Tensor, y: Tensor) -> Any:
    return (x * y).sum(1).numpy()


STUDY = Study(make_jobs, (markdown,))

if __name__ == "__main__":
    main("studies.priors")
