"""Sets of images: `Images` in memory, and `FolderImages` that are decoded ahead of time by other processes."""

import hashlib
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from debiased_contrastive.images.image_files import available_cores, decode_images, find_images, worker_pool

_FEW_IMAGES = 256  # so few are decoded here before a worker has started
_DIGEST_FILES = 256
"""About so many files have their content in the digest: to read a million would take hours."""
_DIGEST_BYTES = 2**16
"""Bytes of such a file that are read at its start, in its middle and at its end."""
_Parts = list[Future[npt.NDArray[np.uint8]]]


class ImageSet(Protocol):
    """What the trainer asks of a set of images."""

    @property
    def labels(self) -> Tensor | None:
        """(n,) int64, -1 where unknown; None where nothing is known"""

    @property
    def class_names(self) -> tuple[str, ...]:
        """The name of each label; empty where nothing is known."""

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height and width of every image."""

    @property
    def digest(self) -> str:
        """A digest that is the same for the same images, wherever they lie."""

    def __len__(self) -> int: ...

    def batch(self, indices: Tensor) -> Tensor:
        """Return the images (b, c, h, w) uint8 at these indices (b,)."""

    def prefetch(self, batches_of_indices: Iterable[Tensor]) -> Iterator[Tensor]:
        """Yield the batches at these indices, in order; indices may be read ahead."""

    def only(self, classes: Sequence[int], per_class: int | Sequence[int] | None = None) -> "ImageSet":
        """Select the images of some classes, which become 0..k-1, and the first so many of each."""


@dataclass(frozen=True, eq=False)
class Images:
    """A set of images in memory.

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
        """A digest that is the same for the same images, wherever they lie."""
        pixels = hashlib.sha256(self.source.encode() or self.pixels.cpu().contiguous().numpy().data)
        return join_digest(pixels.hexdigest(), self.pixels.shape, self.labels)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height and width of every image."""
        channels, height, width = self.pixels.shape[1:]
        return channels, height, width

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
        check_labels(self.labels, self.class_names)

    def __len__(self) -> int:
        return self.pixels.shape[0]

    def batch(self, indices: Tensor) -> Tensor:
        """Return the images (b, c, h, w) uint8 at these indices (b,)."""
        check_indices(indices)
        return self.pixels.index_select(0, indices.to(self.pixels.device))

    def prefetch(self, batches_of_indices: Iterable[Tensor]) -> Iterator[Tensor]:
        """Yield the batches at these indices, in order; nothing has to be decoded."""
        return map(self.batch, batches_of_indices)

    def only(self, classes: Sequence[int], per_class: int | Sequence[int] | None = None) -> "Images":
        """Select the images of some classes, which keep their order.

        Args:
            classes: Labels to keep; they become 0..k-1 in the order given.
            per_class: Keep the first so many images of each class, or one number for each; all if None. Fewer are
                an error: the class prior of an experiment must not change unseen.
        """
        places, labels, names = select_classes(self.labels, self.class_names, classes, per_class)
        source = join_digest(self.source, (), places) if self.source else ""
        return Images(self.batch(places), labels, names, source)


@dataclass(eq=False, kw_only=True)
class FolderImages:
    """A set of image files, decoded when they are asked for; close it to end its processes."""

    paths: Sequence[str]
    labels: Tensor | None
    class_names: tuple[str, ...]
    root: Path
    size: int
    workers: int
    _pool: ProcessPoolExecutor | None = field(default=None, init=False, repr=False)

    def __len__(self) -> int:
        return len(self.paths)

    def batch(self, indices: Tensor) -> Tensor:
        """Decode the images (b, 3, size, size) uint8 at these indices (b,)."""
        paths = self._paths_at(indices)
        if not self.workers:
            return torch.from_numpy(decode_images(paths, self.size))
        return self._collect(self._submit(paths))

    def prefetch(self, batches_of_indices: Iterable[Tensor], ahead: int = 4) -> Iterator[Tensor]:
        """Yield the batches at these indices, in order, while the next `ahead` are being decoded.

        The indices are therefore read ahead too.
        """
        if ahead < 1:
            raise ValueError(f"ahead must be at least 1; got {ahead}")
        if not self.workers:
            return map(self.batch, batches_of_indices)
        return self._decode_ahead(batches_of_indices, ahead)

    def only(self, classes: Sequence[int], per_class: int | Sequence[int] | None = None) -> "FolderImages":
        """Select some classes, as `Images.only` does; the result has processes of its own."""
        places, labels, names = select_classes(self.labels, self.class_names, classes, per_class)
        return replace(self, paths=self._paths_at(places), labels=labels, class_names=names)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height and width of every image."""
        return 3, self.size, self.size

    @cached_property
    def digest(self) -> str:
        """A digest of all names and sizes and of the content of some files, the same wherever they lie."""
        digest, root = hashlib.sha256(), os.path.join(self.root, "")
        for path in self.paths:
            name = path.removeprefix(root).replace(os.sep, "/")
            digest.update(f"{os.fsencode(name).hex()}:{os.path.getsize(path)}\n".encode())
        for path in self.paths[:: max(1, len(self.paths) // _DIGEST_FILES)]:
            with open(path, "rb") as file:
                size = os.path.getsize(path)
                for start in (0, size // 2, max(0, size - _DIGEST_BYTES)):
                    file.seek(start)
                    digest.update(file.read(_DIGEST_BYTES))
        return join_digest(digest.hexdigest(), (), self.labels)

    def close(self) -> None:
        """End the processes; they start again when they are needed."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            self._pool = None

    def __enter__(self) -> "FolderImages":
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def _paths_at(self, indices: Tensor) -> list[str]:
        check_indices(indices)
        return [self.paths[place] for place in indices.tolist()]

    def _submit(self, paths: list[str]) -> _Parts:
        if self._pool is None:
            self._pool = worker_pool(self.workers)
        # A share for each worker, so that a batch is ready as early as it can be.
        share = max(1, -(-len(paths) // self.workers))
        starts = range(0, max(1, len(paths)), share)
        return [self._pool.submit(decode_images, paths[start : start + share], self.size) for start in starts]

    def _collect(self, parts: _Parts) -> Tensor:
        try:
            return torch.from_numpy(np.concatenate([part.result() for part in parts]))
        except BrokenProcessPool:
            self.close()
            raise ChildProcessError(
                "a process that decodes images ended: memory may be short (use fewer workers), or the "
                'script lacks `if __name__ == "__main__":`'
            ) from None

    def _decode_ahead(self, batches: Iterable[Tensor], ahead: int) -> Iterator[Tensor]:
        waiting: deque[_Parts] = deque()
        try:
            for indices in batches:
                waiting.append(self._submit(self._paths_at(indices)))
                if len(waiting) > ahead:
                    yield self._collect(waiting.popleft())
            while waiting:
                yield self._collect(waiting.popleft())
        finally:
            for part in (part for parts in waiting for part in parts):
                part.cancel()


def read_image_folder(
    root: Path,
    size: int,
    *,
    in_memory_bytes: int = 4 * 2**30,
    workers: int | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> Images | FolderImages:
    """Read a folder of images, each as RGB, its short side scaled to `size` and its centre cropped to a square.

    Files that are not images and names that start with a dot are passed over. Worker processes are spawned, so
    a script that calls this needs the usual `if __name__ == "__main__":`.

    Args:
        root: Class folders, whose sorted names are the classes, or images beside each other, without labels.
        size: Side of the images in pixels.
        in_memory_bytes: Images that take at most so much are decoded at once and kept.
        workers: Processes that decode: if None, one for each core, or none for few images; 0 is this process.
        on_progress: Called with the number of images decoded so far and in all.

    Returns:
        `Images` where they fit into `in_memory_bytes`, else `FolderImages`.
    """
    if size < 1:
        raise ValueError(f"size must be at least 1; got {size}")
    if workers is not None and workers < 0:
        raise ValueError(f"workers must be at least 0; got {workers}")
    paths, classes, names = find_images(Path(root))
    labels = None if classes is None else torch.from_numpy(classes)
    fits = len(paths) * 3 * size * size <= in_memory_bytes
    if workers is None:
        workers = 0 if fits and len(paths) <= _FEW_IMAGES else available_cores()
    images = FolderImages(
        paths=paths, labels=labels, class_names=names, root=Path(root), size=size, workers=workers
    )
    if not fits:
        return images
    with images:
        return _load_into_memory(images, on_progress)


def _load_into_memory(images: FolderImages, on_progress: Callable[[int, int], None] | None) -> Images:
    pixels = torch.empty(len(images), 3, images.size, images.size, dtype=torch.uint8)
    done = 0
    for batch in images.prefetch(torch.arange(len(images)).split(_FEW_IMAGES)):
        pixels[done : done + len(batch)] = batch
        done += len(batch)
        if on_progress is not None:
            on_progress(done, len(images))
    return Images(pixels, images.labels, images.class_names, images.digest)


def join_digest(content: str, shape: Sequence[int], numbers: Tensor | None) -> str:
    digest = hashlib.sha256(f"{content}:{list(shape)}:".encode())
    if numbers is not None:
        digest.update(numbers.cpu().numpy().data)
    return digest.hexdigest()


def check_labels(labels: Tensor, class_names: tuple[str, ...]) -> None:
    if bool(((labels < -1) | (labels >= len(class_names))).any()):
        raise ValueError(
            f"labels must lie in -1..{len(class_names) - 1}, one for each class name; got "
            f"{int(labels.min())}..{int(labels.max())}"
        )


def check_indices(indices: Tensor) -> None:
    # A mask is refused, since as numbers it would mean images 0 and 1.
    if indices.dim() != 1 or indices.dtype not in (torch.int64, torch.int32):
        raise ValueError(f"indices must be integers of shape (b,); got {indices.dtype} {tuple(indices.shape)}")


def select_classes(
    labels: Tensor | None,
    class_names: tuple[str, ...],
    classes: Sequence[int],
    per_class: int | Sequence[int] | None,
) -> tuple[Tensor, Tensor, tuple[str, ...]]:
    """Find the places of the images of some classes in their order, their new labels and class names."""
    if labels is None:
        raise ValueError("classes can be chosen only where labels are known; this set has none")
    if not classes or len(set(classes)) < len(classes):
        raise ValueError(f"classes must be at least one and all different; got {list(classes)}")
    if not all(0 <= number < len(class_names) for number in classes):
        raise ValueError(f"classes must lie in 0..{len(class_names) - 1}; got {list(classes)}")
    counts = [per_class] * len(classes) if isinstance(per_class, int | None) else list(per_class)
    if len(counts) != len(classes):
        raise ValueError(f"per_class must have one number for each of {len(classes)} classes; got {len(counts)}")
    places, new_labels = [], []
    for new, (old, count) in enumerate(zip(classes, counts, strict=True)):
        found = (labels == old).nonzero()[:, 0]
        if count is not None and count < 1:
            raise ValueError(f"per_class must be at least 1; got {count}")
        if count is not None and len(found) < count:
            raise ValueError(
                f"per_class must be at most {len(found)}, all images of class {class_names[old]!r}; got {count}"
            )
        places.append(found[:count])
        new_labels.append(torch.full_like(places[-1], new))
    order = torch.cat(places).argsort()
    names = tuple(class_names[number] for number in classes)
    return torch.cat(places)[order], torch.cat(new_labels)[order], names
