"""Vectors of words from text files, as they are found in the world."""

from pathlib import Path

import pytest
import torch

from debiased_contrastive.text.word_vectors import check_word_vectors, word_vectors

WORDS = ["[PAD]", "[UNK]", "sea", "town", "New York"]


@pytest.mark.parametrize("header", ["", "3 2\n"])
def test_words_are_found_wherever_they_stand(tmp_path: Path, header: str) -> None:
    path = tmp_path / "vectors.txt"
    path.write_text(f"{header}town 0.5 -1\nabsent 7 7\nNew York 3 4e-1 \ntown 9 9\n", encoding="utf-8")
    found = word_vectors(path, WORDS, 2)
    assert found.known.tolist() == [False, False, False, True, True]
    torch.testing.assert_close(found.vectors[3:], torch.tensor([[0.5, -1.0], [3.0, 0.4]]))
    assert not found.vectors[:3].any()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("town 1 2 3", "it holds none: does it differ in case, in language, or from --towers.word-dim"),
        ("town 1", "line 1: a word must be followed by 2 numbers; got 1 numbers"),
        ("sea 1 2\ntown one two", "line 2: a word must be followed by 2 numbers; got 'one two'"),
        ("town nan 1", "got one that is not finite"),
        ("Town 1 2", "must hold words of the corpus with 2 numbers each; it holds none"),
        ("", "it holds none"),
    ],
)
def test_what_is_no_vector_is_named(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "vectors.txt"
    path.write_text(text + "\n")
    with pytest.raises(ValueError, match=message):
        word_vectors(path, WORDS, 2)


def test_what_is_no_word_has_no_vector(tmp_path: Path) -> None:
    path = tmp_path / "vectors.txt"
    path.write_text("[PAD] 1 1\n[UNK] 2 2\nsea 3 3\n")
    assert word_vectors(path, WORDS, 2).known.tolist() == [False, False, True, False, False]


@pytest.mark.parametrize("header", ["", "3 2\n"])
def test_a_look_at_the_first_word(tmp_path: Path, header: str) -> None:
    path = tmp_path / "vectors.txt"
    path.write_text(f"{header}town 0.5 -1\n")
    check_word_vectors(path, 2)
    with pytest.raises(ValueError, match="a word must be followed by 3 numbers; got 2 numbers"):
        check_word_vectors(path, 3)
    with pytest.raises(FileNotFoundError):
        check_word_vectors(tmp_path / "nowhere", 2)
