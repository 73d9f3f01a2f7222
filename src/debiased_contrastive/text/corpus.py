"""A corpus of any size as token ids in memory-mapped files, which are written once and kept as a cache."""

import errno
import hashlib
import heapq
import io
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from debiased_contrastive.files import file_digest, read_json, read_text, write_error
from debiased_contrastive.numerics import make_generator
from debiased_contrastive.text.sentences import list_files, read_sentences
from debiased_contrastive.text.vocabulary import (
    FIRST,
    UNKNOWN,
    Sentences,
    WordNumbering,
    make_tokenizer,
    pad,
    parse_tokenizer,
)

if TYPE_CHECKING:
    from tokenizers import Tokenizer

OnProgress = Callable[[int, int, str], None]
"""Called with the amount done, the total amount, and what is being done."""

_FORMAT = 2
"""To be raised when the same text and settings give other files."""
_ARRAYS = ("tokens.npy", "offsets.npy", "starts.npy")
_CONTENT = (*_ARRAYS, "tokenizer.json")
_NUMBERS_AT_ONCE = 2**16
_Part = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Corpus:
    """Sentences in the order of the text, as ids of words."""

    tokens: npt.NDArray[np.int32]
    """All ids, sentence after sentence; memory-mapped, as are the next two."""
    offsets: npt.NDArray[np.int64]
    """(n + 1,) where in `tokens` each sentence begins, and the end of the last one."""
    starts: npt.NDArray[np.bool_]
    """(n,) whether there is a break before the sentence."""
    tokenizer: "Tokenizer"
    """Hugging Face's tokeniser; its `to_str` is what a run keeps."""
    longest: int
    """Number of words after which sentences are cut."""
    held_out: int
    """Number of sentences at the beginning that are not trained on."""
    dropped: int
    """Number of rows of tables that held no word."""
    digest: str = ""
    """A checksum of the sentences and words, whatever their path."""

    def __len__(self) -> int:
        return len(self.starts)

    def batch(self, start: int, size: int) -> Sentences:
        """The sentences `start` to `start + size - 1`."""
        if size < 1 or not 0 <= start <= len(self) - size:
            raise ValueError(
                f"a batch must lie within the {len(self)} sentences; got {size} sentences from sentence {start}"
            )
        offsets = np.asarray(self.offsets[start : start + size + 1])
        return pad(self.tokens[offsets[0] : offsets[-1]], np.diff(offsets), self.linked(start, size))

    def linked(self, start: int, size: int) -> Tensor:
        """(size - 1,) bool, whether each of these sentences and the next are neighbours."""
        return torch.from_numpy(~self.starts[start + 1 : start + size])

    def num_blocks(self, size: int) -> int:
        """Number of whole blocks of `size` sentences to train on; the rest of the text is dropped."""
        trained = len(self) - self.held_out
        if not 2 <= size <= trained:
            raise ValueError(
                f"a batch must have at least 2 sentences and at most the {trained} that there are to train on; got "
                f"{size}: use a smaller batch, or a longer text"
            )
        return trained // size

    def block_start(self, step: int, size: int, seed: int) -> int:
        """The sentence at which the block of a step begins: each epoch has every block once, in its own order."""
        epoch, place = divmod(step, self.num_blocks(size))
        return self.held_out + size * int(_order(epoch, self.num_blocks(size), seed)[place])


