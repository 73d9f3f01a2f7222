"""Any folder of images, in memory where it fits, else decoded ahead of time."""

import hashlib
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from debiased_contrastive.images.decoding import EXTENSIONS, available_cores, decoded, worker_pool
from debiased_contrastive.images.images import Images, checked_indices, chosen, digest_of

_FEW = 256  # images that are decoded here sooner than a worker starts
_COMPARED = 256
"""Files whose content is in the digest, and twice as many at most: of a million, all would be hours."""
_READ = 2**16
"""Bytes of such a file at its start, in its middle and at its end."""
_Parts = list[Future[npt.NDArray[np.uint8]]]


def image_folder(
    root: Path,
    size: int,
    *,
    in_memory_bytes: int = 4 * 2**30,
    workers: int | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> "Images | FolderImages":
    """The images in a folder: `Images` where they take at most `in_memory_bytes`, else `FolderImages`.

    Either class folders, whose sorted names are the classes, or images beside each other, without
    labels. Every image becomes RGB, its short side scaled to `size` and its centre cropped to
    `size` x `size`. Files that are not images and names that start with a dot are passed over.

    `workers` processes decode: one for each core if None, with few images none; 0 means this process.
    They are spawned, so a script that calls this needs the usual `if __name__ == "__main__":`.
    """
    if size < 1:
        raise ValueError(f"size must be at least 1; got {size}")
    if workers is not None and workers < 0:
        raise ValueError(f"workers must be at least 0; got {workers}")
    paths, labels, names = _listed(Path(root))
    fits = len(paths) * 3 * size * size <= in_memory_bytes
    if workers is None:
        workers = 0 if fits and len(paths) <= _FEW else available_cores()
    images = FolderImages(paths, labels, names, root=Path(root), size=size, workers=workers)
    if not fits:
        return images
    with images:
        return _in_memory(images, on_progress)


class FolderImages:
    """A set of image files, decoded when they are asked for; close it to end its processes."""

    def __init__(
        self,
        paths: Sequence[str],
        labels: Tensor | None,
        class_names: tuple[str, ...],
        *,
        root: Path,
        size: int,
        workers: int,
    ) -> None:
        self.paths = paths
        self.labels = labels
        self.class_names = class_names
        self.root = root
        self.size = size
        self.workers = workers
        self._pool: ProcessPoolExecutor | None = None

    def __len__(self) -> int:
        """Number of images."""
        return len(self.paths)

    def batch(self, indices: Tensor) -> Tensor:
        """(b, 3, size, size) uint8, the images at these (b,) indices."""
        paths = self._paths_at(indices)
        if not self.workers:
            return torch.from_numpy(decoded(paths, self.size))
        return self._collected(self._submitted(paths))

    def prefetched(self, batches_of_indices: Iterable[Tensor], ahead: int = 4) -> Iterator[Tensor]:
        """The batches at these indices, in order, with the next `ahead` being decoded meanwhile.

        The indices are therefore read ahead too.
        """
        if ahead < 1:
            raise ValueError(f"ahead must be at least 1; got {ahead}")
        if not self.workers:
            return map(self.batch, batches_of_indices)
        return self._decoded_ahead(batches_of_indices, ahead)

    def only(self, classes: Sequence[int], per_class: int | None = None) -> "FolderImages":
        """The first `per_class` images of each of these classes, as `Images.only`, with own processes."""
        places, labels, names = chosen(self.labels, self.class_names, classes, per_class)
        paths = self._paths_at(places)
        return FolderImages(paths, labels, names, root=self.root, size=self.size, workers=self.workers)

    @cached_property
    def digest(self) -> str:
        """The same for the same files, wherever they lie: of all names and sizes, and of the content of a few."""
        made, root = hashlib.sha256(), os.path.join(self.root, "")
        for path in self.paths:
            name = path.removeprefix(root).replace(os.sep, "/")
            made.update(f"{os.fsencode(name).hex()}:{os.path.getsize(path)}\n".encode())
        for path in self.paths[:: max(1, len(self.paths) // _COMPARED)]:
            with open(path, "rb") as file:
                size = os.path.getsize(path)
                for start in (0, size // 2, max(0, size - _READ)):
                    file.seek(start)
                    made.update(file.read(_READ))
        return digest_of(made.hexdigest(), (), self.labels)

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
        return [self.paths[place] for place in checked_indices(indices).tolist()]

    def _submitted(self, paths: list[str]) -> _Parts:
        if self._pool is None:
            self._pool = worker_pool(self.workers)
        # A share for each worker, so that a batch is ready as early as it can be.
        share = max(1, -(-len(paths) // self.workers))
        starts = range(0, max(1, len(paths)), share)
        return [self._pool.submit(decoded, paths[start : start + share], self.size) for start in starts]

    def _collected(self, parts: _Parts) -> Tensor:
        try:
            return torch.from_numpy(np.concatenate([part.result() for part in parts]))
        except BrokenProcessPool:
            self.close()
            raise ChildProcessError(
                "a process that decodes images ended: memory may be short (use fewer workers), or the "
                'script lacks `if __name__ == "__main__":`'
            ) from None

    def _decoded_ahead(self, batches: Iterable[Tensor], ahead: int) -> Iterator[Tensor]:
        waiting: deque[_Parts] = deque()
        try:
            for indices in batches:
                waiting.append(self._submitted(self._paths_at(indices)))
                if len(waiting) > ahead:
                    yield self._collected(waiting.popleft())
            while waiting:
                yield self._collected(waiting.popleft())
        finally:
            for part in (part for parts in waiting for part in parts):
                part.cancel()


def _in_memory(images: FolderImages, on_progress: Callable[[int, int], None] | None) -> Images:
    pixels = torch.empty(len(images), 3, images.size, images.size, dtype=torch.uint8)
    done = 0
    for batch in images.prefetched(torch.arange(len(images)).split(_FEW)):
        pixels[done : done + len(batch)] = batch
        done += len(batch)
        if on_progress is not None:
            on_progress(done, len(images))
    return Images(pixels, images.labels, images.class_names, images.digest)


def _listed(root: Path) -> tuple[list[str], Tensor | None, tuple[str, ...]]:
    """Files, labels and class names, in an order that every machine shares."""
    if not root.is_dir():
        raise FileNotFoundError(f"{root} is not a folder; expected one with images or with class folders")
    entries = sorted(entry for entry in root.iterdir() if not entry.name.startswith("."))
    folders = [entry for entry in entries if entry.is_dir()]
    flat = [str(entry) for entry in entries if entry.is_file() and entry.suffix.lower() in EXTENSIONS]
    if flat and folders:
        raise ValueError(
            f"{root} mixes images ({Path(flat[0]).name}) with folders ({folders[0].name}); expected "
            "either images or one folder for each class"
        )
    if flat:
        return flat, None, ()
    if not folders:
        raise ValueError(f"{root} holds no images; expected files such as .jpg or .png, or class folders")
    members = [_images_below(folder) for folder in folders]
    labels = torch.arange(len(folders)).repeat_interleave(torch.tensor([len(paths) for paths in members]))
    return [path for paths in members for path in paths], labels, tuple(folder.name for folder in folders)


def _images_below(folder: Path) -> list[str]:
    paths = [
        entry.path
        for entry in _entries_below(folder)
        if not entry.name.startswith(".")
        and os.path.splitext(entry.name)[1].lower() in EXTENSIONS
        and _is_file(entry)
    ]
    if not paths:
        raise ValueError(f"class folder {folder} holds no images; add some or remove it")
    return sorted(paths)


def _entries_below(folder: Path) -> Iterator[os.DirEntry[str]]:
    """What lies in the folder and its folders, as os.walk finds it, with what the system says of its kind."""
    folders = [str(folder)]
    while folders:
        try:
            with os.scandir(folders.pop()) as found:
                entries = list(found)
        except OSError:
            continue
        folders += [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
        yield from entries


def _is_file(entry: os.DirEntry[str]) -> bool:
    # Whoever opens a pipe waits for its writer. Most entries know their kind, only links are looked up.
    try:
        return entry.is_file()
    except OSError:
        return False  # as os.path.isfile, for a link in a circle
