"""Sentences and the breaks between them, streamed from .txt, .tsv and .parquet files."""

import importlib.resources
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import repeat
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

from debiased_contrastive.files import open_parquet

BREAKS = ("book", "document", "paragraph")
"""The columns of a table whose change is a break, by default."""

_BYTES_AT_ONCE = 2**18  # rather few, since as lists of words they take ten times the memory
_ROWS_AT_ONCE = 2**11
_LONGEST_LINE = 2**24
_BOM = b"\xef\xbb\xbf"


class Block(NamedTuple):
    """Consecutive sentences."""

    sentences: list[str]
    starts: list[bool]
    """For each sentence, whether a break stands before it."""
    dropped: int
    """Number of rows of a table that hold no word."""
    done: int
    """Number of bytes of all files read up to here."""


class _Rows(NamedTuple):
    sentences: Sequence[str | None]
    groups: Iterable[Any]
    """For each sentence, a value that changes at a break."""
    done: float
    """The part of the file read up to here."""


def list_files(path: Path) -> list[Path]:
    """List the file itself, or the files of a folder by name, without hidden ones and other endings."""
    known = ", ".join(_READERS)
    if path.is_dir():
        entries = (entry for entry in path.iterdir() if not entry.name.startswith("."))
        found = [entry for entry in entries if entry.suffix.lower() in _READERS and entry.is_file()]
        if not found:
            raise ValueError(f"{path} must hold files that end in one of {known}; it holds none directly in it")
        return sorted(found, key=lambda entry: entry.name)
    if not path.is_file():
        raise FileNotFoundError(
            f"{path} must be a file or a folder of text, one sentence a line; there is none; check the path"
        )
    if path.suffix.lower() not in _READERS:
        raise ValueError(f"{path} must end in one of {known}; got {path.suffix or 'no ending'!r}; rename it")
    return [path]


def read_sentences(
    files: Iterable[Path], column: str = "sentence", breaks: Sequence[str] | None = None
) -> Iterator[Block]:
    """Read the sentences of these files, in blocks that are small however large the files are.

    Text has one sentence a line, and a blank line is a break. A .tsv starts with the names of its columns; its
    fields are taken as they are, quotes included. In a table the sentences are in `column`, and a change in one
    of the columns `breaks` is a break; by default in those of `BREAKS` that are there. A row without a word is
    dropped, counted, and a break, and so is the start of a file.
    """
    read = 0
    for path in files:
        size = path.stat().st_size
        is_table = path.suffix.lower() != ".txt"
        pending, last = True, None
        for rows in _READERS[path.suffix.lower()](path, column, breaks):
            sentences, starts = [], []
            for sentence, group in zip(rows.sentences, rows.groups, strict=False):
                if group != last:
                    pending, last = True, group
                if not sentence or sentence.isspace():
                    pending = True
                    continue
                sentences.append(sentence)
                starts.append(pending)
                pending = False
            dropped = len(rows.sentences) - len(sentences) if is_table else 0
            yield Block(sentences, starts, dropped, read + int(rows.done * size))
        read += size


def austen_path() -> Path:
    """A file of the first 1,000 sentences of each of Austen's six novels: `book`, `paragraph` and `sentence`.

    >>> austen_path().name
    'austen.tsv'
    """
    return Path(str(importlib.resources.files("debiased_contrastive.text").joinpath("austen.tsv")))


def read_austen() -> list[tuple[str, str]]:
    """Read the book and the sentence of every row of that file, in order.

    >>> len(read_austen()), sorted({book for book, _ in read_austen()})[:2]
    (6000, ['emma', 'mansfield_park'])
    """
    found = _read_tsv(austen_path(), "sentence", ["book"])
    return [
        (str(book), str(text)) for rows in found for text, book in zip(rows.sentences, rows.groups, strict=True)
    ]


def _read_text(path: Path, _column: str, _breaks: Sequence[str] | None) -> Iterator[_Rows]:
    return (_Rows(lines, repeat(None), done) for _, lines, done in _read_lines(path))


