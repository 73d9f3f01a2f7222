"""A set of images in memory, and the choice of some of its classes."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Images:
    """A set that lives in memory.

    >>> images = Images(torch.zeros(3, 1, 2, 2, dtype=torch.uint8), torch.tensor([1, 0, 1]), ("cat", "dog"))
    >>> images.only([1]).labels
    tensor([0, 0])
    """

    pixels: Tensor
    """(n, c, h, w) uint8"""
    labels: Tensor | None
    """(n,) int64, -1 where unknown; None where nothing is known"""
    class_names: tuple[str, ...]
    """The name of each label; empty where nothing is known."""
    source: str = ""
    """Digest of the files that the pixels come from, if they were decoded: decoders differ in the last bit."""

    @cached_property
    def digest(self) -> str:
        """The same for the same images, wherever they lie."""
        pixels = hashlib.sha256(self.source.encode() or self.pixels.cpu().contiguous().numpy().data)
        return digest_of(pixels.hexdigest(), self.pixels.shape, self.labels)

    def __post_init__(self) -> None:
        if self.pixels.dim() != 4 or self.pixels.dtype != torch.uint8:
            raise ValueError(
                f"pixels must be uint8 with shape (n, c, h, w); got {self.pixels.dtype} {tuple(self.pixels.shape)}"
            )
        if self.labels is None:
            return
        if self.labels.shape != self.pixels.shape[:1] or self.labels.dtype != torch.int64:
            raise ValueError(
                f"labels must be int64, one for each of the {len(self)} images; got {self.labels.dtype} "
                f"{tuple(self.labels.shape)}"
            )
        if bool(((self.labels < -1) | (self.labels >= len(self.class_names))).any()):
            raise ValueError(
                f"labels must lie in -1..{len(self.class_names) - 1}, one for each class name; got "
                f"{int(self.labels.min())}..{int(self.labels.max())}"
            )

    def __len__(self) -> int:
        """Number of images."""
        return self.pixels.shape[0]

    def batch(self, indices: Tensor) -> Tensor:
        """(b, c, h, w) uint8, the images at these (b,) indices."""
        return self.pixels.index_select(0, checked_indices(indices).to(self.pixels.device))

    def prefetched(self, batches_of_indices: Iterable[Tensor]) -> Iterator[Tensor]:
        """The batches at these indices, in order; nothing has to be decoded."""
        return map(self.batch, batches_of_indices)

    def only(self, classes: Sequence[int], per_class: int | None = None) -> "Images":
        """The first `per_class` images of each of these classes, relabelled 0..k-1 in the order given.

        The images keep their order. Fewer than `per_class` images of a class are an error: the class
        prior of an experiment must not change unseen.
        """
        places, labels, names = chosen(self.labels, self.class_names, classes, per_class)
        source = digest_of(self.source, (), places) if self.source else ""
        return Images(self.batch(places), labels, names, source)


def digest_of(content: str, shape: Sequence[int], numbers: Tensor | None) -> str:
    """One digest of several things."""
    made = hashlib.sha256(f"{content}:{list(shape)}:".encode())
    if numbers is not None:
        made.update(numbers.cpu().numpy().data)
    return made.hexdigest()


def checked_indices(indices: Tensor) -> Tensor:
    """The (b,) indices themselves; a mask is refused, since as numbers it would mean images 0 and 1."""
    if indices.dim() != 1 or indices.dtype not in (torch.int64, torch.int32):
        raise ValueError(f"indices must be integers of shape (b,); got {indices.dtype} {tuple(indices.shape)}")
    return indices


def chosen(
    labels: Tensor | None, class_names: tuple[str, ...], classes: Sequence[int], per_class: int | None
) -> tuple[Tensor, Tensor, tuple[str, ...]]:
    """Places of the chosen images in their order, their new labels and the new class names."""
    if labels is None:
        raise ValueError("classes can be chosen only where labels are known; this set has none")
    if not classes or len(set(classes)) < len(classes):
        raise ValueError(f"classes must be at least one and all different; got {list(classes)}")
    if not all(0 <= number < len(class_names) for number in classes):
        raise ValueError(f"classes must lie in 0..{len(class_names) - 1}; got {list(classes)}")
    if per_class is not None and per_class < 1:
        raise ValueError(f"per_class must be at least 1; got {per_class}")
    places, new_labels = [], []
    for new, old in enumerate(classes):
        found = (labels == old).nonzero()[:, 0]
        if per_class is not None and len(found) < per_class:
            raise ValueError(
                f"per_class must be at most {len(found)}, all images of class {class_names[old]!r}; got {per_class}"
            )
        places.append(found[:per_class])
        new_labels.append(torch.full_like(places[-1], new))
    order = torch.cat(places).argsort()
    names = tuple(class_names[number] for number in classes)
    return torch.cat(places)[order], torch.cat(new_labels)[order], names
