"""Words are divided as the tokeniser does, and their vectors are read from files as they are found in the world."""

import string
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import debiased_contrastive.text.vocabulary as vocabulary_module
from debiased_contrastive.text.sentences import read_austen
from debiased_contrastive.text.vocabulary import (
    WordNumbering,
    check_word_vectors,
    list_words,
    make_tokenizer,
    parse_tokenizer,
    read_word_vectors,
    tokenise,
)

WORDS = ["[PAD]", "[UNK]", "sea", "town", "New York"]


@pytest.mark.parametrize("header", ["", "3 2\n"])
def test_words_are_found_wherever_they_stand(tmp_path: Path, header: str) -> None:
    path = tmp_path / "vectors.txt"
    path.write_text(f"{header}town 0.5 -1\nabsent 7 7\nNew York 3 4e-1 \ntown 9 9\n", encoding="utf-8")
    found = read_word_vectors(path, WORDS, 2)
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
        read_word_vectors(path, WORDS, 2)


def test_what_is_no_word_has_no_vector(tmp_path: Path) -> None:
    path = tmp_path / "vectors.txt"
    path.write_text("[PAD] 1 1\n[UNK] 2 2\nsea 3 3\n")
    assert read_word_vectors(path, WORDS, 2).known.tolist() == [False, False, True, False, False]


@pytest.mark.parametrize("header", ["", "3 2\n"])
def test_a_look_at_the_first_word(tmp_path: Path, header: str) -> None:
    path = tmp_path / "vectors.txt"
    path.write_text(f"{header}town 0.5 -1\n")
    check_word_vectors(path, 2)
    with pytest.raises(ValueError, match="a word must be followed by 3 numbers; got 2 numbers"):
        check_word_vectors(path, 3)
    with pytest.raises(FileNotFoundError):
        check_word_vectors(tmp_path / "nowhere", 2)


# Words


def test_words_are_divided_at_white_space_and_punctuation_and_keep_their_case() -> None:
    tokenizer = make_tokenizer(["The", "end", ".", "''", "_x9"])
    assert tokenizer.encode("The end.The\tthe\u00a0end '' _x9\x1dend\u0085.").ids == [2, 3, 4, 2, 1, 3, 5, 6, 3, 4]
    assert make_tokenizer(["the"], lowercase=True).encode("The THE the").ids == [2, 2, 2]
    assert tokenizer.encode("[UNK] [PAD]").ids == [1] * 6, "as words of a text these are nothing special"


def test_a_tokeniser_survives_as_text() -> None:
    tokenizer = make_tokenizer(["the", "\x1f", '"', "é"], lowercase=True)
    again = parse_tokenizer(tokenizer.to_str())
    assert again.to_str() == tokenizer.to_str()
    assert list_words(again) == ["[PAD]", "[UNK]", "the", "\x1f", '"', "é"]
    assert again.encode('THE "É"').ids == [2, 4, 5, 4]
    with pytest.raises(ValueError, match=r"^a tokeniser must be the text of Tokenizer.to_str: .*; write it again$"):
        parse_tokenizer("{}")
    with pytest.raises(ValueError, match="must begin with"):
        parse_tokenizer(tokenizer.to_str().replace("[PAD]", "[pad]"))
    with pytest.raises(ValueError, match="all different"):
        make_tokenizer(["a", "a"])


def divided(sentence: str, lowercase: bool) -> list[str]:
    tokenizer = make_tokenizer([], lowercase)
    plain = tokenizer.normalizer.normalize_str(sentence)
    return [word for word, _ in tokenizer.pre_tokenizer.pre_tokenize_str(plain)]


ODD = "aZé9_\u0301\u0915\u093f½²Σİǅ①.,'\"-—… \t\x00\x1c\x1f\x7f\u0085\u00a0\u200b\u2028\u3000\U0001f600\ufeff"


@given(st.text(st.sampled_from(ODD + string.ascii_letters), max_size=12), st.booleans(), st.integers(1, 6))
def test_the_fast_way_divides_as_the_tokeniser(sentence: str, lowercase: bool, longest: int) -> None:
    numbering = WordNumbering(lowercase)
    numbers, lengths = numbering.number(["x", sentence], longest)
    words = list(numbering.words)
    assert lengths.sum() == len(numbers)
    assert [words[number] for number in numbers[1:]] == divided(sentence, lowercase)[:longest]


def test_every_pair_of_ascii_characters_is_divided_as_by_the_tokeniser() -> None:
    for first in map(chr, range(128)):
        sentence = "".join(f" {first}{chr(second)}" for second in range(128))
        numbering = WordNumbering(False)
        numbers, _ = numbering.number([sentence], 1000)
        words = list(numbering.words)
        assert [words[number] for number in numbers] == divided(sentence, False)


def test_a_full_memory_of_pieces_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    sentences = [text for _, text in read_austen()[:50]]
    whole, _ = WordNumbering(False).number(sentences, 50)
    monkeypatch.setattr(vocabulary_module, "_PIECES_REMEMBERED", 7)
    small = WordNumbering(False)
    assert np.array_equal(small.number(sentences, 50)[0], whole)
    assert len(small._pieces) <= 7


def test_new_sentences_are_never_empty() -> None:
    tokenizer = make_tokenizer(["the", "end"])
    found = tokenise(tokenizer, ["the end", "", "\u00a0", "never seen", "the end the end"], longest=3)
    assert found.tokens.tolist() == [[2, 3, 0], [1, 0, 0], [1, 0, 0], [1, 1, 0], [2, 3, 2]]
    assert found.lengths.tolist() == [2, 1, 1, 2, 3]
    assert (found.tokens.dtype, found.lengths.dtype, found.linked.dtype) == (torch.int64, torch.int64, torch.bool)
    assert found.linked.tolist() == [False] * 4
    assert tokenise(tokenizer, []).tokens.shape == (0, 0)
    assert tokenise(tokenizer, []).linked.shape == (0,)
    for wrong, match in (("the end", "got one string"), (["\ud800"], "valid Unicode"), ([1], "valid Unicode")):
        with pytest.raises(ValueError, match=match):
            tokenise(tokenizer, wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="longest must be at least 1; got 0"):
        tokenise(tokenizer, ["a"], 0)
