"""Evaluate a trained run: probes, neighbours, geometry and a map of its test images."""

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from debiased_contrastive.domain import Bar, Progress
from debiased_contrastive.evaluation.few_shot import few_shot
from debiased_contrastive.evaluation.geometry import (
    alignment,
    knn_accuracy,
    mean_classifier,
    same_class_similarity,
    uniformity,
)
from debiased_contrastive.evaluation.linear import linear_probe
from debiased_contrastive.evaluation.official import MULTIVIEW, official_probe
from debiased_contrastive.files import write_atomically
from debiased_contrastive.images.augment import make_views, normalise, prepare
from debiased_contrastive.images.frozen import load_encoder
from debiased_contrastive.images.images import FolderImages, ImageSet, read_image_folder
from debiased_contrastive.images.settings import (
    CMCSettings,
    ImageSettings,
    move_data,
)
from debiased_contrastive.images.sources import ProbeImages, read_probe_images
from debiased_contrastive.images.views import Views
from debiased_contrastive.numerics import derive_seed, make_generator
from debiased_contrastive.runs import EVALUATION, TSNE, Run
from debiased_contrastive.training.machine import choose_device

BATCH = 512
MAP_POINTS = 2000
"""Largest number of test images on the map."""


def read_batches(images: ImageSet, chosen: Tensor | None = None) -> Iterator[Tensor]:
    """Yield all images, or the chosen ones, in uint8 batches; those of a folder are decoded ahead."""
    return images.prefetch((torch.arange(len(images)) if chosen is None else chosen).split(BATCH))


@torch.no_grad()
def compute_features(
    encoder: nn.Module,
    images: ImageSet,
    views: Views,
    device: torch.device,
    on_progress: Callable[[int, int], None] | None = None,
    *,
    chosen: Tensor | None = None,
) -> Tensor:
    """Compute (n, d) features in evaluation mode, of whole images at the size that was trained on, on the CPU.

    `chosen` are the indices of the images that are wanted, all if not given.
    """
    was_training = encoder.training
    encoder.eval()
    parts = []
    try:
        for pixels in read_batches(images, chosen):
            parts.append(encoder(prepare(views, pixels.to(device))).float().cpu())
            if on_progress is not None:
                on_progress(sum(map(len, parts)), len(images))
    finally:
        encoder.train(was_training)
    return torch.cat(parts)


def evaluate(
    run: Run,
    bar: Bar | None = None,
    *,
    official: bool = False,
    data_root: Path | None = None,
    test_root: Path | None = None,
    images: ProbeImages | None = None,
    draw_map: bool = True,
) -> dict[str, Any]:
    """Probe the run's encoder; write the results to evaluation.json, and return them.

    Args:
        run: A finished run.
        bar: Shows what is being done.
        official: Also train the probe of the released code, on augmented images, which takes as long as an epoch of
            training for each of its epochs.
        data_root: Where the images are now, if they moved.
        test_root: Where the test images are now, if they moved.
        images: Those of the settings, if they were read already.
        draw_map: Whether to compute the t-SNE map, which can take longer than everything else.
    """
    parts = ["features", "linear probe", "neighbours, few labels and geometry"]
    parts += ["the released code's probe"] * official + ["t-SNE"] * draw_map

    def show(part: str) -> None:
        if bar is not None:
            bar.at(parts.index(part), len(parts), part)

    frozen = load_encoder(run.folder)
    settings, encoder = move_data(frozen.settings, data_root, test_root), frozen.network
    train, test = images or read_probe_images(settings.data)
    assert train.labels is not None
    assert test.labels is not None
    device = choose_device(settings.training.accelerator)
    encoder.to(device)
    show("features")
    sets = [compute_features(encoder, images, settings.views, device) for images in (train, test)]
    labelled = (sets[0], train.labels, sets[1], test.labels)
    show("linear probe")
    results: dict[str, Any] = {"linear": asdict(linear_probe(*labelled))}
    show("neighbours, few labels and geometry")
    results["knn"] = knn_accuracy(*labelled)
    results["mean_classifier"] = asdict(mean_classifier(*labelled))
    results["few_shot"] = {str(count): asdict(found) for count, found in few_shot(*labelled).items()}
    results |= _geometry(encoder, settings, test, sets[1], device)
    if official:
        show("the released code's probe")
        results["official"] = asdict(_train_official_probe(encoder, settings, train, test, device))
    elif (earlier := run.evaluation.get("official")) is not None:
        results["official"] = earlier
    if draw_map:
        show("t-SNE")
        write_atomically(run.folder / TSNE, json.dumps(_compute_map(sets[1], test, settings.seed)) + "\n")
    write_atomically(run.folder / EVALUATION, json.dumps(results, indent=2) + "\n")
    if bar is not None:
        bar.at(len(parts), len(parts))
    return results


