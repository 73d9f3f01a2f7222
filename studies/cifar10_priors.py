"""All estimators of the class prior on CIFAR-10, whose ten classes have one size: what they say beside 0.1.

    python -m studies.cifar10_priors --run RUN --out results/cifar10_priors

The images are of the whole training set, whichever part of it RUN was trained on. Every representation's numbers
go to one file of `--out` for each kind of positives; one whose file is there is skipped.
"""

import argparse
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from debiased_contrastive.files import write_atomically
from debiased_contrastive.images.cmc import CMC
from debiased_contrastive.images.features import BATCH, prepared
from debiased_contrastive.images.networks import method_of
from debiased_contrastive.images.settings import Settings, from_json
from debiased_contrastive.images.sources import training_images
from debiased_contrastive.numerics import generator_of
from debiased_contrastive.prior.best_bin import separability
from debiased_contrastive.prior.clusters import cluster_prior
from debiased_contrastive.prior.estimate import PriorEstimate, Scores
from debiased_contrastive.prior.labels import collision_prior, frequency_prior
from debiased_contrastive.prior.mixture import Method, mixture_prior
from debiased_contrastive.runs import Run, existing_run
from debiased_contrastive.training.checkpoint import latest_checkpoint
from studies.priors import ITEMS, LABELS, METHODS, PAIRS, shown

REPRESENTATIONS = ("pixels", "PCA", "features", "projections")
POSITIVES = ("class", "view")
DIMENSIONS = 64
"""Of the PCA."""

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
    """tau_plus of the set that they were drawn from."""


def sample_of(settings: Settings) -> Sample:
    """Random training images of all classes, with views as the settings make them."""
    if settings.data.name != "cifar10":
        raise ValueError(f"the run must be of cifar10; got {settings.data.name}: train one with a cifar10 preset")
    images = training_images(replace(settings.data, classes=(), per_class=None))
    assert images.labels is not None
    generator = generator_of(settings.seed, "priors of images")
    chosen = torch.randperm(len(images), generator=generator)[:ITEMS]
    pixels = images.batch(chosen)
    return Sample(
        prepared(pixels, settings.views),
        images.labels[chosen],
        settings.views(pixels, 2, generator),
        frequency_prior((images.labels.bincount().double() / len(images)).numpy()),
    )


def representations_of(settings: Settings, run: Run, images: Tensor) -> dict[str, Representation]:
    """Every representation by its name; those of pixels are fitted to the images."""
    state, _ = latest_checkpoint(run.folder)
    if state is None or not run.is_finished:
        raise FileNotFoundError(f"{run.folder} is not trained yet: finish it with `debiased resume {run.folder}`")
    method = method_of(settings, gather=False)
    assert not isinstance(method, CMC)
    method.load_state_dict(state["module"])
    networks = (method.encoder, nn.Sequential(method.encoder, method.projector))
    return dict(zip(REPRESENTATIONS, (*_of_pixels(images), *map(_of_network, networks)), strict=True))


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


def scores_of(sample: Sample, rows: Tensor, views: Tensor | None) -> Scores:
    """Cosines of positive and of random pairs: of images (n, d), or of views (2, n, d) if they are given."""
    generator = generator_of(0, "pairs")
    first, second = random_pairs(len(rows), PAIRS[1], generator).unbind(1)
    if views is None:
        one, other = class_pairs(sample.labels, PAIRS[0], generator).unbind(1)
        return Scores(_cosines(rows[one], rows[other]), _cosines(rows[first], rows[second]), len(rows))
    positive = views[:, : PAIRS[0]]
    return Scores(_cosines(*positive), _cosines(views[0, first], views[1, second]), len(rows))


def compared(sample: Sample, rows: Tensor, views: Tensor | None, of_clusters: PriorEstimate) -> dict[str, Any]:
    """Every estimate on (n, d) rows, positives as in `scores_of`."""
    scores = scores_of(sample, rows, views)
    found: list[PriorEstimate] = [collision_prior(sample.labels[:LABELS].numpy())]
    found += [mixture_prior(scores, method) for method in get_args(Method)]
    found.append(of_clusters)
    return {
        "truth": sample.truth,
        "auc": separability(scores),
        "estimates": [asdict(estimate) for estimate in found],
    }


def fill(
    sample: Sample, representations: Mapping[str, Representation], about: Mapping[str, Any], out: Path
) -> None:
    """Compare where there is no file yet; `about` goes to every file."""
    for name, representation in representations.items():
        missing = {kind: path for kind in POSITIVES if not (path := out / f"{name}-{kind}.json").exists()}
        if not missing:
            continue
        rows = representation(sample.images)
        # Clusters know nothing of positives.
        of_clusters = cluster_prior(rows.numpy())
        for kind, path in missing.items():
            views = torch.stack([representation(view) for view in sample.views]) if kind == "view" else None
            record = {"representation": name, "positives": kind, **compared(sample, rows, views, of_clusters)}
            write_atomically(path, json.dumps({**record, **about}, indent=1) + "\n")
            print(path, flush=True)


def about_run(run: Run) -> dict[str, Any]:
    """What a file says of the run: the settings that bear on its network, and the code that trained it."""
    settings = run.settings
    kept = {name: settings[name] for name in ("preset", "seed", "views", "encoder", "objective", "training")}
    # No folders: they are of no use to a reader.
    kept["data"] = {name: settings["data"][name] for name in ("name", "classes", "per_class")}
    return {"settings": kept, **{key: run.environment[key] for key in ("revision", "modified", "versions")}}


def markdown(folder: Path) -> str:
    """One row for each representation with each kind of positives; a star where an estimator warns."""
    records = [json.loads(path.read_text(encoding="utf-8")) for path in folder.glob("*.json")]
    records.sort(key=lambda record: _place(record["representation"], record["positives"]))
    header = ["representation", "positives", "AUC", *METHODS]
    lines = [header, ["---", "---", *["---:"] * (len(header) - 2)]]
    for record in records:
        what = [record["representation"], record["positives"], f"{record['auc']:.3f}"]
        lines.append([*what, *map(shown, record["estimates"])])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _place(representation: str, positives: str) -> tuple[int, int]:
    return POSITIVES.index(positives), REPRESENTATIONS.index(representation)


def _of_pixels(images: Tensor) -> tuple[Representation, Representation]:
    """Pixels without the mean image, and the first principal components of them, each with its own variance."""
    mean = images.mean(0)
    centred = (images - mean).flatten(1).double()
    axes = torch.linalg.eigh(centred.T @ centred).eigenvectors[:, -DIMENSIONS:].float()
    return lambda x: (x - mean).flatten(1), lambda x: (x - mean).flatten(1) @ axes


def _of_network(network: nn.Module) -> Representation:
    network.eval()

    @torch.no_grad()
    def rows(images: Tensor) -> Tensor:
        return torch.cat([network(part) for part in images.split(BATCH)])

    return rows


def _cosines(x: Tensor, y: Tensor) -> Any:
    return F.cosine_similarity(x.double(), y.double()).numpy()


def main() -> None:
    """Compare whatever has no file yet."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", type=Path, required=True, help="a finished run on CIFAR-10")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    run = existing_run(arguments.run)
    settings = from_json(run.settings)
    sample = sample_of(settings)
    fill(sample, representations_of(settings, run, sample.images), about_run(run), arguments.out)


if __name__ == "__main__":
    main()
