"""All estimators of the class prior on CIFAR-10, whose ten classes of one size make the true prior 0.1.

    python -m studies.cifar10_priors --run RUN --out results/cifar10_priors
    python -m studies.cifar10_priors --tables results/cifar10_priors

The images are of the whole training set, whichever part of it RUN was trained on.
"""

from argparse import Namespace
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import product
from pathlib import Path
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from debiased_contrastive.files import read_json
from debiased_contrastive.images.augment import make_views, prepare
from debiased_contrastive.images.evaluate import BATCH
from debiased_contrastive.images.settings import ImageSettings, read_settings
from debiased_contrastive.images.sources import read_training_images
from debiased_contrastive.numerics import make_generator
from debiased_contrastive.prior.clusters import cluster_prior
from debiased_contrastive.prior.estimate import PriorEstimate, Scores
from debiased_contrastive.prior.labels import frequency_prior
from debiased_contrastive.prior.mixture import separability
from debiased_contrastive.report.numbers import markdown_table
from debiased_contrastive.reproduce.runner import Job
from debiased_contrastive.reproduce.simclr_measures import load_method
from debiased_contrastive.runs import Run, finished_run
from studies.command import Study, main
from studies.priors import ITEMS, METHODS, PAIRS, list_estimates, show_estimate

REPRESENTATIONS = ("pixels", "PCA", "features", "projections")
POSITIVES = ("class", "view")
PCA_DIMENSIONS = 64

Representation: TypeAlias = Callable[[Tensor], Tensor]
"""From (b, c, s, s) normalised images to (b, d) rows."""


@dataclass(frozen=True, eq=False)
class Sample:
    """The images that every representation is given."""

    images: Tensor
    """(n, c, s, s) whole and normalised."""
    labels: Tensor
    """(n,)"""
    views: Tensor
    """(2, n, c, s, s) two views of each."""
    truth: float
    """The true prior of the data that they were drawn from."""


def make_jobs(flags: Namespace) -> Iterator[Job]:
    """Every representation with both kinds of positives."""
    for name, kind in product(REPRESENTATIONS, POSITIVES):
        yield Job(f"{name}-{kind}", partial(compare, flags.run, name, kind))


def compare(folder: Path, name: str, kind: str) -> dict[str, Any]:
    """Every estimate on a representation of images, by the network of a run where it needs one."""
    sample, representations = load(folder)
    found = estimate(sample, representations[name], kind)
    return {"representation": name, "positives": kind, **found, **describe_run(finished_run(folder))}


@lru_cache(maxsize=1)
def load(folder: Path) -> tuple[Sample, dict[str, Representation]]:
    """The images, and every representation by its name; those of pixels are fitted to the images."""
    run = finished_run(folder)
    settings = read_settings(run.settings)
    sample, method = draw_sample(settings), load_method(settings, run)
    networks = (method.encoder, nn.Sequential(method.encoder, method.projector))
    found = (*fit_pixels(sample.images), *map(_apply_network, networks))
    return sample, dict(zip(REPRESENTATIONS, found, strict=True))


def draw_sample(settings: ImageSettings) -> Sample:
    """Random training images of all classes, with views as the settings make them."""
    if settings.data.name != "cifar10":
        raise ValueError(f"the run must be of cifar10; got {settings.data.name}: train one with a cifar10 preset")
    images = read_training_images(replace(settings.data, classes=(), per_class=None))
    if images.labels is None:
        raise ValueError("the images must have labels: without them there are no pairs of a class")
    generator = make_generator(settings.seed, "priors of images")
    chosen = torch.randperm(len(images), generator=generator)[:ITEMS]
    pixels = images.batch(chosen)
    return Sample(
        prepare(settings.views, pixels),
        images.labels[chosen],
        make_views(settings.views, pixels, 2, generator),
        frequency_prior((images.labels.bincount().double() / len(images)).numpy()),
    )


