"""Image files: which ones a folder has, and how they become squares of RGB pixels, here or in worker processes.

Nothing here needs torch, so that workers start soon and stay small.
"""

import os
import re
import signal
import threading
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context, parent_process
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt
from PIL import Image, UnidentifiedImageError

# A fixed list: what Pillow registers grows with its version and what is installed, the set should not;
# and some of its readers start other programs (EPS) or read no pixels (HDF5). The name of a file says
# nothing of its content, so both are held to it.
_FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "GIF", "TIFF", "PPM")
EXTENSIONS = frozenset({
    ".bmp", ".gif", ".jfif", ".jpeg", ".jpg", ".pbm", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp",
})  # fmt: skip


def find_images(root: Path) -> tuple[list[str], npt.NDArray[np.int64] | None, tuple[str, ...]]:
    """Paths, labels and class names of a folder, in an order that every machine shares."""
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
    labels = np.repeat(np.arange(len(folders), dtype=np.int64), [len(paths) for paths in members])
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


def decode_images(paths: Sequence[str], size: int) -> npt.NDArray[np.uint8]:
    """Decode files to (b, 3, size, size): the centres of the images, their short side scaled to `size`.

    They are scaled with Pillow's bilinear filter, which averages when it shrinks. Transparent parts become
    white, of several frames the first counts, and the pixels stay as stored, whatever EXIF says of
    their orientation. Formats are JPEG, PNG, WebP, BMP, GIF, TIFF and PPM, by content. A file that
    cannot be read is named in a ValueError, and so is one of more than `PIL.Image.MAX_IMAGE_PIXELS`,
    where Pillow itself only warns up to twice as many.
    """
    pixels = np.empty((len(paths), 3, size, size), np.uint8)
    for place, path in enumerate(paths):
        pixels[place] = decode_image(path, size, path).transpose(2, 0, 1)
    return pixels


def decode_image(source: str | BinaryIO, size: int, name: str) -> npt.NDArray[np.uint8]:
    """Decode one image to (size, size, 3), as `decode_images` does; `name` begins the message where that fails."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            return _crop_centre(source, size)
    except UnidentifiedImageError:
        reason = "not a JPEG, PNG, WebP, BMP, GIF, TIFF or PPM image"
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        # Pillow tells the size only in its words, and its error there names twice the limit.
        found = int(next(iter(re.findall(r"\d+", str(error))), "0"))
        reason = (
            f"{found:,} pixels exceed the limit of {Image.MAX_IMAGE_PIXELS or 0:,}, as a decompression bomb does"
        )
    except MemoryError:
        reason = "the memory does not suffice to decode it"
    # The readers of damaged files raise anything, struct.error and IndexError among them.
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
    # Without the cause: not every exception survives the way back from a worker.
    raise ValueError(f"{name} cannot be read: {reason}; replace or remove it")


def _crop_centre(source: str | BinaryIO, size: int) -> npt.NDArray[np.uint8]:
    with Image.open(source, formats=_FORMATS) as image:
        # JPEG can be decoded at a fraction of its size; twice what is needed leaves no trace.
        image.draft(None, (2 * size, 2 * size))
        colours = to_rgb(image)
    return np.asarray(scale_centre(colours, size))


def scale_centre(image: Image.Image, size: int) -> Image.Image:
    """Scale the short side to `size`, and crop the centre to a square."""
    side = min(image.size)
    left, top = ((length - side) / 2 for length in image.size)
    box = (left, top, left + side, top + side)
    return image.resize((size, size), Image.Resampling.BILINEAR, box=box)


def to_rgb(image: Image.Image) -> Image.Image:
    if image.mode == "F":
        raise ValueError("floating-point pixels have no known range")
    if image.mode.startswith("I"):
        # Sixteen bits of grey, which a plain conversion would clip at 255.
        levels = np.asarray(image)
        if levels.min() < 0 or levels.max() >= 1 << 16:
            raise ValueError(f"expected at most 16 bits of grey, got {levels.min()}..{levels.max()}")
        return Image.fromarray((levels >> 8).astype(np.uint8)).convert("RGB")
    if image.has_transparency_data:
        front = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", front.size, "white"), front).convert("RGB")
    return image.convert("RGB")


def worker_pool(workers: int) -> ProcessPoolExecutor:
    """A pool of processes for `decode_images`; spawned, since a fork of a process with threads may hang."""
    return ProcessPoolExecutor(workers, get_context("spawn"), initializer=_start_worker)


def available_cores() -> int:
    """Number of cores that this process may use; under torchrun its share of the machine's."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, cores // int(os.environ.get("LOCAL_WORLD_SIZE", "1")))


def _start_worker() -> None:
    # Ctrl-C belongs to the parent, which closes the pool.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_exit_with_parent, daemon=True).start()


def _exit_with_parent() -> None:
    # A killed parent closes nothing: its workers would wait for work forever.
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
