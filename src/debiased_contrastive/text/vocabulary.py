"""Words to ids: 0 is padding, 1 every unknown word, 2 the first word; and word vectors from files."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

if TYPE_CHECKING:
    from tokenizers import Tokenizer

PADDING, UNKNOWN, FIRST = 0, 1, 2
"""The two ids that are no words, and the id of the most frequent word."""

# Letters and punctuation, so that no word of a text is one of these.
_NAMES = ("[PAD]", "[UNK]")
_PIECES_REMEMBERED = 2**16
_ASCII_WORDS = re.compile(r"\w+|[^\w\s]+", re.ASCII)


@dataclass(frozen=True, eq=False)
class Sentences:
    """A batch of padded sentences."""

    tokens: Tensor
    """(b, longest) int64, `PADDING` after the end of a sentence."""
    lengths: Tensor
    """(b,) int64, at least 1."""
    linked: Tensor
    """(b - 1,) bool, whether a sentence and the next are neighbours, without a break between them."""


def make_tokenizer(words: Sequence[str], lowercase: bool = False) -> "Tokenizer":
    """Make a tokeniser that knows these words and gives them the ids 2, 3 and so on.

    It divides at white space and between letters and punctuation. `to_str` gives its text, to be kept.

    >>> make_tokenizer(["the", "."]).encode("the end.").ids
    [2, 1, 3]
    """
    library = _import_tokenizers()
    vocabulary = {word: place for place, word in enumerate((*_NAMES, *words))}
    if len(vocabulary) < len(words) + FIRST:
        raise ValueError(
            f"words must be all different and none of {', '.join(_NAMES)}; got {len(words)} with repeats"
        )
    tokenizer: Tokenizer = library.Tokenizer(library.models.WordLevel(vocabulary, unk_token=_NAMES[UNKNOWN]))
    # Python takes these four for white space, and so do we; Unicode does not.
    space = library.normalizers.Replace(library.Regex("[\x1c-\x1f]"), " ")
    lower = [library.normalizers.Lowercase()] if lowercase else []
    tokenizer.normalizer = library.normalizers.Sequence([space, *lower])
    tokenizer.pre_tokenizer = library.pre_tokenizers.Whitespace()
    return tokenizer


def parse_tokenizer(text: str) -> "Tokenizer":
    """Make the tokeniser whose `to_str` is this text."""
    library = _import_tokenizers()
    try:
        tokenizer: Tokenizer = library.Tokenizer.from_str(text)
    except Exception as error:  # the library raises nothing narrower
        raise ValueError(f"a tokeniser must be the text of Tokenizer.to_str: {error}; write it again") from None
    found = tuple(tokenizer.id_to_token(place) for place in (PADDING, UNKNOWN))
    if found != _NAMES:
        raise ValueError(f"a tokeniser must begin with {' and '.join(_NAMES)}; this one begins with {found}")
    return tokenizer


def list_words(tokenizer: "Tokenizer") -> list[str]:
    """The word of every id; the first two are no words.

    >>> list_words(make_tokenizer(["the"]))
    ['[PAD]', '[UNK]', 'the']
    """
    vocabulary = tokenizer.get_vocab()
    return sorted(vocabulary, key=vocabulary.__getitem__)


def tokenise(tokenizer: "Tokenizer", sentences: Sequence[str], longest: int = 50) -> Sentences:
    """Turn sentences into ids, cut after `longest` words, none linked; an empty one becomes one unknown word.

    >>> tokenise(make_tokenizer(["the", "end"]), ["the very end", " "]).tokens
    tensor([[2, 1, 3],
            [1, 0, 0]])
    """
    if isinstance(sentences, str):
        raise ValueError("sentences must be a list of strings; got one string; put it into a list")
    if longest < 1:
        raise ValueError(f"longest must be at least 1; got {longest}")
    try:
        # One by one: in batches the library starts threads, which complain in every process forked later.
        ids = [
            tokenizer.encode(sentence, add_special_tokens=False).ids[:longest] or [UNKNOWN]
            for sentence in sentences
        ]
    except TypeError:
        raise ValueError("sentences must be strings of valid Unicode; at least one is not; convert it") from None
    lengths = np.array([len(each) for each in ids], np.int64)
    linked = torch.zeros(max(0, len(ids) - 1), dtype=torch.bool)
    return pad(np.array(list(chain.from_iterable(ids)), np.int32), lengths, linked)


def pad(flat: npt.NDArray[np.int32], lengths: npt.NDArray[np.int64], linked: Tensor) -> Sentences:
    """Pad sentences of these lengths, whose ids follow each other in `flat`."""
    tokens = np.full((len(lengths), int(lengths.max(initial=0))), PADDING, np.int64)
    tokens[np.arange(tokens.shape[1]) < lengths[:, None]] = flat
    return Sentences(torch.from_numpy(tokens), torch.from_numpy(lengths), linked)


class WordNumbering:
    """Numbers all words of a text, from 0 in the order in which they come.

    It divides as the tokeniser does, about three times as fast: pieces between white space recur, and are
    remembered with the numbers of their words.
    """

    def __init__(self, lowercase: bool) -> None:
        self.words: dict[str, int] = {}
        self._pieces = _Pieces(self.words, lowercase)

    def number(self, sentences: Sequence[str], longest: int) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
        """Number the first `longest` words of every sentence; also count the words of each sentence."""
        numbers: list[int] = []
        ends = [0]
        for sentence in sentences:
            pieces = sentence.split(None, longest)
            del pieces[longest:]  # the undivided rest
            numbers.extend(chain.from_iterable(map(self._pieces.__getitem__, pieces)))
            del numbers[ends[-1] + longest :]
            ends.append(len(numbers))
        limits = np.array(ends, np.int32)
        return np.array(numbers, np.int32), limits[1:] - limits[:-1]


class _Pieces(dict[str, tuple[int, ...]]):
    """From pieces between white space to the numbers of their words."""

    def __init__(self, words: dict[str, int], lowercase: bool) -> None:
        super().__init__()
        self.words, self.lowercase = words, lowercase
        self.tokenizer = make_tokenizer([], lowercase)

    def __missing__(self, piece: str) -> tuple[int, ...]:
        if len(self) >= _PIECES_REMEMBERED:
            self.clear()
        words = self.words
        self[piece] = numbers = tuple([words.setdefault(word, len(words)) for word in self._divide(piece)])
        return numbers

    def _divide(self, piece: str) -> list[str]:
        # Beyond ASCII Python and the tokeniser disagree on what is a letter: combining marks, for instance.
        if piece.isascii():
            return _ASCII_WORDS.findall(piece.lower() if self.lowercase else piece)
        plain = self.tokenizer.normalizer.normalize_str(piece)
        return [word for word, _ in self.tokenizer.pre_tokenizer.pre_tokenize_str(plain)]


def _import_tokenizers() -> Any:
    try:
        import tokenizers
        import tokenizers.models
        import tokenizers.normalizers
        import tokenizers.pre_tokenizers
    except ImportError:
        raise ValueError("text needs tokenizers: pip install 'debiased-contrastive[text]'") from None
    return tokenizers


class WordVectors(NamedTuple):
    """Pretrained vectors of a vocabulary."""

    vectors: Tensor
    """(v, d) float32, zero for words that the file does not have."""
    known: Tensor
    """(v,) bool, whether the file has the word."""


def read_word_vectors(path: Path, words: Sequence[str], dim: int) -> WordVectors:
    """Read the vectors of these words from a text file, a word and its numbers a line, as GloVe and word2vec write.

    Where a word comes twice, the first counts. A first line of two whole numbers, as word2vec has it, is no word.
    """
    # Padding and the unknown word get no vector, even if the file has words of their names.
    places = {word: place for place, word in enumerate(words) if place >= FIRST}
    found = WordVectors(torch.zeros(len(words), dim), torch.zeros(len(words), dtype=torch.bool))
    with Path(path).open(encoding="utf-8", errors="replace", newline="\n") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip() or (number == 1 and _is_header(line)):
                continue
            word, values = _split_line(line, path, number, dim)
            place = places.get(word)
            if place is None or found.known[place]:
                continue
            found.vectors[place] = torch.from_numpy(_parse_numbers(values, path, number))
            found.known[place] = True
    if not found.known.any():
        raise ValueError(
            f"{path} must hold words of the corpus with {dim} numbers each; it holds none: does it differ in case, "
            "in language, or from --towers.word-dim?"
        )
    return found


def check_word_vectors(path: Path, dim: int) -> None:
    """Raise unless the file is there and its first word has so many numbers."""
    with Path(path).open(encoding="utf-8", errors="replace", newline="\n") as lines:
        line = next(lines, "")
        line = next(lines, "") if _is_header(line) else line
    _parse_numbers(_split_line(line, path, 1, dim)[1], path, 1)


def _is_header(line: str) -> bool:
    parts = line.split()
    return len(parts) == 2 and all(part.isdecimal() for part in parts)


def _split_line(line: str, path: Path, number: int, dim: int) -> tuple[str, list[str]]:
    # Words may hold blanks, numbers do not.
    word, *values = line.rstrip().rsplit(" ", dim)
    if len(values) != dim:
        raise _bad_line(path, number, dim, f"{len(line.split()) - 1} numbers")
    return word, values


def _parse_numbers(values: list[str], path: Path, number: int) -> npt.NDArray[np.float32]:
    try:
        row = np.array(values, dtype=np.float32)
    except ValueError:
        raise _bad_line(path, number, len(values), repr(" ".join(values)[:40])) from None
    if not np.isfinite(row).all():
        raise _bad_line(path, number, len(values), "one that is not finite")
    return row


def _bad_line(path: Path, number: int, dim: int, got: str) -> ValueError:
    return ValueError(
        f"{path}, line {number}: a word must be followed by {dim} numbers; got {got}: set --towers.word-dim to "
        "what the file has"
    )