def estimate(sample: Sample, represent: Representation, kind: str) -> dict[str, Any]:
    """Every estimate, with positives of that kind."""
    rows, by_clusters = represent_once(sample, represent)
    views = torch.stack([represent(view) for view in sample.views]) if kind == "view" else None
    scores = draw_scores(sample, rows, views)
    estimates = list_estimates(sample.labels, scores, by_clusters)
    return {"truth": sample.truth, "auc": separability(scores), "estimates": estimates}


@lru_cache(maxsize=1)
def represent_once(sample: Sample, represent: Representation) -> tuple[Tensor, PriorEstimate]:
    """(n, d) rows of the images, and the estimate by clusters, which knows nothing of positives."""
    rows = represent(sample.images)
    return rows, cluster_prior(rows.numpy())


def random_pairs(n: int, count: int, generator: torch.Generator) -> Tensor:
    """(count, 2) places of two different of n images, all pairs being as likely."""
    first = torch.randint(n, (count,), generator=generator)
    step = torch.randint(1, n, (count,), generator=generator)
    return torch.stack([first, (first + step) % n], 1)


def class_pairs(labels: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """(count, 2) places of two different images of one class, drawn without replacement from all such pairs.

    Large classes have more pairs, as they have among random pairs.
    """
    pairs = (labels.unsqueeze(1) == labels).triu(1).nonzero()
    return pairs[torch.randperm(len(pairs), generator=generator)[:count]]


def draw_scores(sample: Sample, rows: Tensor, views: Tensor | None) -> Scores:
    """Cosines of positive and of random pairs: of images (n, d), or of views (2, n, d) if they are given."""
    generator = make_generator(0, "pairs")
    first, second = random_pairs(len(rows), PAIRS[1], generator).unbind(1)
    if views is None:
        one, other = class_pairs(sample.labels, PAIRS[0], generator).unbind(1)
        return Scores(_cosines(rows[one], rows[other]), _cosines(rows[first], rows[second]), len(rows))
    positive = views[:, : PAIRS[0]]
    return Scores(_cosines(*positive), _cosines(views[0, first], views[1, second]), len(rows))


def describe_run(run: Run) -> dict[str, Any]:
    """The settings that determine the network of a run, and the code that trained it."""
    settings = run.settings
    kept = {name: settings[name] for name in ("preset", "seed", "views", "encoder", "objective", "training")}
    # Folders are left out, since they are of no use to a reader.
    kept["data"] = {name: settings["data"][name] for name in ("name", "classes", "per_class")}
    return {"settings": kept, **{key: run.environment[key] for key in ("revision", "modified", "versions")}}


def fit_pixels(images: Tensor) -> tuple[Representation, Representation]:
    """Pixels without the mean image, and the first principal components of them, each with its own variance."""
    mean = images.mean(0)
    centred = (images - mean).flatten(1).double()
    axes = torch.linalg.eigh(centred.T @ centred).eigenvectors[:, -PCA_DIMENSIONS:].float()
    return lambda x: (x - mean).flatten(1), lambda x: (x - mean).flatten(1) @ axes


def _apply_network(network: nn.Module) -> Representation:
    network.eval()

    @torch.no_grad()
    def represent(images: Tensor) -> Tensor:
        return torch.cat([network(part) for part in images.split(BATCH)])

    return represent


def _cosines(x: Tensor, y: Tensor) -> Any:
    return F.cosine_similarity(x.double(), y.double()).numpy()


def markdown(folder: Path) -> str:
    """One row for each representation with each kind of positives; a star where an estimator warns."""
    lines = []
    for kind, name in product(POSITIVES, REPRESENTATIONS):
        if (path := folder / f"{name}-{kind}.json").exists():
            record = read_json(path)
            lines.append([name, kind, f"{record['auc']:.3f}", *map(show_estimate, record["estimates"])])
    return markdown_table(["representation", "positives", "AUC", *METHODS], lines, "ll")


_RUN = {"type": Path, "required": True, "help": "A finished run on CIFAR-10."}
STUDY = Study(make_jobs, (markdown,), flags={"run": _RUN})

if __name__ == "__main__":
    main("studies.cifar10_priors")
