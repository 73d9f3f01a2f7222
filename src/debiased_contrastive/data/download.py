"""The official archives of CIFAR-10 and STL-10: fetched, checked and unpacked."""

import hashlib
import os
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path

from debiased_contrastive.data.archive import extract as extract

Progress = Callable[[int, int], None]
"""Called with the bytes that are there and the bytes in all, 0 where the server does not say."""

_ATTEMPTS = 5
_PAUSE = 0.5  # seconds, longer after each failure
_CHUNK = 1 << 20


@dataclass(frozen=True)
class Dataset:
    """An official archive and what it unpacks to."""

    url: str
    md5: str
    folder: str
    """The one folder in the archive."""
    files: Mapping[str, int | None]
    """Size of each file in it that a reader needs, None where any will do."""

    def complete(self, root: Path) -> bool:
        """Whether `root` holds every file in its full size."""
        paths = {root / self.folder / name: size for name, size in self.files.items()}
        return all(path.is_file() and size in (None, path.stat().st_size) for path, size in paths.items())


CIFAR10 = Dataset(
    "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
    "c32a1d4ab5d03f1284b67883e8d87530",
    "cifar-10-batches-bin",
    {
        **{f"data_batch_{number}.bin": 30_730_000 for number in range(1, 6)},
        "test_batch.bin": 30_730_000,
        "batches.meta.txt": None,
    },
)
STL10 = Dataset(
    "http://ai.stanford.edu/~acoates/stl10/stl10_binary.tar.gz",
    "91f7769df0f17e558f3565bffb0c7dfb",
    "stl10_binary",
    {
        "train_X.bin": 5_000 * 27_648,
        "train_y.bin": 5_000,
        "test_X.bin": 8_000 * 27_648,
        "test_y.bin": 8_000,
        "unlabeled_X.bin": 100_000 * 27_648,
        "class_names.txt": None,
    },
)


def fetch(dataset: Dataset, root: Path, on_progress: Progress | None = None) -> Path:
    """The folder of the dataset in `root`, downloaded and unpacked unless it is complete already.

    The archive stays beside it. Call it in one process only, and let the others wait.
    """
    folder = root / dataset.folder
    if dataset.complete(root):
        return folder
    name = dataset.url.rsplit("/", 1)[-1]
    archive = download(dataset.url, root / name, dataset.md5, on_progress=on_progress)
    extract(archive, root)
    if not dataset.complete(root):
        raise ValueError(f"{archive} does not hold all of {', '.join(dataset.files)} in {dataset.folder}/")
    return folder


def download(url: str, target: Path, md5: str, *, on_progress: Progress | None = None) -> Path:
    """The path of the file at `url`, with this md5: `target`, which appears complete or not at all.

    What has arrived is kept in `target` + ".part", and the next call continues there.
    """
    if target.is_file() and _md5(target) == md5:
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f"{target.name}.part")
    if not part.is_file() or _md5(part) != md5:
        _transfer(url, part, on_progress)
        found = _md5(part)
        if found != md5:
            part.unlink()
            raise ValueError(f"{url}: expected md5 {md5}, got {found}; the file was deleted, download it again")
    os.replace(part, target)
    return target


def _transfer(url: str, part: Path, on_progress: Progress | None) -> None:
    """Fill `part` to its end, over several connections where they break."""
    problem = ""
    for attempt in range(_ATTEMPTS):
        time.sleep(_PAUSE * attempt)
        try:
            _continue(url, part, on_progress)
            return
        except urllib.error.HTTPError as error:
            error.close()
            problem = f"HTTP {error.code} {error.reason}"
            if error.code == 416:
                # Nothing lies beyond the end of `part`, yet its md5 is wrong: it is another file.
                part.unlink(missing_ok=True)
            elif error.code < 500:
                raise OSError(f"{url}: {problem}; check the address and the connection") from None
        except (OSError, HTTPException) as error:
            problem = str(error) or type(error).__name__
    kept = part.stat().st_size if part.exists() else 0
    raise ConnectionError(
        f"{url}: the transfer broke {_ATTEMPTS} times ({problem}); {kept:,} bytes are kept, "
        "run it again to continue"
    )


def _continue(url: str, part: Path, on_progress: Progress | None) -> None:
    """Append what is missing, in one connection."""
    done = part.stat().st_size if part.exists() else 0
    headers = {"Range": f"bytes={done}-"} if done else {}
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=30) as response:
        if response.status != 206:
            done = 0  # The server ignored the range and sends all.
        elif not response.headers.get("Content-Range", "").startswith(f"bytes {done}-"):
            part.unlink()
            raise ConnectionError("the server sent another range than was asked for")
        total = done + response.length if response.length else 0
        with part.open("ab" if done else "wb") as file:
            while chunk := response.read(_CHUNK):
                file.write(chunk)
                done += len(chunk)
                if on_progress is not None:
                    on_progress(done, total)
    # A read of a given size ends early without a word when the connection does.
    if done < total:
        raise ConnectionError(f"closed at {done:,} of {total:,} bytes")


def _md5(path: Path) -> str:
    digest = hashlib.md5(usedforsecurity=False)
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()
