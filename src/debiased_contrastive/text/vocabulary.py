"""Words to numbers: 0 is padding, 1 every unknown word, words start at 2."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

if TYPE_CHECKING:
    from tokenizers import Tokenizer

PADDING, UNKNOWN, FIRST = 0, 1, 2
"""The ids that are no words, and that of the most frequent word."""

# Of both kinds of characters, so that no word of a text is one of these.
_NAMES = ("[PAD]", "[UNK]")
_MOST_PIECES = 2**16
_ASCII_WORDS = re.compile(r"\w+|[^\w\s]+", re.ASCII)


@dataclass(frozen=True, eq=False)
class Sentences:
    """Sentences side by side."""

    tokens: Tensor
    """(b, longest) int64, `PADDING` after the end of a sentence"""
    lengths: Tensor
    """(b,) int64, at least 1"""
    linked: Tensor
    """(b - 1,) bool, whether a sentence and the next are neighbours, without a break between them"""


def tokenizer_of(words: Sequence[str], lowercase: bool = False) -> "Tokenizer":
    """A tokeniser that knows these words and gives them the ids 2, 3 and so on.

    It divides at white space and between letters and punctuation. `to_str` gives its text, to be kept.

    >>> tokenizer_of(["the", "."]).encode("the end.").ids
    [2, 1, 3]
    """
    library = _library()
    vocabulary = {word: place for place, word in enumerate((*_NAMES, *words))}
    if len(vocabulary) < len(words) + FIRST:
        raise ValueError(
            f"words must be all different and none of {', '.join(_NAMES)}; got {len(words)} with repeats"
        )
    tokenizer: Tokenizer = library.Tokenizer(library.models.WordLevel(vocabulary, unk_token=_NAMES[UNKNOWN]))
    # Python takes these four for white space, Unicode does not; here they are.
    space = library.normalizers.Replace(library.Regex("[\x1c-\x1f]"), " ")
    lower = [library.normalizers.Lowercase()] if lowercase else []
    tokenizer.normalizer = library.normalizers.Sequence([space, *lower])
    tokenizer.pre_tokenizer = library.pre_tokenizers.Whitespace()
    return tokenizer


def tokenizer_from(text: str) -> "Tokenizer":
    """The tokeniser whose `to_str` is this text."""
    library = _library()
    try:
        tokenizer: Tokenizer = library.Tokenizer.from_str(text)
    except Exception as error:  # the library raises nothing narrower
        raise ValueError(f"a tokeniser must be the text of Tokenizer.to_str: {error}; write it again") from None
    found = tuple(tokenizer.id_to_token(place) for place in (PADDING, UNKNOWN))
    if found != _NAMES:
        raise ValueError(f"a tokeniser must begin with {' and '.join(_NAMES)}; this one begins with {found}")
    return tokenizer


def words_of(tokenizer: "Tokenizer") -> list[str]:
    """The word of every id; the first two are no words.

    >>> words_of(tokenizer_of(["the"]))
    ['[PAD]', '[UNK]', 'the']
    """
    vocabulary = tokenizer.get_vocab()
    return sorted(vocabulary, key=vocabulary.__getitem__)


def encoded(tokenizer: "Tokenizer", sentences: Sequence[str], longest: int = 50) -> Sentences:
    """These sentences, cut after `longest` words, none linked; one without a word is one unknown word.

    >>> encoded(tokenizer_of(["the", "end"]), ["the very end", " "]).tokens
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
    return padded(np.array(list(chain.from_iterable(ids)), np.int32), lengths, linked)


def padded(flat: npt.NDArray[np.int32], lengths: npt.NDArray[np.int64], linked: Tensor) -> Sentences:
    """Sentences of these lengths, whose ids follow each other in `flat`, side by side."""
    tokens = np.full((len(lengths), int(lengths.max(initial=0))), PADDING, np.int64)
    tokens[np.arange(tokens.shape[1]) < lengths[:, None]] = flat
    return Sentences(torch.from_numpy(tokens), torch.from_numpy(lengths), linked)


class Numbering:
    """Numbers for all words of a text, from 0 in the order in which they come, before any is known as frequent.

    It divides as the tokeniser does, about three times as fast: pieces between white space come again and
    again, and are remembered with the numbers of their words.
    """

    def __init__(self, lowercase: bool) -> None:
        self.words: dict[str, int] = {}
        self._pieces = _Pieces(self.words, lowercase)

    def numbered(
        self, sentences: Sequence[str], longest: int
    ) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
        """The numbers of all words, of every sentence the first `longest`, and how many each sentence has."""
        numbers: list[int] = []
        ends = [0]
        for sentence in sentences:
            pieces = sentence.split(None, longest)
            del pieces[longest:]  # the rest, which is not divided
            numbers.extend(chain.from_iterable(map(self._pieces.__getitem__, pieces)))
            del numbers[ends[-1] + longest :]
            ends.append(len(numbers))
        limits = np.array(ends, np.int32)
        return np.array(numbers, np.int32), limits[1:] - limits[:-1]


class _Pieces(dict[str, tuple[int, ...]]):
    """What stands between white space, and the numbers of its words."""

    def __init__(self, words: dict[str, int], lowercase: bool) -> None:
        super().__init__()
        self.words, self.lowercase = words, lowercase
        self.tokenizer = tokenizer_of([], lowercase)

    def __missing__(self, piece: str) -> tuple[int, ...]:
        if len(self) >= _MOST_PIECES:
            self.clear()
        words = self.words
        numbers = tuple([words.setdefault(word, len(words)) for word in self._divided(piece)])
        self[piece] = numbers
        return numbers

    def _divided(self, piece: str) -> list[str]:
        # Beyond ASCII Python and the tokeniser disagree on what is a letter: combining marks, for instance.
        if piece.isascii():
            return _ASCII_WORDS.findall(piece.lower() if self.lowercase else piece)
        plain = self.tokenizer.normalizer.normalize_str(piece)
        return [word for word, _ in self.tokenizer.pre_tokenizer.pre_tokenize_str(plain)]


def _library() -> Any:
    try:
        import tokenizers
        import tokenizers.models
        import tokenizers.normalizers
        import tokenizers.pre_tokenizers
    except ImportError:
        raise ValueError("text needs tokenizers: pip install 'debiased-contrastive[text]'") from None
    return tokenizers
