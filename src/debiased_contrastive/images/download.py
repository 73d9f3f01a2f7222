"""Download the official archives of CIFAR-10 and STL-10, check them and unpack them."""

import gzip
import hashlib
import os
import tarfile
import threading
import time
import urllib.error
import urllib.request
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse
from pathlib import Path, PureWindowsPath
from queue import Empty, Queue
from tempfile import TemporaryDirectory
from typing import NamedTuple

from debiased_contrastive.files import printable

Progress = Callable[[int, int], None]
"""Called with the bytes that are there and the bytes in all, 0 where the server does not say."""

_ATTEMPTS = 5
_PAUSE = 0.5  # seconds, longer after each failure
_SILENCE = 30.0  # seconds without a byte
_WINDOW = 60.0  # seconds, for the head of an answer and then for each `_MIN_PROGRESS` bytes
_MIN_PROGRESS = 1 << 16
_CHUNK = 1 << 20
_MAX_MESSAGE = 200  # characters of what a server says


@dataclass(frozen=True)
class Dataset:
    """An official archive and what it unpacks to."""

    url: str
    md5: str
    folder: str
    """The one folder in the archive."""
    files: Mapping[str, int | None]
    """Size of each file in it that a reader needs, None where any will do."""

    def is_complete(self, root: Path) -> bool:
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
    """Download and unpack a dataset into `root`, unless it is complete already, and return its folder.

    The archive stays beside it. Call it in one process only, and let the others wait.
    """
    folder = root / dataset.folder
    if dataset.is_complete(root):
        return folder
    name = dataset.url.rsplit("/", 1)[-1]
    archive = download(dataset.url, root / name, dataset.md5, on_progress=on_progress)
    extract(archive, root)
    if not dataset.is_complete(root):
        raise ValueError(f"{archive} does not hold all of {', '.join(dataset.files)} in {dataset.folder}/")
    return folder


def download(url: str, target: Path, md5: str, *, on_progress: Progress | None = None) -> Path:
    """Download the file at `url`, which must have this md5, to `target`: it appears complete or not at all.

    What has arrived is kept in `target` + ".part", and the next call continues there.

    A connection is broken if it is silent for 30 seconds, if its headers take more than a minute, or if
    64 KiB of its body do. After two minutes in which no 64 KiB came, no other is tried, so a server that
    sends next to nothing is left after two minutes as a rule, and after about four at the most.
    """
    if target.is_file() and _md5(target) == md5:
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f"{target.name}.part")
    if not part.is_file() or _md5(part) != md5:
        _transfer(url, part, on_progress)
        if (actual := _md5(part)) != md5:
            part.unlink()
            raise ValueError(f"{url}: expected md5 {md5}, got {actual}; the file was deleted, download it again")
    os.replace(part, target)
    return target


def extract(archive: Path, target: Path) -> None:
    """Unpack a tar.gz into the folder `target`, each entry at its top complete or not at all.

    An entry that is there already is replaced. Paths that lead out of `target`, links and devices are
    refused, and then nothing is unpacked.
    """
    target.mkdir(parents=True, exist_ok=True)
    # Inside `target`, so that the renames stay on one file system.
    with TemporaryDirectory(dir=target, prefix=".unpack-") as place:
        new, old = Path(place, "new"), Path(place, "old")
        new.mkdir()
        old.mkdir()
        try:
            _unpack(archive, new)
        except (tarfile.TarError, gzip.BadGzipFile, zlib.error, EOFError) as error:
            raise ValueError(
                f"{archive} is damaged: {error}; delete it and download it again with debiased train --download"
            ) from error
        for entry in new.iterdir():
            if os.path.lexists(target / entry.name):
                (target / entry.name).rename(old / entry.name)
            entry.rename(target / entry.name)


def _unpack(archive: Path, folder: Path) -> None:
    with tarfile.open(archive, "r:gz") as tar:
        if hasattr(tarfile, "data_filter"):  # absent before Python 3.10.12
            tar.extraction_filter = tarfile.data_filter
        for member in tar:
            # Windows paths know both separators and drives, so this holds everywhere.
            path = PureWindowsPath(member.name)
            if path.anchor or ".." in path.parts:
                raise ValueError(f"{archive}: refused, since {member.name!r} leads out of the folder")
            if not (member.isreg() or member.isdir()):
                raise ValueError(f"{archive}: refused, since {member.name!r} is neither a file nor a folder")
            tar.extract(member, folder, set_attrs=False)


def _transfer(url: str, part: Path, on_progress: Progress | None) -> None:
    """Download to the end of `part`, over several connections where they break."""
    problem, broken, pace = "", 0, _Pace()
    while broken < _ATTEMPTS and not pace.is_hopeless():
        time.sleep(_PAUSE * broken)
        try:
            _continue(url, part, on_progress, pace)
            return
        except urllib.error.HTTPError as error:
            problem = f"HTTP {error.code} {_printable(error.reason)}"
            if error.code == 416:
                # Nothing lies beyond the end of `part`, yet its md5 is wrong: it is another file.
                part.unlink(missing_ok=True)
            elif error.code < 500:
                raise OSError(f"{url}: {problem}; check the address and the connection") from None
        except (OSError, HTTPException) as error:
            problem = _printable(str(error) or type(error).__name__)
        broken += 1
    kept = part.stat().st_size if part.exists() else 0
    raise ConnectionError(
        f"{url}: the transfer broke {broken} times ({problem}); {kept:,} bytes are kept, run it again to continue"
    )