def load_corpus(
    path: Path | str,
    *,
    size: int = 50_000,
    longest: int = 50,
    lowercase: bool = False,
    held_out: int = 0,
    column: str = "sentence",
    breaks: Sequence[str] | None = None,
    cache: Path | str | None = None,
    progress: OnProgress | None = None,
    tell: Callable[[str], None] = lambda _line: None,
) -> Corpus:
    """Load the sentences of a text, .tsv or .parquet file, or of a folder of them; `read_sentences` reads them.

    The vocabulary is the unknown word and the `size` - 1 most frequent words, of equally frequent ones the
    first by code points. It is counted over what is trained on: all sentences but the first `held_out`, each
    up to its first `longest` words. With the padding there are at most `size` + 1 ids.

    The result is kept in a folder beside the text, or in the folder `cache`, under a checksum of the content
    of the files and of the settings. It may be deleted at any time; if it is damaged, it is written anew, and
    `tell` is given a line about it.
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
    files = list_files(path)
    before = _sizes_and_times(files)
    progress = progress or (lambda _done, _total, _what: None)
    checksum = _checksum(files, settings, progress)
    folder = Path(path.parent if cache is None else cache) / f"{path.name}.tokens-{checksum[:12]}"
    corpus = _open_cache(folder, checksum)
    if corpus is not None:
        return corpus
    if folder.exists():
        tell(f"{folder} is damaged and is made anew")
    with _temporary_folder(folder) as place:
        text = _number_words(files, settings, place, progress)
        if _sizes_and_times(files) != before:
            raise ValueError(f"{path} must stay as it is while it is read; it changed; call again")
        if not text.sentences:
            raise ValueError(f"{path} must hold at least one sentence; it holds none")
        if held_out >= text.sentences:
            raise ValueError(f"held_out must be less than the {text.sentences} sentences of {path}; got {held_out}")
        new = place / "new"
        new.mkdir()
        _build(text, settings, place, new, progress)
        counts = {"sentences": text.sentences, "tokens": text.tokens, "dropped": text.dropped}
        digests = {"digests": {name: file_digest(new / name) for name in _CONTENT}}
        _write(new / "corpus.json", [json.dumps({"checksum": checksum, **settings, **counts, **digests}).encode()])
        _move_into_place(new, folder, checksum, place / "old")
    corpus = _open_cache(folder, checksum)
    if corpus is None:
        raise ValueError(f"{folder} must hold what was just written; it does not; check the disk")
    return corpus


def _sizes_and_times(files: Iterable[Path]) -> list[tuple[int, int]]:
    return [(state.st_size, state.st_mtime_ns) for state in (path.stat() for path in files)]


def _checksum(files: Sequence[Path], settings: dict[str, Any], progress: OnProgress) -> str:
    """A checksum of the names and the content of the files, of the settings and of the format."""
    sizes = [path.stat().st_size for path in files]
    described = []
    for place, path in enumerate(files):

        def report(read: int, before: int = sum(sizes[:place])) -> None:
            progress(before + read, sum(sizes), "hashing")

        described.append([path.name, sizes[place], file_digest(path, report)])
    content = json.dumps({"format": _FORMAT, "files": described, "settings": settings}, sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()


def _open_cache(folder: Path, checksum: str) -> Corpus | None:
    """The corpus of this checksum in a folder; None if there is none, or if it is not as it was written."""
    try:
        description = read_json(folder / "corpus.json")
        digests = {name: file_digest(folder / name) for name in _CONTENT}
        if description["checksum"] != checksum or description["digests"] != digests:
            return None
        tokens, offsets, starts = (np.load(folder / name, mmap_mode="r") for name in _ARRAYS)
        tokenizer = parse_tokenizer(read_text(folder / "tokenizer.json"))
        numbers = {name: int(description[name]) for name in ("longest", "held_out", "dropped")}
    except (OSError, ValueError, KeyError, TypeError):
        return None
    digest = hashlib.sha256(json.dumps([*digests.values(), numbers["held_out"]]).encode()).hexdigest()
    return Corpus(tokens, offsets, starts, tokenizer, **numbers, digest=digest)


@contextmanager
def _temporary_folder(folder: Path) -> Iterator[Path]:
    """A temporary folder beside this one, so that a rename can put it in place."""
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
            raise write_error(folder, error, safe) from None


def _move_into_place(new: Path, folder: Path, checksum: str, old: Path) -> None:
    """Move a new folder to its place in one step, unless another process was faster."""
    if _open_cache(folder, checksum) is None and folder.exists():
        folder.rename(old)
    try:
        new.rename(folder)
    except OSError:
        if _open_cache(folder, checksum) is None:
            raise


class _Text(NamedTuple):
    words: list[str]
    """All different words, in the order in which they come."""
    sentences: int
    tokens: int
    held_out_tokens: int
    dropped: int


def _number_words(files: Sequence[Path], settings: dict[str, Any], place: Path, progress: OnProgress) -> _Text:
    """Number the words of the text, and write the numbers, ends and breaks of sentences to files in `place`.

    So the text is read only once, although it is not known yet which words are frequent.
    """
    numbering = WordNumbering(settings["lowercase"])
    total = sum(path.stat().st_size for path in files)
    sentences = tokens = held_out_tokens = dropped = 0
    with ExitStack() as stack:
        written = [stack.enter_context((place / name).open("wb")) for name in ("tokens", "offsets", "starts")]
        written[1].write(np.zeros(1, np.int64).data)
        for block in read_sentences(files, settings["column"], settings["breaks"]):
            numbers, lengths = numbering.number(block.sentences, settings["longest"])
            ends = tokens + np.cumsum(lengths, dtype=np.int64)
            arrays: tuple[_Part, ...] = (numbers, ends, np.array(block.starts, np.bool_))
            for file, array in zip(written, arrays, strict=True):
                file.write(array.data)
            held_out_tokens += int(lengths[: max(0, settings["held_out"] - sentences)].sum())
            sentences, tokens = sentences + len(lengths), tokens + len(numbers)
            dropped += block.dropped
            progress(block.done, total, "tokenising")
    return _Text(list(numbering.words), sentences, tokens, held_out_tokens, dropped)


def _build(text: _Text, settings: dict[str, Any], place: Path, new: Path, progress: OnProgress) -> None:
    """Write the arrays and the tokeniser of a corpus into the folder `new`."""
    frequent = _frequent_words(text, place / "tokens", settings["size"] - 1, progress)
    ids = np.full(len(text.words), UNKNOWN, np.int32)
    ids[frequent] = np.arange(FIRST, FIRST + len(frequent))
    tokens = _report((ids[part] for part in _parts(place / "tokens", np.int32)), text.tokens, "writing", progress)
    _write(new / "tokens.npy", _npy_content(tokens, np.int32, text.tokens))
    _write(new / "offsets.npy", _npy_content(_parts(place / "offsets", np.int64), np.int64, text.sentences + 1))
    _write(new / "starts.npy", _npy_content(_parts(place / "starts", np.bool_), np.bool_, text.sentences))
    tokenizer = make_tokenizer([text.words[number] for number in frequent], settings["lowercase"])
    _write(new / "tokenizer.json", [tokenizer.to_str().encode()])


def _frequent_words(text: _Text, path: Path, most: int, progress: OnProgress) -> list[int]:
    """Numbers of the most frequent words in the part that is trained on; ties are broken by name."""
    counts = np.zeros(len(text.words), np.int64)
    # Parts as long as the vocabulary, since counting one takes at least that many operations.
    parts = _parts(path, np.int32, max(_NUMBERS_AT_ONCE, len(text.words)), skipped=text.held_out_tokens)
    for part in _report(parts, text.tokens - text.held_out_tokens, "counting", progress):
        counts += np.bincount(part, minlength=len(counts))
    present = np.flatnonzero(counts).tolist()
    return heapq.nsmallest(most, present, key=lambda number: (-int(counts[number]), text.words[number]))


def _parts(path: Path, dtype: npt.DTypeLike, most: int = _NUMBERS_AT_ONCE, skipped: int = 0) -> Iterator[_Part]:
    """The numbers in a file without a header, after the first `skipped`, at most so many at a time."""
    with path.open("rb") as file:
        file.seek(skipped * np.dtype(dtype).itemsize)
        while len(part := np.fromfile(file, dtype, most)):
            yield part


def _report(parts: Iterable[_Part], total: int, what: str, progress: OnProgress) -> Iterator[_Part]:
    done = 0
    for part in parts:
        yield part
        done += len(part)
        progress(done, total, what)


def _npy_content(parts: Iterable[_Part], dtype: npt.DTypeLike, length: int) -> Iterator[bytes | memoryview]:
    """The content of a .npy file of so many numbers."""
    header = io.BytesIO()
    fields = {"descr": np.lib.format.dtype_to_descr(np.dtype(dtype)), "fortran_order": False, "shape": (length,)}
    np.lib.format.write_array_header_1_0(header, fields)
    yield header.getvalue()
    yield from (part.data for part in parts)


def _write(path: Path, content: Iterable[bytes | memoryview]) -> None:
    with path.open("wb") as file:
        for part in content:
            file.write(part)
        file.flush()
        os.fsync(file.fileno())


@lru_cache(maxsize=2)  # two, since a prefetching reader is ahead of the one that trains
def _order(epoch: int, num_blocks: int, seed: int) -> Tensor:
    return torch.randperm(num_blocks, generator=make_generator(seed, "blocks", epoch))
