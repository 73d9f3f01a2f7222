"""Any data set of (image, label), as `torch.utils.data.Dataset` has them, as a set of images to train on."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from operator import index
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader

from debiased_contrastive.images.image_files import scale_centre, to_rgb
from debiased_contrastive.images.images import (
    Images,
    ImageSet,
    check_indices,
    check_labels,
    join_digest,
    select_classes,
)

_Pixels: TypeAlias = npt.NDArray[np.uint8]
_GRAY = ("1", "L", "I;16")
_UNUSED = torch.Generator()
"""A loader draws a seed for its workers; it must not be from the numbers that training draws."""


class Samples(Protocol):
    """A map-style data set."""

    def __len__(self) -> int: ...

    def __getitem__(self, place: int, /) -> Any: ...


@dataclass(frozen=True)
class _Reader:
    """Reads the pixels of samples, each (c, h, w); an object of its own, so that it can be sent to workers."""

    samples: Samples
    size: int | None
    channels: int | None

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, place: int) -> Tensor:
        return torch.from_numpy(self.sample(place)[0])

    def sample(self, place: int) -> tuple[_Pixels, int]:
        """The pixels and the label of a sample, -1 where it is unknown."""
        sample = self.samples[place]
        try:
            image, label = sample
            label = -1 if label is None else index(label)
        except (TypeError, ValueError):
            raise ValueError(
                f"a sample must be an image and a whole number, or None, as its label; sample {place} is a "
                f"{type(sample).__name__}: wrap the data set so that it gives both"
            ) from None
        try:
            return _to_pixels(image, self.size, self.channels), label
        except ValueError as error:
            raise ValueError(f"sample {place}: {error}") from None


def _to_pixels(image: Any, size: int | None, channels: int | None) -> _Pixels:
    """The pixels (c, h, w) of an image, a tensor (c, h, w) or an array (h, w) or (h, w, c) of bytes."""
    if not isinstance(image, Image.Image):
        is_tensor = isinstance(image, Tensor)
        values = image.cpu().numpy() if is_tensor else np.asarray(image)
        if values.dtype != np.uint8 or values.ndim not in (2, 3):
            raise ValueError(
                f"an image must be of PIL, an array (h, w, c) or a tensor (c, h, w) of uint8; got a "
                f"{type(image).__name__} of {values.dtype} {values.shape}: leave out transforms such as ToTensor, "
                "views are drawn from bytes"
            )
        rows = values[..., None] if values.ndim == 2 else values.transpose(1, 2, 0) if is_tensor else values
        if size is None and channels in (None, rows.shape[2]):
            return np.array(rows.transpose(2, 0, 1), order="C")
        if rows.shape[2] not in (1, 3):
            raise ValueError(f"to be scaled, an image must have 1 or 3 channels; got {rows.shape[2]}")
        image = Image.fromarray(rows[..., 0] if rows.shape[2] == 1 else np.ascontiguousarray(rows))
    is_gray = image.mode in _GRAY if channels is None else channels == 1
    colours = to_rgb(image)
    picture = colours.convert("L") if is_gray else colours
    values = np.asarray(picture if size is None else scale_centre(picture, size))
    # A copy: what PIL shows of its own memory cannot be written.
    return np.array(values[None] if is_gray else values.transpose(2, 0, 1), order="C")


@dataclass(frozen=True, eq=False, kw_only=True)
class DatasetImages:
    """Images of a data set that are read anew whenever they are asked for."""

    reader: Any
    places: Tensor
    """(n,) which samples of the data set these are."""
    labels: Tensor | None
    class_names: tuple[str, ...]
    shape: tuple[int, int, int]
    source: str
    """Digest of what the pixels come from."""
    workers: int

    def __len__(self) -> int:
        return len(self.places)

    @cached_property
    def digest(self) -> str:
        """A digest that is the same for the same images, and that of `Images` which hold them."""
        pixels = hashlib.sha256(self.source.encode()).hexdigest()
        return join_digest(pixels, (len(self), *self.shape), self.labels)

    def batch(self, indices: Tensor) -> Tensor:
        """Read the images (b, c, h, w) uint8 at these indices (b,)."""
        check_indices(indices)
        return torch.stack([self.reader[place] for place in self.places[indices].tolist()])

    def prefetch(self, batches_of_indices: Iterable[Tensor]) -> Iterator[Tensor]:
        """Yield the batches at these indices, in order, by worker processes if there are any."""
        if not self.workers:
            return map(self.batch, batches_of_indices)
        batches: Any = (self.places[indices].tolist() for indices in batches_of_indices)
        return iter(DataLoader(self.reader, batch_sampler=batches, num_workers=self.workers, generator=_UNUSED))

    def only(self, classes: Sequence[int], per_class: int | Sequence[int] | None = None) -> "DatasetImages":
        """Select some classes, as `Images.only` does."""
        chosen, labels, names = select_classes(self.labels, self.class_names, classes, per_class)
        source = join_digest(self.source, (), chosen)
        return replace(self, places=self.places[chosen], labels=labels, class_names=names, source=source)


def images_from_dataset(
    dataset: Samples,
    *,
    size: int | None = None,
    channels: int | None = None,
    class_names: Sequence[str] = (),
    in_memory_bytes: int = 4 * 2**30,
    workers: int = 0,
) -> ImageSet:
    """Read a data set of (image, label), such as a `torch.utils.data.Dataset`, as images to train on.

    It is read through once, for its labels and for the digest by which a resumed run knows its data. An image is a
    PIL image, an array (h, w) or (h, w, c), or a tensor (c, h, w), of bytes; a label a whole number, or -1 or None
    where it is unknown. Its transforms must not be random: views are drawn by the trainer.

    Args:
        dataset: Has a length, and gives the sample at a place.
        size: Side in pixels to which images are scaled and cropped; if not given, they must have one shape.
        channels: 1 for gray, 3 for colours; if not given, as the images are.
        class_names: The name of each label; their numbers if not given.
        in_memory_bytes: Images that take at most so much are kept; others are read again whenever they are needed.
        workers: Processes that read those; 0 is this process.

    Returns:
        Images for `train_images`.
    """
    if len(dataset) == 0 or channels not in (None, 1, 3) or (size is not None and size < 1):
        raise ValueError(
            f"a data set must have a sample, size be at least 1 and channels 1 or 3, if given; got {len(dataset)} "
            f"samples, size {size} and channels {channels}"
        )
    reader = _Reader(dataset, size, channels)
    if not np.array_equal(reader.sample(0)[0], reader.sample(0)[0]):
        raise ValueError(
            "a data set must give the same image at each call; sample 0 differs from call to call: leave out "
            "its random transforms, views are drawn by the trainer"
        )
    return read_samples(reader, class_names, in_memory_bytes, workers)


def read_samples(
    reader: Any,
    class_names: Sequence[str],
    in_memory_bytes: int,
    workers: int,
    content: Callable[[int], bytes] | None = None,
) -> Images | DatasetImages:
    """Read all samples once; `content` is what is digested of each, if it is not its pixels."""
    count, shape = len(reader), reader.sample(0)[0].shape
    fits = count * int(np.prod(shape)) <= in_memory_bytes
    pixels = np.empty((count if fits else 0, *shape), np.uint8)
    labels, digest = np.empty(count, np.int64), hashlib.sha256()
    for place in range(count):
        image, labels[place] = reader.sample(place)
        if image.shape != shape:
            raise ValueError(
                f"all images must have one shape, (c, h, w); sample 0 has {shape}, sample {place} {image.shape}: "
                "give a size, and channels if some are gray"
            )
        digest.update(image.data if content is None else content(place))
        if fits:
            pixels[place] = image
    names = tuple(class_names) or tuple(map(str, range(int(labels.max()) + 1)))
    check_labels(torch.from_numpy(labels), names)
    known = torch.from_numpy(labels) if names else None
    if fits:
        return Images(torch.from_numpy(pixels), known, names, digest.hexdigest())
    return DatasetImages(
        reader=reader, places=torch.arange(count), labels=known, class_names=names, shape=shape,
        source=digest.hexdigest(), workers=workers,
    )  # fmt: skip
