"""A corpus of any size as numbers in memory-mapped files, made once and kept beside it."""

import errno
import hashlib
import heapq
import io
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from debiased_contrastive.files import file_digest, not_written, read_json, read_text
from debiased_contrastive.text.sentences import blocks, files_of
from debiased_contrastive.text.vocabulary import (
    FIRST,
    UNKNOWN,
    Numbering,
    Sentences,
    padded,
    tokenizer_from,
    tokenizer_of,
)

if TYPE_CHECKING:
    from tokenizers import Tokenizer

Shown = Callable[[int, int, str], None]
"""Called with how much is done, of how much, and of what."""

_FORMAT = 2
"""To be counted up when the same text and settings give other files."""
_CONTENT = ("tokens.npy", "offsets.npy", "starts.npy", "tokenizer.json")
_PART = 2**16
_Part = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Corpus:
    """Sentences in the order of the text, as ids of words."""

    tokens: npt.NDArray[np.int32]
    """All ids, sentence after sentence; memory-mapped, as are the next two."""
    offsets: npt.NDArray[np.int64]
    """(n + 1,) where in `tokens` each sentence begins, and the end of the last"""
    starts: npt.NDArray[np.bool_]
    """(n,) whether a break stands before the sentence"""
    tokenizer: "Tokenizer"
    """Of Hugging Face; its `to_str` is what a run keeps."""
    longest: int
    """Number of words after which sentences are cut"""
    held_out: int
    """Number of sentences at the beginning that are not trained on"""
    dropped: int
    """Number of rows of tables that held no word"""
    digest: str = ""
    """The same for the same sentences and words, wherever they lie"""

    def __len__(self) -> int:
        """Number of sentences, those held out included."""
        return len(self.starts)

    def batch(self, start: int, size: int) -> Sentences:
        """The sentences `start` to `start + size - 1`."""
        if size < 1 or not 0 <= start <= len(self) - size:
            raise ValueError(
                f"a batch must lie within the {len(self)} sentences; got {size} sentences from sentence {start}"
            )
        offsets = np.asarray(self.offsets[start : start + size + 1])
        return padded(self.tokens[offsets[0] : offsets[-1]], np.diff(offsets), self.linked(start, size))

    def linked(self, start: int, size: int) -> Tensor:
        """(size - 1,) bool, whether each of these sentences and the next are neighbours."""
        return torch.from_numpy(~self.starts[start + 1 : start + size])

    def blocks(self, size: int) -> int:
        """Number of whole blocks of `size` sentences to train on; the rest of the text is dropped."""
        trained = len(self) - self.held_out
        if not 2 <= size <= trained:
            raise ValueError(
                f"a batch must have at least 2 sentences and at most the {trained} that there are to train on; got "
                f"{size}: use a smaller batch, or a longer text"
            )
        return trained // size

    def block(self, step: int, size: int, seed: int) -> int:
        """The sentence at which the block of a step begins: each epoch has every block once, in its own order."""
        epoch, place = divmod(step, self.blocks(size))
        return self.held_out + size * int(_order(epoch, self.blocks(size), seed)[place])


def corpus_of(
    path: Path | str,
    *,
    size: int = 50_000,
    longest: int = 50,
    lowercase: bool = False,
    held_out: int = 0,
    column: str = "sentence",
    breaks: Sequence[str] | None = None,
    cache: Path | str | None = None,
    shown: Shown | None = None,
    tell: Callable[[str], None] = lambda _line: None,
) -> Corpus:
    """The sentences of a text, .tsv or .parquet file, or of a folder of them; `blocks` says how they are read.

    The vocabulary is the unknown word and the `size` - 1 most frequent words, of equally frequent ones the
    first by code points. It is counted over what is trained on: all sentences but the first `held_out`, each
    up to its first `longest` words. With the padding there are at most `size` + 1 ids.

    The result is kept in a folder beside the text, or in the folder `cache`, under a checksum of the content
    of the files and of the settings, and found there the next time. Outdated ones may be deleted at any time, and
    one that is damaged is made anew: `tell` is given a line about it.
    """
    for name, value, least in (("size", size, 1), ("longest", longest, 1), ("held_out", held_out, 0)):
        if value < least:
            raise ValueError(f"{name} must be at least {least}; got {value}")
    path = Path(os.path.abspath(path))
    settings = {
        "size": size,
        "longest": longest,
        "lowercase": lowercase,
        "held_out": held_out,
        "column": column,
        "breaks": None if breaks is None else list(breaks),
    }
    files = files_of(path)
    before = _states(files)
    shown = shown or (lambda _done, _total, _what: None)
    checksum = _checksum(files, settings, shown)
    folder = Path(path.parent if cache is None else cache) / f"{path.name}.tokens-{checksum[:12]}"
    found = _kept(folder, checksum)
    if found is not None:
        return found
    if folder.exists():
        tell(f"{folder} is damaged and is made anew")
    with _unfinished(folder) as place:
        text = _numbered(files, settings, place, shown)
        if _states(files) != before:
            raise ValueError(f"{path} must stay as it is while it is read; it changed; call again")
        _check(text, path, held_out)
        new = place / "new"
        new.mkdir()
        _build(text, settings, place, new, shown)
        counts = {"sentences": text.sentences, "tokens": text.tokens, "dropped": text.dropped}
        digests = {"digests": {name: file_digest(new / name) for name in _CONTENT}}
        _write(new / "corpus.json", [json.dumps({"checksum": checksum, **settings, **counts, **digests}).encode()])
        _put(new, folder, checksum, place / "old")
    found = _kept(folder, checksum)
    if found is None:
        raise ValueError(f"{folder} must hold what was just written; it does not; check the disk")
    return found


