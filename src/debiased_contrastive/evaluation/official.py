"""Linear probe, protocol `official`: those of released code, quirks included, for comparison."""

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from debiased_contrastive.evaluation.features import check_labels, top_hits, working_dtype

MULTIVIEW: dict[str, Any] = {
    "optimiser": "sgd",
    "learning_rate": 30.0,
    "weight_decay": 0.0,
    "epochs": 60,
    "drops": (30, 40, 50),
    "batch_size": 256,
    "batch_norm": "eval",
}
"""The probe of contrastive multiview coding, by which the paper's ImageNet-100 was measured."""
DROP = 0.2
"""By which the rate is multiplied at a drop."""


class Files(Protocol):
    """Images that need not fit in memory."""

    def __len__(self) -> int: ...

    def prefetched(self, batches_of_indices: Iterable[Tensor], /) -> Iterator[Tensor]:
        """The images at these places, in order."""
        ...


@dataclass(frozen=True)
class OfficialProbe:
    """Accuracies on test, as shares from 0 to 1; top5 is None below six classes."""

    last_top1: float
    """After the last epoch."""
    last_top5: float | None
    best_top1: float
    """The best of all epochs, which was chosen on test and therefore flatters."""
    best_top5: float | None
    """Of that epoch."""


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
    sgd has a momentum of 0.9; after each of the epochs `drops` the rate is a fifth of what it was.

    encode = the encoder; a module is copied first, so that nothing happens to it. augment = train pixels to
    its input, prepare = test pixels to its input. With batch_norm="train", as in the released code, batch
    normalisation takes the statistics of each train batch, and test those that ran along; "eval" freezes it.
    """
    num_classes = _checked_classes(train_pixels, train_labels, test_pixels, test_labels, num_classes)
    _check_settings(encode, batch_norm, epochs, batch_size)
    if isinstance(encode, nn.Module):
        encode = copy.deepcopy(encode)
    device = train_pixels.device if isinstance(train_pixels, Tensor) else torch.device("cpu")
    generator = torch.Generator(device).manual_seed(seed)
    first = next(_images(test_pixels, [torch.tensor([0])]))
    layer = _linear_layer(_features(encode, prepare(first), training=False), num_classes, seed)
    made = _optimiser(optimiser, layer, learning_rate, weight_decay)
    tests = []
    for epoch in range(epochs):
        for group in made.param_groups:
            group["lr"] = learning_rate * DROP ** sum(epoch >= drop for drop in drops)
        order = torch.randperm(len(train_pixels), generator=generator, device=device).split(batch_size)
        for rows, pixels in zip(order, _images(train_pixels, order), strict=True):
            features = _features(encode, augment(pixels, generator), training=batch_norm == "train")
            _update(layer, made, features, train_labels[rows.to(train_labels.device)])
        batches = _images(test_pixels, torch.arange(len(test_pixels)).split(batch_size))
        tests.append(_tested(encode, layer, prepare, batches, test_labels))
    # The first of the best epochs, as released code keeps it.
    (last_top1, last_top5), (best_top1, best_top5) = tests[-1], max(tests, key=lambda found: found[0])
    few = num_classes < 6
    return OfficialProbe(last_top1, None if few else last_top5, best_top1, None if few else best_top5)


def _images(pixels: Tensor | Files, places: Sequence[Tensor]) -> Iterator[Tensor]:
    if isinstance(pixels, Tensor):
        return (pixels[rows.to(pixels.device)] for rows in places)
    return pixels.prefetched(places)


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
    drawn = [torch.empty(shape).uniform_(-bound, bound, generator=generator) for shape in shapes]
    return [tensor.to(features).requires_grad_() for tensor in drawn]


def _optimiser(name: str, layer: list[Tensor], learning_rate: float, weight_decay: float) -> torch.optim.Optimizer:
    if name not in ("adam", "sgd"):
        raise ValueError(f"optimiser must be 'adam' or 'sgd'; got {name!r}")
    if name == "adam":
        return torch.optim.Adam(layer, lr=learning_rate, weight_decay=weight_decay)
    return torch.optim.SGD(layer, lr=learning_rate, momentum=0.9, weight_decay=weight_decay)


@torch.enable_grad()
def _update(layer: list[Tensor], optimiser: torch.optim.Optimizer, features: Tensor, labels: Tensor) -> None:
    optimiser.zero_grad()
    loss = F.cross_entropy(F.linear(features, *layer), labels.long().to(features.device))
    torch.autograd.backward(loss)
    optimiser.step()


@torch.no_grad()
def _tested(
    encode: Callable[[Tensor], Tensor],
    layer: list[Tensor],
    prepare: Callable[[Tensor], Tensor],
    batches: Iterable[Tensor],
    labels: Tensor,
) -> tuple[float, float]:
    """Top-1 and top-5 accuracy on test."""
    logits = torch.cat([F.linear(_features(encode, prepare(x), training=False), *layer) for x in batches])
    labels = labels.long().to(logits.device)
    top1, top5 = (int(top_hits(logits, labels, min(k, logits.shape[1]))) / len(labels) for k in (1, 5))
    return top1, top5


def _checked_classes(
    train_pixels: Tensor | Files,
    train_labels: Tensor,
    test_pixels: Tensor | Files,
    test_labels: Tensor,
    num_classes: int | None,
) -> int:
    """The number of classes; raise unless both sets hold images with a label each."""
    for name, pixels in (("train_pixels", train_pixels), ("test_pixels", test_pixels)):
        if isinstance(pixels, Tensor) and (pixels.dim() < 2 or len(pixels) == 0):
            raise ValueError(
                f"{name} must hold at least one image, the first axis counting them; got shape "
                f"{tuple(pixels.shape)}: stack them"
            )
    check_labels("train_labels", train_labels, len(train_pixels), num_classes)
    check_labels("test_labels", test_labels, len(test_pixels), num_classes)
    return num_classes or 1 + max(int(train_labels.max()), int(test_labels.max()))


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