def _read_tsv(path: Path, column: str, breaks: Sequence[str] | None) -> Iterator[_Rows]:
    header: list[str] | None = None
    for first, lines, done in _read_lines(path):
        found = [line.rstrip("\r").split("\t") for line in lines]
        if header is None:
            header, first, found = found[0], first + 1, found[1:]
            place, groups = _find_columns(path, header, column, breaks)
        for number, fields in enumerate(found, start=first):
            if len(fields) == len(header):
                continue
            if any(field.strip() for field in fields):
                raise ValueError(
                    f"{path} must have {len(header)} columns, as its first line has; line {number} has "
                    f"{len(fields)}; replace the tabs inside its fields"
                )
            found[number - first] = [""] * len(header)
        yield _Rows(
            [fields[place] for fields in found], map(itemgetter(*groups), found) if groups else repeat(None), done
        )
    if header is None:
        _find_columns(path, [], column, breaks)


def _read_parquet(path: Path, column: str, breaks: Sequence[str] | None) -> Iterator[_Rows]:
    with open_parquet(path, "text") as file:
        kinds = {field.name: field.type for field in file.schema_arrow}
        names = list(kinds)
        _, groups = _find_columns(path, names, column, breaks)
        kind = kinds[column].value_type if str(kinds[column]).startswith("dictionary<") else kinds[column]
        # Compared by name, since older versions of the library have no views.
        if str(kind) not in ("string", "large_string", "string_view"):
            raise ValueError(f"{path}:{column} must hold strings; got {kinds[column]}; choose another column")
        chosen = [names[group] for group in groups]
        done, length = 0, max(1, file.metadata.num_rows)
        for batch in file.iter_batches(batch_size=_ROWS_AT_ONCE, columns=[column, *chosen]):
            try:
                sentences = batch.column(column).to_pylist()
            except UnicodeDecodeError:
                raise ValueError(
                    f"{path}:{column} must be UTF-8; among {len(batch)} rows from row {done}, from 0, one is not"
                ) from None
            done += len(batch)
            values = [batch.column(name).to_pylist() for name in chosen]
            yield _Rows(sentences, zip(*values, strict=True) if values else repeat(None), done / length)


_READERS: dict[str, Callable[[Path, str, Sequence[str] | None], Iterator[_Rows]]] = {
    ".txt": _read_text,
    ".tsv": _read_tsv,
    ".parquet": _read_parquet,
}


def _find_columns(path: Path, names: list[str], column: str, breaks: Sequence[str] | None) -> tuple[int, list[int]]:
    """The place of the sentences among these columns, and the places of those whose change is a break."""
    wanted = [name for name in BREAKS if name in names and name != column] if breaks is None else breaks
    for name in (column, *wanted):
        if name not in names:
            listed = ", ".join(filter(None, names)) or "none"
            raise ValueError(
                f"{path} must have a column {name!r}; it has {listed}; choose among them (--text.column, "
                "--text.break-columns)"
            )
    return names.index(column), [names.index(name) for name in wanted]


def _read_lines(path: Path) -> Iterator[tuple[int, list[str], float]]:
    """Yield the number of the first line, from 1, a list of lines, and the share of the file that is read.

    Only a newline ends a line: other characters at which `splitlines` divides, such as U+0085, are in sentences.
    """
    number, read, rest = 1, 0, b""
    size = max(1, path.stat().st_size)
    with path.open("rb") as file:
        if file.read(len(_BOM)) == _BOM:
            read = len(_BOM)
        file.seek(read)
        while True:
            content = file.read(_BYTES_AT_ONCE)
            ready, newline, rest = (rest + content).rpartition(b"\n") if content else (rest, b"", b"")
            if newline or (ready and not content):
                lines = _decode(path, ready, number, read).split("\n")
                read += len(ready) + len(newline)
                yield number, lines, min(1.0, read / size)
                number += len(lines)
            if len(rest) > _LONGEST_LINE:
                raise ValueError(
                    f"{path} must hold one sentence a line; line {number} is longer than {_LONGEST_LINE} bytes; "
                    "divide it into sentences"
                )
            if not content:
                return


def _decode(path: Path, content: bytes, number: int, read: int) -> str:
    """Decode bytes that start at line `number`, after the first `read` bytes of the file."""
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        line = number + content.count(b"\n", 0, error.start)
        raise ValueError(
            f"{path} must be UTF-8; line {line}, byte {read + error.start} of the file, "
            f"is {content[error.start]:#04x}; convert it, for instance with iconv"
        ) from None