def _states(files: Iterable[Path]) -> list[tuple[int, int]]:
    return [(state.st_size, state.st_mtime_ns) for state in (path.stat() for path in files)]


def _checksum(files: Sequence[Path], settings: dict[str, Any], shown: Shown) -> str:
    """A checksum of the names and the content of the files, of the settings and of the format."""
    total, done = sum(path.stat().st_size for path in files), 0
    found = []
    for path in files:
        digest = file_digest(path, partial(_hashed, shown, done, total))
        size = path.stat().st_size
        done += size
        found.append([path.name, size, digest])
    described = json.dumps({"format": _FORMAT, "files": found, "settings": settings}, sort_keys=True)
    return hashlib.sha256(described.encode()).hexdigest()


def _hashed(shown: Shown, before: int, total: int, read: int) -> None:
    shown(before + read, total, "hashing")


def _kept(folder: Path, checksum: str) -> Corpus | None:
    """The corpus of this checksum in a folder; None where there is none or it is not as it was written."""
    try:
        description = read_json(folder / "corpus.json")
        digests = {name: file_digest(folder / name) for name in _CONTENT}
        if description["checksum"] != checksum or description["digests"] != digests:
            return None
        tokens, offsets, starts = (np.load(folder / name, mmap_mode="r") for name in _CONTENT[:3])
        tokenizer = tokenizer_from(read_text(folder / _CONTENT[3]))
        numbers = {name: int(description[name]) for name in ("longest", "held_out", "dropped")}
    except (OSError, ValueError, KeyError, TypeError):
        return None
    digest = hashlib.sha256(json.dumps([*digests.values(), numbers["held_out"]]).encode()).hexdigest()
    return Corpus(tokens, offsets, starts, tokenizer, **numbers, digest=digest)


