"""Pretrained vectors of words from a text file, as GloVe's and word2vec's are: a word and its numbers a line."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from debiased_contrastive.text.vocabulary import FIRST


class WordVectors(NamedTuple):
    """Vectors of a vocabulary."""

    vectors: Tensor
    """(v, d) float32, zero for words that the file does not have"""
    known: Tensor
    """(v,) bool, whether it has the word"""


def word_vectors(path: Path, words: Sequence[str], dim: int) -> WordVectors:
    """The vectors of these words, read line by line; of a word that comes twice the first counts.

    A first line of two whole numbers, as word2vec writes it, is no word.
    """
    # What is no word has no vector, whatever a file calls by its name.
    places = {word: place for place, word in enumerate(words) if place >= FIRST}
    found = WordVectors(torch.zeros(len(words), dim), torch.zeros(len(words), dtype=torch.bool))
    with Path(path).open(encoding="utf-8", errors="replace", newline="\n") as lines:
        for number, line in enumerate(lines, 1):
            # Words may hold blanks, numbers do not.
            word, *values = line.rstrip().rsplit(" ", dim)
            if not line.strip() or (number == 1 and _is_header(line)):
                continue
            if len(values) != dim:
                raise ValueError(_bad(path, number, dim, f"{len(line.split()) - 1} numbers"))
            place = places.get(word)
            if place is None or found.known[place]:
                continue
            found.vectors[place] = torch.from_numpy(_numbers(values, path, number, dim))
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
    _, *values = line.rstrip().rsplit(" ", dim)
    if len(values) != dim:
        raise ValueError(_bad(path, 1, dim, f"{len(line.split()) - 1} numbers"))
    _numbers(values, path, 1, dim)


def _is_header(line: str) -> bool:
    parts = line.split()
    return len(parts) == 2 and all(part.isdecimal() for part in parts)


def _numbers(values: list[str], path: Path, number: int, dim: int) -> npt.NDArray[np.float32]:
    try:
        row = np.array(values, dtype=np.float32)
    except ValueError:
        raise ValueError(_bad(path, number, dim, repr(" ".join(values)[:40]))) from None
    if not np.isfinite(row).all():
        raise ValueError(_bad(path, number, dim, "one that is not finite"))
    return row


def _bad(path: Path, number: int, dim: int, got: str) -> str:
    return (
        f"{path}, line {number}: a word must be followed by {dim} numbers; got {got}: set --towers.word-dim to "
        "what the file has"
    )