def _geometry(
    encoder: nn.Module, settings: ImageSettings, test: ImageSet, features: Tensor, device: torch.device
) -> dict[str, float]:
    """Compute the alignment of two views of each test image, and uniformity and class similarity of the images."""
    assert test.labels is not None
    generator = make_generator(settings.seed, "alignment")
    parts = []
    with torch.no_grad():
        for pixels in read_batches(test):
            views = make_views(settings.views, pixels.to(device), 2, generator)
            parts.append(encoder(views.flatten(0, 1)).unflatten(0, (2, len(pixels))).cpu())
    z0, z1 = torch.cat(parts, 1)
    similarity = asdict(same_class_similarity(features, test.labels))
    return {"alignment": alignment(z0, z1), "uniformity": uniformity(features), **similarity}


def _train_official_probe(
    encoder: nn.Module,
    settings: ImageSettings,
    train: ImageSet,
    test: ImageSet,
    device: torch.device,
) -> Any:
    assert train.labels is not None
    assert test.labels is not None
    views = settings.views
    protocol = MULTIVIEW if isinstance(settings, CMCSettings) else {}

    def prepare_test_images(pixels: Tensor) -> Tensor:
        # The released code of SimCLR leaves the size of test images as it is; that of multiview coding cuts out
        # their middle.
        if not isinstance(settings, CMCSettings):
            return normalise(views, pixels.to(device).float() / 255)
        return prepare(views, crop_middle(pixels).to(device))

    return official_probe(
        encoder,
        train,
        train.labels,
        test,
        test.labels,
        # The sets stay on the CPU, where the views' generator lives.
        augment=lambda pixels, generator: make_views(views, pixels.to(device), 1, generator)[0],
        prepare=prepare_test_images,
        seed=settings.seed,
        **protocol,
    )


def crop_middle(pixels: Tensor) -> Tensor:
    """Keep the middle 7/8 of each side: 224 of 256 pixels, as the probe of multiview coding sees test images."""
    height, width = (round(size * 7 / 8) for size in pixels.shape[2:])
    top, left = (pixels.shape[2] - height) // 2, (pixels.shape[3] - width) // 2
    return pixels[:, :, top : top + height, left : left + width]


def _compute_map(features: Tensor, test: ImageSet, seed: int) -> dict[str, Any]:
    """Compute a t-SNE map, by cosine distances, of some test images; labels only colour it."""
    from sklearn import manifold

    assert test.labels is not None
    chosen = torch.randperm(len(features), generator=make_generator(0, "map"))[:MAP_POINTS].sort().values
    points = torch.nn.functional.normalize(features[chosen])
    perplexity = min(30.0, (len(points) - 1) / 3)
    tsne = manifold.TSNE(metric="cosine", perplexity=perplexity, random_state=derive_seed(seed, "t-SNE") % 2**32)
    flat = tsne.fit_transform(points.numpy())
    return {
        "points": [[round(float(value), 3) for value in point] for point in flat],
        "labels": test.labels[chosen].tolist(),
        "class_names": list(test.class_names),
    }


def embed(folder: Path, source: Path, progress: Progress) -> dict[str, Any]:
    """Compute features, names and labels of a folder of images, by the encoder of a finished run."""
    frozen = load_encoder(folder)
    settings, encoder = frozen.settings, frozen.network
    device = choose_device(settings.training.accelerator)
    encoder.to(device)
    data = settings.data
    size = data.folder_size if data.name in ("folder", "hf") else settings.views.size
    # Without room in memory, the images keep the names of their files.
    images = read_image_folder(source, size, in_memory_bytes=0)
    assert isinstance(images, FolderImages)
    with images, progress(f"embed {len(images)} images") as bar:
        features = compute_features(encoder, images, settings.views, device, bar.at).numpy()
    names = [str(Path(path).relative_to(source)) for path in images.paths]
    labels = np.full(len(images), -1) if images.labels is None else images.labels.numpy()
    class_names = np.array(images.class_names, dtype=str)
    return {"features": features, "names": np.array(names), "labels": labels, "class_names": class_names}