@contextmanager
def _unfinished(folder: Path) -> Iterator[Path]:
    """A temporary folder beside this one, so that a rename is all that is left to do at the end."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        temporary = TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}.")
    except OSError as error:
        raise PermissionError(
            f"{folder.parent} must take the tokens of the corpus; {error.strerror}; choose another place with "
            "--text.cache"
        ) from error
    with temporary as place:
        try:
            yield Path(place)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EFBIG, errno.EDQUOT):
                raise
            safe = "the text is untouched: make room, or choose another place for its tokens with --text.cache"
            raise not_written(folder, error, safe) from None


def _put(new: Path, folder: Path, checksum: str, old: Path) -> None:
    """Move a new folder to its place in one step, unless another process was faster."""
    if _kept(folder, checksum) is None and folder.exists():
        folder.rename(old)
    try:
        new.rename(folder)
    except OSError:
        if _kept(folder, checksum) is None:
            raise


class _Text(NamedTuple):
    words: list[str]
    """All of them, in the order in which they come."""
    sentences: int
    tokens: int
    held_out_tokens: int
    """Number of tokens in the sentences that are held out"""
    dropped: int


def _numbered(files: Sequence[Path], settings: dict[str, Any], place: Path, shown: Shown) -> _Text:
    """What the text holds; which words, of how long sentences, with which breaks goes into files in `place`.

    So the text is read once, though nobody knows yet which words are frequent.
    """
    numbering = Numbering(settings["lowercase"])
    total = sum(path.stat().st_size for path in files)
    sentences = tokens = held_out_tokens = dropped = 0
    with ExitStack() as stack:
        written = [stack.enter_context((place / name).open("wb")) for name in ("tokens", "lengths", "starts")]
        for block in blocks(files, settings["column"], settings["breaks"]):
            numbers, lengths = numbering.numbered(block.sentences, settings["longest"])
            for file, array in zip(written, (numbers, lengths, np.array(block.starts, np.bool_)), strict=True):
                file.write(array.data)
            held_out_tokens += int(lengths[: max(0, settings["held_out"] - sentences)].sum())
            sentences, tokens = sentences + len(lengths), tokens + len(numbers)
            dropped += block.dropped
            shown(block.done, total, "tokenising")
    return _Text(list(numbering.words), sentences, tokens, held_out_tokens, dropped)


def _check(text: _Text, path: Path, held_out: int) -> None:
    if not text.sentences:
        raise ValueError(f"{path} must hold at least one sentence; it holds none")
    if held_out >= text.sentences:
        raise ValueError(f"held_out must be less than the {text.sentences} sentences of {path}; got {held_out}")


def _build(text: _Text, settings: dict[str, Any], place: Path, new: Path, shown: Shown) -> None:
    """Write the arrays and the tokeniser of a corpus into the folder `new`."""
    frequent = _frequent(text, place / "tokens", settings["size"] - 1, shown)
    ids = np.full(len(text.words), UNKNOWN, np.int32)
    ids[frequent] = np.arange(FIRST, FIRST + len(frequent))
    tokens = _told((ids[part] for part in _parts(place / "tokens", np.int32)), text.tokens, "writing", shown)
    _write(new / "tokens.npy", _array(tokens, np.int32, text.tokens))
    _write(new / "offsets.npy", _array(_ends(_parts(place / "lengths", np.int32)), np.int64, text.sentences + 1))
    _write(new / "starts.npy", _array(_parts(place / "starts", np.bool_), np.bool_, text.sentences))
    tokenizer = tokenizer_of([text.words[number] for number in frequent], settings["lowercase"])
    _write(new / "tokenizer.json", [tokenizer.to_str().encode()])


def _frequent(text: _Text, path: Path, most: int, shown: Shown) -> list[int]:
    """The numbers of the most frequent words of the part that is trained on, of equal ones the first by name."""
    counts = np.zeros(len(text.words), np.int64)
    # Parts as long as the vocabulary, since to count one takes no less than that.
    parts = _parts(path, np.int32, max(_PART, len(text.words)), skipped=text.held_out_tokens)
    for part in _told(parts, text.tokens - text.held_out_tokens, "counting", shown):
        counts += np.bincount(part, minlength=len(counts))
    seen = np.flatnonzero(counts).tolist()
    return heapq.nsmallest(most, seen, key=lambda number: (-int(counts[number]), text.words[number]))


def _parts(path: Path, dtype: npt.DTypeLike, most: int = _PART, skipped: int = 0) -> Iterator[_Part]:
    """The numbers in a file without a header, after the first `skipped`, at most so many at a time."""
    with path.open("rb") as file:
        file.seek(skipped * np.dtype(dtype).itemsize)
        while len(part := np.fromfile(file, dtype, most)):
            yield part


def _told(parts: Iterable[_Part], total: int, what: str, shown: Shown) -> Iterator[_Part]:
    done = 0
    for part in parts:
        yield part
        done += len(part)
        shown(done, total, what)


def _ends(parts: Iterable[_Part]) -> Iterator[_Part]:
    """0, and after each length the sum up to it."""
    last = np.zeros(1, np.int64)
    yield last
    for part in parts:
        ends = last + np.cumsum(part, dtype=np.int64)
        yield ends
        last = ends[-1:]


def _array(parts: Iterable[_Part], dtype: npt.DTypeLike, length: int) -> Iterator[bytes | memoryview]:
    """The content of a .npy file of so many numbers."""
    header = io.BytesIO()
    described = {"descr": np.lib.format.dtype_to_descr(np.dtype(dtype)), "fortran_order": False, "shape": (length,)}
    np.lib.format.write_array_header_1_0(header, described)
    yield header.getvalue()
    yield from (part.data for part in parts)


def _write(path: Path, content: Iterable[bytes | memoryview]) -> None:
    with path.open("wb") as file:
        for part in content:
            file.write(part)
        file.flush()
        os.fsync(file.fileno())


# Two, since a prefetching reader is ahead of the one that trains.
@lru_cache(maxsize=2)
def _order(epoch: int, num_blocks: int, seed: int) -> Tensor:
    # As the order of images, by a hash: neighbouring seeds and epochs are unrelated.
    digest = hashlib.sha256(f"{seed}:blocks:{epoch}".encode()).digest()
    generator = torch.Generator().manual_seed(int.from_bytes(digest[:8], "big") >> 1)
    return torch.randperm(num_blocks, generator=generator)
