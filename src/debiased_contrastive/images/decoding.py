"""Image files to squares of RGB pixels, in this process or in a pool of others."""

import os
import re
import signal
import threading
import warnings
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context, parent_process

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


def decoded(paths: Sequence[str], size: int) -> npt.NDArray[np.uint8]:
    """(b, 3, size, size), the centres of the images in these files, short side scaled to `size`.

    Scaled with Pillow's bilinear filter, which averages when it shrinks. Transparent parts become
    white, of several frames the first counts, and the pixels stay as stored, whatever EXIF says of
    their orientation. Formats are JPEG, PNG, WebP, BMP, GIF, TIFF and PPM, by content. A file that
    cannot be read is named in a ValueError, and so is one of more than `PIL.Image.MAX_IMAGE_PIXELS`,
    where Pillow itself only warns up to twice as many.
    """
    pixels = np.empty((len(paths), 3, size, size), np.uint8)
    for place, path in enumerate(paths):
        pixels[place] = _square(path, size).transpose(2, 0, 1)
    return pixels


def _square(path: str, size: int) -> npt.NDArray[np.uint8]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            return _centre(path, size)
    except UnidentifiedImageError:
        reason = "not a JPEG, PNG, WebP, BMP, GIF, TIFF or PPM image"
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        reason = _too_many_pixels(error)
    except MemoryError:
        reason = "the memory does not suffice to decode it"
    # The readers of damaged files raise anything, struct.error and IndexError among them.
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
    # Without the cause: not every exception survives the way back from a worker.
    raise ValueError(f"{path} cannot be read: {reason}; replace or remove it")


def _too_many_pixels(error: Exception) -> str:
    # Pillow tells the size only in its words, and its error there names twice the limit.
    size = next(iter(re.findall(r"\d+", str(error))), "0")
    return f"{int(size):,} pixels exceed the limit of {Image.MAX_IMAGE_PIXELS or 0:,}, as a decompression bomb does"


def _centre(path: str, size: int) -> npt.NDArray[np.uint8]:
    with Image.open(path, formats=_FORMATS) as image:
        # JPEG can be decoded at a fraction of its size; twice what is needed leaves no trace.
        image.draft(None, (2 * size, 2 * size))
        colours = _rgb(image)
    side = min(colours.size)
    left, top = ((length - side) / 2 for length in colours.size)
    box = (left, top, left + side, top + side)
    return np.asarray(colours.resize((size, size), Image.Resampling.BILINEAR, box=box))


def _rgb(image: Image.Image) -> Image.Image:
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
    """A pool of processes for `decoded`; spawned, since a fork of a process with threads may hang."""
    return ProcessPoolExecutor(workers, get_context("spawn"), initializer=_start_worker)


def available_cores() -> int:
    """Number of cores that this process may use; under torchrun its share of the machine's."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, cores // int(os.environ.get("LOCAL_WORLD_SIZE", "1")))


def _start_worker() -> None:
    # Ctrl-C belongs to the parent, which closes the pool.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_follow_parent, daemon=True).start()


def _follow_parent() -> None:
    # A killed parent closes nothing: its workers would wait for work forever.
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