def _continue(url: str, part: Path, on_progress: Progress | None, pace: "_Pace") -> None:
    """Append what is missing, in one connection."""
    done = part.stat().st_size if part.exists() else 0
    headers = {"Range": f"bytes={done}-"} if done else {}
    with closing(_Connection(urllib.request.Request(url, headers=headers))) as connection:
        head = connection.head()
        if head.status != 206:
            done = 0  # The server ignored the range and sends all.
        elif not head.content_range.startswith(f"bytes {done}-"):
            part.unlink()
            raise ConnectionError("the server sent another range than was asked for")
        total = done + head.length if head.length else 0
        told = done
        with part.open("ab" if done else "wb") as file:
            for piece in connection.body(pace):
                file.write(piece)
                done += len(piece)
                if on_progress is not None and done // _CHUNK > told // _CHUNK:
                    on_progress(done, total)
                    told = done
    # A body ends early without a word when the connection does.
    if done < total:
        raise ConnectionError(f"closed at {done:,} of {total:,} bytes")
    if on_progress is not None and done > told:
        on_progress(done, total)


class _Pace:
    """When `_MIN_PROGRESS` bytes were last complete."""

    def __init__(self) -> None:
        self.last = time.monotonic()

    def is_hopeless(self) -> bool:
        # So long ago that another connection would only waste more time.
        return time.monotonic() - self.last >= 2 * _WINDOW


class _Head(NamedTuple):
    status: int
    content_range: str
    length: int  # 0 where it does not say


class _Connection:
    """An HTTP answer that is read in a thread, with a deadline for each part of it."""

    # A thread can be left alone: http.client reads a line, such as a header or the size of a chunk, for as long as
    # each byte comes in time.
    def __init__(self, request: urllib.request.Request) -> None:
        self._request = request
        self._arrivals: Queue[_Head | bytes | Exception] = Queue(maxsize=1)
        self._is_closed = threading.Event()
        threading.Thread(target=self._read, daemon=True).start()

    def head(self) -> _Head:
        problem = f"the headers were not complete after {_WINDOW:g} seconds"
        head = self._next(time.monotonic() + _WINDOW, problem)
        assert isinstance(head, _Head)
        return head

    def body(self, pace: _Pace) -> Iterator[bytes]:
        """The pieces that follow, as long as each `_MIN_PROGRESS` bytes of them take at most `_WINDOW`."""
        problem = f"less than {_MIN_PROGRESS:,} bytes arrived in {_WINDOW:g} seconds"
        fresh, deadline = 0, time.monotonic() + _WINDOW
        while piece := self._next(deadline, problem):
            assert isinstance(piece, bytes)
            fresh += len(piece)
            if fresh >= _MIN_PROGRESS:
                pace.last = time.monotonic()
                fresh, deadline = 0, pace.last + _WINDOW
            yield piece

    def close(self) -> None:
        # The thread ends with the next piece, or when the server does.
        self._is_closed.set()
        with suppress(Empty):
            self._arrivals.get_nowait()

    def _next(self, deadline: float, problem: str) -> _Head | bytes:
        try:
            # What is there already is taken however late it is: the disk may have been slow.
            arrival = self._arrivals.get(timeout=max(0.0, deadline - time.monotonic()))
        except Empty:
            raise ConnectionError(problem) from None
        if isinstance(arrival, Exception):
            raise arrival
        return arrival

    def _read(self) -> None:
        for arrival in _receive(self._request):
            self._arrivals.put(arrival)
            if self._is_closed.is_set():
                return


def _receive(request: urllib.request.Request) -> Iterator[_Head | bytes | Exception]:
    """The head of the answer, the pieces of its body and an empty one; or else the error that came instead."""
    try:
        with urllib.request.urlopen(request, timeout=_SILENCE) as response:
            if not isinstance(response, HTTPResponse):
                raise ConnectionError("the address leads to something other than HTTP")
            yield _Head(response.status, response.headers.get("Content-Range", ""), response.length or 0)
            while piece := response.read1(_CHUNK):
                yield piece
            yield b""
    except urllib.error.HTTPError as error:
        error.close()
        yield error
    except ValueError as error:
        # An address that the server led to may be none at all.
        yield ConnectionError(str(error))
    except Exception as error:
        yield error


def _printable(words: object) -> str:
    """Put the words of a server on one short line that is harmless to a terminal."""
    line = " ".join(str(words).split())
    text = printable(line[: _MAX_MESSAGE + 1])
    return text if len(text) <= _MAX_MESSAGE else f"{text[:_MAX_MESSAGE]}..."


def _md5(path: Path) -> str:
    digest = hashlib.md5(usedforsecurity=False)
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()
