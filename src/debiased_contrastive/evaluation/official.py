"""Linear probe, protocol `official`: the probes of released code, quirks included, for comparison."""

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from debiased_contrastive.evaluation.features import check_labels, top_hits
from debiased_contrastive.numerics import working_dtype

MULTIVIEW: dict[str, Any] = {
    "optimiser": "sgd", "learning_rate": 30.0, "weight_decay": 0.0, "epochs": 60, "drops": (30, 40, 50),
    "batch_size": 256, "batch_norm": "eval",
}  # fmt: skip
"""The probe of contrastive multiview coding, by which the paper's ImageNet-100 was measured."""
DROP = 0.2
"""Factor of the learning rate at a drop."""


class Files(Protocol):
    """Images that need not fit in memory."""

    def __len__(self) -> int: ...

    def prefetch(self, batches_of_indices: Iterable[Tensor], /) -> Iterator[Tensor]:
        """The images at these places, in order."""
        ...


@dataclass(frozen=True)
class OfficialProbe:
    """Accuracies on test, as shares from 0 to 1; top5 is None below six classes."""

    last_top1: float
    """Accuracy after the last epoch."""
    last_top5: float | None
    best_top1: float
    """Accuracy after the best of all epochs, which was chosen on test and therefore flatters."""
    best_top5: float | None
    """Top-5 accuracy of the same epoch."""


def official_probe(
    encode: Callable[[Tensor], Tensor],
    train_pixels: Tensor | Files,
    train_labels: Tensor,
    test_pixels: Tensor | Files,
    test_labels: Tensor,
    *,
    augment: Callable[[Tensor, torch.Generator], Tensor],
    prepare: Callable[[Tensor], Tensor],
    num_classes: int | None = None,
    batch_norm: Literal["train", "eval"] = "train",
    epochs: int = 100,
    batch_size: int = 512,
    learning_rate: float = 1e-3,
    weight_decay: float = 1e-6,
    optimiser: Literal["adam", "sgd"] = "adam",
    drops: Sequence[int] = (),
    seed: int = 0,
) -> OfficialProbe:
    """Accuracy of a linear layer trained on the un-normalised features of augmented images.

    The defaults are those of SimCLR's released probe; `MULTIVIEW` holds those of contrastive multiview coding.

    Args:
        encode: The encoder; a module is copied first, so that it stays as it is.
        train_pixels: Images, the first axis counting them, or `Files`.
        train_labels: One integer from 0 for each.
        test_pixels: Images of test, or `Files`.
        test_labels: One integer from 0 for each of these.
        augment: From train pixels to the encoder's input.
        prepare: From test pixels to the encoder's input.
        num_classes: Number of classes; one more than the largest label if not given.
        batch_norm: "train", as in the released code: batch normalisation takes the statistics of each train batch,
            and test uses the running ones. "eval" freezes it.
        epochs: Number of epochs.
        batch_size: Images of a batch.
        learning_rate: Learning rate of the first epochs.
        weight_decay: Weight decay of the layer.
        optimiser: "adam", or "sgd" with a momentum of 0.9.
        drops: Epochs after each of which the rate is a fifth of what it was.
        seed: Seed of the layer, the order of the images and their augmentations.

    Returns:
        Accuracies of the last and of the best epoch.
    """
    for name, images, labels in (("train", train_pixels, train_labels), ("test", test_pixels, test_labels)):
        _check_images(name, images, labels, num_classes)
    num_classes = num_classes or 1 + max(int(train_labels.max()), int(test_labels.max()))
    _check_settings(encode, batch_norm, epochs, batch_size)
    if isinstance(encode, nn.Module):
        encode = copy.deepcopy(encode)
    device = train_pixels.device if isinstance(train_pixels, Tensor) else torch.device("cpu")
    generator = torch.Generator(device).manual_seed(seed)
    first = next(_images(test_pixels, [torch.tensor([0])]))
    layer = _linear_layer(_features(encode, prepare(first), training=False), num_classes, seed)
    stepper = _optimiser(optimiser, layer, learning_rate, weight_decay)
    tests = []
    for epoch in range(epochs):
        for group in stepper.param_groups:
            group["lr"] = learning_rate * DROP ** sum(epoch >= drop for drop in drops)
        order = torch.randperm(len(train_pixels), generator=generator, device=device).split(batch_size)
        for rows, pixels in zip(order, _images(train_pixels, order), strict=True):
            features = _features(encode, augment(pixels, generator), training=batch_norm == "train")
            _train_batch(layer, stepper, features, train_labels[rows.to(train_labels.device)])
        batches = _images(test_pixels, torch.arange(len(test_pixels)).split(batch_size))
        tests.append(_test(encode, layer, prepare, batches, test_labels))
    # Of equally good epochs the first is the best, as in released code.
    (last_top1, last_top5), (best_top1, best_top5) = tests[-1], max(tests, key=lambda found: found[0])
    few = num_classes < 6
    return OfficialProbe(last_top1, None if few else last_top5, best_top1, None if few else best_top5)


