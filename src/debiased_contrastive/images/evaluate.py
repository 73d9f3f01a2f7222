"""A trained run to numbers: probes, neighbours, geometry and a map of its test images."""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from debiased_contrastive.evaluation.geometry import alignment, same_class_similarity, uniformity
from debiased_contrastive.evaluation.knn import knn_accuracy
from debiased_contrastive.evaluation.linear import linear_probe
from debiased_contrastive.evaluation.means import mean_classifier
from debiased_contrastive.evaluation.official import MULTIVIEW, official_probe
from debiased_contrastive.files import write_atomically
from debiased_contrastive.images.features import batches, features_of, prepared
from debiased_contrastive.images.folder import FolderImages
from debiased_contrastive.images.images import Images
from debiased_contrastive.images.networks import encoder_of
from debiased_contrastive.images.pair import Pair
from debiased_contrastive.images.resnet import ResNet
from debiased_contrastive.images.settings import Settings, from_json
from debiased_contrastive.images.small import SmallConvNet
from debiased_contrastive.images.sources import Probed, moved, probe_images
from debiased_contrastive.numerics import generator_of, seed_of
from debiased_contrastive.runs import EVALUATION, TSNE, Run
from debiased_contrastive.training.fit import device_of, load_trained, trained_run

NOWHERE: Mapping[str, Path | None] = {}
SHOWN = 2000
"""Test images on the map, at most."""


def evaluated(
    run: Run,
    *,
    official: bool = False,
    roots: Mapping[str, Path | None] = NOWHERE,
    images: Probed | None = None,
    say: Callable[[str], None] = lambda _what: None,
) -> dict[str, Any]:
    """Probe the run's encoder, and write what was found to the run directory.

    official: also train the probe of the released code, on augmented images, which takes as long as an
    epoch of training for each of its epochs. roots: `root` and `test_root`, if they moved. images: those of the
    settings, if they were read already.
    """
    settings, encoder = trained_encoder(run.folder)
    settings = moved(settings, roots)
    train, test = images or probe_images(settings.data)
    assert train.labels is not None
    assert test.labels is not None
    device = device_of(settings.training.accelerator)
    encoder.to(device)
    say("features")
    sets = [features_of(encoder, images, settings.views, device) for images in (train, test)]
    labelled = (sets[0], train.labels, sets[1], test.labels)
    say("linear probe")
    found: dict[str, Any] = {"linear": asdict(linear_probe(*labelled))}
    say("neighbours and geometry")
    found["knn"] = knn_accuracy(*labelled)
    found["mean_classifier"] = asdict(mean_classifier(*labelled))
    found |= _geometry(encoder, settings, test, sets[1], device)
    if official:
        say("the released code's probe")
        found["official"] = asdict(_official(encoder, settings, train, test, device))
    elif (earlier := run.evaluation.get("official")) is not None:
        found["official"] = earlier
    say("t-SNE")
    write_atomically(run.folder / TSNE, json.dumps(_map(sets[1], test, settings.seed)) + "\n")
    write_atomically(run.folder / EVALUATION, json.dumps(found, indent=2) + "\n")
    return found


def trained_encoder(folder: Path) -> tuple[Settings, ResNet | SmallConvNet | Pair]:
    """The settings of a finished run and its encoder, in evaluation mode."""
    run = trained_run(folder)
    settings = from_json(run.settings)
    encoder = encoder_of(settings.encoder, len(settings.views.mean))
    load_trained(run, encoder)
    return settings, encoder.eval()


def _geometry(
    encoder: nn.Module,
    settings: Settings,
    test: Images | FolderImages,
    features: Tensor,
    device: torch.device,
) -> dict[str, float]:
    """Alignment of two views of each test image; uniformity and class similarity of the images themselves."""
    assert test.labels is not None
    generator = generator_of(settings.seed, "alignment")
    parts = []
    with torch.no_grad():
        for pixels in batches(test):
            views = settings.views(pixels.to(device), 2, generator)
            parts.append(encoder(views.flatten(0, 1)).unflatten(0, (2, len(pixels))).cpu())
    z0, z1 = torch.cat(parts, 1)
    similarity = asdict(same_class_similarity(features, test.labels))
    return {"alignment": alignment(z0, z1), "uniformity": uniformity(features), **similarity}


def _official(
    encoder: nn.Module,
    settings: Settings,
    train: Images | FolderImages,
    test: Images | FolderImages,
    device: torch.device,
) -> Any:
    assert train.labels is not None
    assert test.labels is not None
    views = settings.views
    protocol = MULTIVIEW if settings.encoder.pair else {}

    def as_released(pixels: Tensor) -> Tensor:
        # The released code normalises test images and leaves their size as it is; that of multiview coding cuts out
        # their middle.
        if not settings.encoder.pair:
            return views.normalised(pixels.to(device).float() / 255)
        return prepared(middle(pixels).to(device), views)

    return official_probe(
        encoder,
        train,
        train.labels,
        test,
        test.labels,
        # The sets stay on the CPU, where the views' generator lives.
        augment=lambda pixels, generator: views(pixels.to(device), 1, generator)[0],
        prepare=as_released,
        seed=settings.seed,
        **protocol,
    )


def middle(pixels: Tensor) -> Tensor:
    """Seven eighths of each side: 224 of 256 pixels, as the probe of multiview coding sees test images."""
    height, width = (round(size * 7 / 8) for size in pixels.shape[2:])
    top, left = (pixels.shape[2] - height) // 2, (pixels.shape[3] - width) // 2
    return pixels[:, :, top : top + height, left : left + width]


def _map(features: Tensor, test: Images | FolderImages, seed: int) -> dict[str, Any]:
    """t-SNE of the cosine geometry, of the first images; None of the labels is seen by it."""
    from sklearn import manifold

    assert test.labels is not None
    shown = torch.randperm(len(features), generator=generator_of(0, "map"))[:SHOWN].sort().values
    points = torch.nn.functional.normalize(features[shown])
    perplexity = min(30.0, (len(points) - 1) / 3)
    made = manifold.TSNE(metric="cosine", perplexity=perplexity, random_state=seed_of(seed, "t-SNE") % 2**32)
    flat = made.fit_transform(points.numpy())
    return {
        "points": [[round(float(value), 3) for value in point] for point in flat],
        "labels": test.labels[shown].tolist(),
        "class_names": list(test.class_names),
    }