def _images(pixels: Tensor | Files, places: Sequence[Tensor]) -> Iterator[Tensor]:
    if isinstance(pixels, Tensor):
        return (pixels[rows.to(pixels.device)] for rows in places)
    return pixels.prefetch(places)


@torch.no_grad()
def _features(encode: Callable[[Tensor], Tensor], images: Tensor, *, training: bool) -> Tensor:
    if isinstance(encode, nn.Module):
        encode.train(training)
    features = encode(images).flatten(1)
    return features.to(working_dtype(features))


def _linear_layer(features: Tensor, num_classes: int, seed: int) -> list[Tensor]:
    """Weight and bias as nn.Linear draws them, without touching the global generator."""
    bound = features.shape[1] ** -0.5
    generator = torch.Generator().manual_seed(seed)
    shapes = (num_classes, features.shape[1]), (num_classes,)
    layer = [torch.empty(shape).uniform_(-bound, bound, generator=generator) for shape in shapes]
    return [tensor.to(features).requires_grad_() for tensor in layer]


def _optimiser(name: str, layer: list[Tensor], learning_rate: float, weight_decay: float) -> torch.optim.Optimizer:
    if name not in ("adam", "sgd"):
        raise ValueError(f"optimiser must be 'adam' or 'sgd'; got {name!r}")
    if name == "adam":
        return torch.optim.Adam(layer, lr=learning_rate, weight_decay=weight_decay)
    return torch.optim.SGD(layer, lr=learning_rate, momentum=0.9, weight_decay=weight_decay)


@torch.enable_grad()
def _train_batch(layer: list[Tensor], optimiser: torch.optim.Optimizer, features: Tensor, labels: Tensor) -> None:
    optimiser.zero_grad()
    loss = F.cross_entropy(F.linear(features, *layer), labels.long().to(features.device))
    torch.autograd.backward(loss)
    optimiser.step()


@torch.no_grad()
def _test(
    encode: Callable[[Tensor], Tensor],
    layer: list[Tensor],
    prepare: Callable[[Tensor], Tensor],
    batches: Iterable[Tensor],
    labels: Tensor,
) -> tuple[float, float]:
    """Top-1 and top-5 accuracy."""
    logits = torch.cat([F.linear(_features(encode, prepare(x), training=False), *layer) for x in batches])
    labels = labels.long().to(logits.device)
    top1, top5 = (int(top_hits(logits, labels, min(k, logits.shape[1]))) / len(labels) for k in (1, 5))
    return top1, top5


def _check_images(name: str, pixels: Tensor | Files, labels: Tensor, num_classes: int | None) -> None:
    if isinstance(pixels, Tensor) and (pixels.dim() < 2 or len(pixels) == 0):
        raise ValueError(
            f"{name}_pixels must hold at least one image, the first axis counting them; got shape "
            f"{tuple(pixels.shape)}: stack them"
        )
    check_labels(f"{name}_labels", labels, len(pixels), num_classes)


def _check_settings(encode: Callable[[Tensor], Tensor], batch_norm: str, epochs: int, batch_size: int) -> None:
    if batch_norm not in ("train", "eval"):
        raise ValueError(f"batch_norm must be 'train' or 'eval'; got {batch_norm!r}: the released code has 'train'")
    if batch_norm == "train" and not isinstance(encode, nn.Module):
        raise ValueError(
            f"batch_norm='train' needs a module, which has a mode to set; got {type(encode).__name__}: pass the "
            "module itself, or batch_norm='eval'"
        )
    if epochs < 1 or batch_size < 1:
        raise ValueError(f"epochs and batch_size must be at least 1; got {epochs} and {batch_size}")
