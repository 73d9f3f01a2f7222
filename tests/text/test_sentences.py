"""A corpus is the sentences of its text as numbers, whatever the file looks like, made once and never half."""

import itertools
import json
import os
import random
import signal
import string
import subprocess
import sys
import tracemalloc
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import debiased_contrastive.text.corpus as corpus_module
import debiased_contrastive.text.sentences as sentences_module
import debiased_contrastive.text.vocabulary as vocabulary_module
from debiased_contrastive.numerics import generator_of
from debiased_contrastive.text.corpus import Corpus, corpus_of
from debiased_contrastive.text.sentences import austen, austen_rows, blocks, files_of
from debiased_contrastive.text.vocabulary import (
    Numbering,
    encoded,
    tokenizer_from,
    tokenizer_of,
    words_of,
)

Saved = Callable[..., Path]


@pytest.fixture
def saved(tmp_path: Path) -> Saved:
    def save(content: str | bytes, name: str = "text.txt") -> Path:
        path = tmp_path / "data" / name
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return save


def read(path: Path, **choices: Any) -> list[tuple[str, bool]]:
    found = blocks(files_of(path), **choices)
    return [pair for block in found for pair in zip(block.sentences, block.starts, strict=True)]


def text_of(corpus: Corpus) -> list[list[str]]:
    words = words_of(corpus.tokenizer)
    limits = corpus.offsets.tolist()
    return [[words[token] for token in corpus.tokens[first:last]] for first, last in itertools.pairwise(limits)]


def kept(path: Path) -> list[Path]:
    return sorted(path.parent.glob(f"{path.name}.tokens-*"))


# Reading


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("a\nb\n", [("a", True), ("b", False)]),
        ("a\nb", [("a", True), ("b", False)]),
        ("\ufeffa\nb", [("a", True), ("b", False)]),
        ("a\r\n\r\nb\r\n", [("a\r", True), ("b\r", True)]),
        ("\n\na\n\n\nb\nc\n\n\n", [("a", True), ("b", True), ("c", False)]),
        ("a\n \t\u00a0\u0085\u2028\nb", [("a", True), ("b", True)]),
        (
            "a\tb\nc\u0085d\u2028e\x0b\x0cf\x1cg\nh",
            [("a\tb", True), ("c\u0085d\u2028e\x0b\x0cf\x1cg", False), ("h", False)],
        ),
        ("a\u00a0b", [("a\u00a0b", True)]),
        ("a\rb", [("a\rb", True)]),
    ],
)
@pytest.mark.parametrize("block", [1, 2, 5, 2**18])
def test_lines_of_text(
    saved: Saved, content: str, expected: list[tuple[str, bool]], block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sentences_module, "_BLOCK", block)
    assert read(saved(content)) == expected


def test_tables_have_breaks_where_a_column_changes(saved: Saved) -> None:
    rows = [
        ("emma", "0", 'said "A',), ("emma", "0", "B"), ("emma", "1", "C"), ("persuasion", "1", "D"),
        ("persuasion", "1", ""), ("persuasion", "1", "E"), ("persuasion", "1", "F"),
    ]  # fmt: skip
    expected = [('said "A', True), ("B", False), ("C", True), ("D", True), ("E", True), ("F", False)]
    lines = ["\t".join(row) for row in [("book", "paragraph", "sentence"), *rows]]
    book, paragraph, text = zip(*rows, strict=True)
    columns = {"book": pa.array(book).dictionary_encode(), "paragraph": [int(number) for number in paragraph]}
    parquet = saved("", "table.parquet")
    pq.write_table(pa.table({**columns, "sentence": text, "x": [0.5] * 7}), parquet, row_group_size=2)
    for path in (
        saved("\n".join(lines), "table.tsv"),
        saved("\ufeff" + "\r\n".join(lines) + "\r\n\r\n", "windows.TSV"),
        parquet,
    ):
        assert read(path) == expected
        by_book = [start for _, start in read(path, breaks=("book",))]
        assert by_book == [True, False, False, True, True, False]
        assert [start for _, start in read(path, breaks=())] == [True, False, False, False, True, False]
        assert [text for text, _ in read(path, column="book", breaks=())] == list(book)
    assert sum(block.dropped for block in blocks([parquet])) == 1


def test_a_null_in_parquet_is_dropped_and_counted(saved: Saved) -> None:
    path = saved("", "table.parquet")
    pq.write_table(pa.table({"sentence": ["a", None, "b", "c"], "document": ["x", "x", "x", None]}), path)
    assert read(path) == [("a", True), ("b", True), ("c", True)]
    corpus = corpus_of(path)
    assert (len(corpus), corpus.dropped) == (3, 1)
    assert corpus_of(path).dropped == 1


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()])
def test_every_kind_of_string_is_read(saved: Saved, kind: Any) -> None:
    path = saved("", "table.parquet")
    pq.write_table(pa.table({"sentence": pa.array(["a", "é"], kind)}), path)
    assert read(path) == [("a", True), ("é", False)]


def test_many_rows_come_in_small_blocks(saved: Saved, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sentences_module, "_ROWS", 3)
    monkeypatch.setattr(sentences_module, "_BLOCK", 40)
    parquet = saved("", "table.parquet")
    texts = [f"sentence {number}" for number in range(20)]
    documents = [number // 7 for number in range(20)]
    pq.write_table(pa.table({"sentence": texts, "document": documents}), parquet)
    tsv = saved(
        "sentence\tdocument\n" + "".join(f"{a}\t{b}\n" for a, b in zip(texts, documents, strict=True)), "t.tsv"
    )
    expected = [(text, number in (0, 7, 14)) for number, text in enumerate(texts)]
    for path in (parquet, tsv):
        found = list(blocks([path]))
        assert len(found) >= 7
        assert read(path) == expected
        done = [block.done for block in found]
        assert done == sorted(done)
        assert done[-1] == path.stat().st_size


def test_a_folder_is_its_files_by_name_with_breaks_between(saved: Saved) -> None:
    saved("c\nd", "b.txt")
    saved("sentence\na\nb", "a.tsv")
    saved("e", "c.TXT")
    saved("no", "notes.md")
    saved("no", ".hidden.txt")
    folder = saved("f", "d.txt").parent
    (folder / "deeper.txt").mkdir()
    expected = [("a", True), ("b", False), ("c", True), ("d", False), ("e", True), ("f", True)]
    assert read(folder) == expected
    corpus = corpus_of(folder)
    assert text_of(corpus) == [[text] for text, _ in expected]
    assert corpus.starts.tolist() == [start for _, start in expected]
    assert [path.parent for path in kept(folder)] == [folder.parent]


def test_the_novels_of_austen_travel_inside_the_package(tmp_path: Path) -> None:
    rows = austen_rows()
    assert len(rows) == 6000
    assert Counter(book for book, _ in rows)["persuasion"] == 1000
    assert [text for _, text in rows] == [text for text, _ in read(austen())]
    corpus = corpus_of(austen(), cache=tmp_path)
    assert len(corpus) == 6000
    assert corpus.starts[::1000].all()
    assert 0.4 < (~corpus.starts).mean() < 0.9
    counts = Counter(word for _, text in rows for word in divided(text, False)[:50])
    assert words_of(corpus.tokenizer)[2:] == sorted(counts, key=lambda word: (-counts[word], word))


# Words


def test_words_are_divided_at_white_space_and_punctuation_and_keep_their_case() -> None:
    tokenizer = tokenizer_of(["The", "end", ".", "''", "_x9"])
    assert tokenizer.encode("The end.The\tthe\u00a0end '' _x9\x1dend\u0085.").ids == [2, 3, 4, 2, 1, 3, 5, 6, 3, 4]
    assert tokenizer_of(["the"], lowercase=True).encode("The THE the").ids == [2, 2, 2]
    assert tokenizer.encode("[UNK] [PAD]").ids == [1] * 6, "as words of a text these are nothing special"


def test_a_tokeniser_survives_as_text() -> None:
    tokenizer = tokenizer_of(["the", "\x1f", '"', "é"], lowercase=True)
    again = tokenizer_from(tokenizer.to_str())
    assert again.to_str() == tokenizer.to_str()
    assert words_of(again) == ["[PAD]", "[UNK]", "the", "\x1f", '"', "é"]
    assert again.encode('THE "É"').ids == [2, 4, 5, 4]
    with pytest.raises(ValueError, match=r"^a tokeniser must be the text of Tokenizer.to_str: .*; write it again$"):
        tokenizer_from("{}")
    with pytest.raises(ValueError, match="must begin with"):
        tokenizer_from(tokenizer.to_str().replace("[PAD]", "[pad]"))
    with pytest.raises(ValueError, match="all different"):
        tokenizer_of(["a", "a"])


def divided(sentence: str, lowercase: bool) -> list[str]:
    tokenizer = tokenizer_of([], lowercase)
    plain = tokenizer.normalizer.normalize_str(sentence)
    return [word for word, _ in tokenizer.pre_tokenizer.pre_tokenize_str(plain)]


ODD = "aZé9_\u0301\u0915\u093f½²Σİǅ①.,'\"-—… \t\x00\x1c\x1f\x7f\u0085\u00a0\u200b\u2028\u3000\U0001f600\ufeff"


@given(st.text(st.sampled_from(ODD + string.ascii_letters), max_size=12), st.booleans(), st.integers(1, 6))
def test_the_fast_way_divides_as_the_tokeniser(sentence: str, lowercase: bool, longest: int) -> None:
    numbering = Numbering(lowercase)
    numbers, lengths = numbering.numbered(["x", sentence], longest)
    words = list(numbering.words)
    assert lengths.sum() == len(numbers)
    assert [words[number] for number in numbers[1:]] == divided(sentence, lowercase)[:longest]


def test_every_pair_of_ascii_characters_is_divided_as_by_the_tokeniser() -> None:
    for first in map(chr, range(128)):
        sentence = "".join(f" {first}{chr(second)}" for second in range(128))
        numbering = Numbering(False)
        numbers, _ = numbering.numbered([sentence], 1000)
        words = list(numbering.words)
        assert [words[number] for number in numbers] == divided(sentence, False)


def test_a_full_memory_of_pieces_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    sentences = [text for _, text in austen_rows()[:50]]
    whole, _ = Numbering(False).numbered(sentences, 50)
    monkeypatch.setattr(vocabulary_module, "_MOST_PIECES", 7)
    small = Numbering(False)
    assert np.array_equal(small.numbered(sentences, 50)[0], whole)
    assert len(small._pieces) <= 7


def test_new_sentences_are_never_empty() -> None:
    tokenizer = tokenizer_of(["the", "end"])
    found = encoded(tokenizer, ["the end", "", "\u00a0", "never seen", "the end the end"], longest=3)
    assert found.tokens.tolist() == [[2, 3, 0], [1, 0, 0], [1, 0, 0], [1, 1, 0], [2, 3, 2]]
    assert found.lengths.tolist() == [2, 1, 1, 2, 3]
    assert (found.tokens.dtype, found.lengths.dtype, found.linked.dtype) == (torch.int64, torch.int64, torch.bool)
    assert found.linked.tolist() == [False] * 4
    assert encoded(tokenizer, []).tokens.shape == (0, 0)
    assert encoded(tokenizer, []).linked.shape == (0,)
    for wrong, match in (("the end", "got one string"), (["\ud800"], "valid Unicode"), ([1], "valid Unicode")):
        with pytest.raises(ValueError, match=match):
            encoded(tokenizer, wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="longest must be at least 1; got 0"):
        encoded(tokenizer, ["a"], 0)


# The corpus


def test_a_vocabulary_is_the_most_frequent_words_and_of_equal_ones_the_first(saved: Saved) -> None:
    path = saved("c b a c b\nB é c d\n")
    assert words_of(corpus_of(path).tokenizer) == ["[PAD]", "[UNK]", "c", "b", "B", "a", "d", "é"]
    corpus = corpus_of(path, size=4)
    assert words_of(corpus.tokenizer) == ["[PAD]", "[UNK]", "c", "b", "B"]
    assert corpus.tokenizer.get_vocab_size() == 4 + 1, "the unknown word is one of the four, padding is not"
    assert corpus.tokens.tolist() == [2, 3, 1, 2, 3, 4, 1, 2, 1]
    found = [array.dtype.name for array in (corpus.tokens, corpus.offsets, corpus.starts)]
    assert found == ["int32", "int64", "bool"]
    one = corpus_of(path, size=1)
    assert words_of(one.tokenizer) == ["[PAD]", "[UNK]"]
    assert set(one.tokens.tolist()) == {1}
    lower = corpus_of(path, lowercase=True)
    assert words_of(lower.tokenizer)[2:4] == ["b", "c"]
    assert len(kept(path)) == 4


def test_the_arrays_are_mapped_and_cannot_be_changed(saved: Saved) -> None:
    corpus = corpus_of(saved("a b\nc\n"))
    for array in (corpus.tokens, corpus.offsets, corpus.starts):
        assert isinstance(array, np.memmap)
        assert not array.flags.writeable
    batch = corpus.batch(0, 2)
    batch.tokens[:] = 7
    assert corpus.tokens.tolist() == [2, 3, 4]


def test_what_is_held_out_is_not_counted(saved: Saved) -> None:
    path = saved("rare rare rare rare\nalso rare\n\nthe end\nthe start\n")
    corpus = corpus_of(path, held_out=2)
    assert corpus.held_out == 2
    assert words_of(corpus.tokenizer)[2:] == ["the", "end", "start"]
    assert corpus.tokens.tolist() == [1] * 6 + [2, 3, 2, 4]
    assert len(corpus) == 4
    assert [corpus.block(step, 2, seed=0) for step in range(3)] == [2, 2, 2]
    with pytest.raises(ValueError, match=r"^held_out must be less than the 4 sentences of .*text.txt; got 4$"):
        corpus_of(path, held_out=4)


def test_sentences_are_cut_and_words_beyond_the_cut_are_not_counted(saved: Saved) -> None:
    path = saved("a,b c d d d d d\n" + "word " * 300_000 + "\nx\n")
    corpus = corpus_of(path, longest=4)
    assert text_of(corpus) == [["a", ",", "b", "c"], ["word"] * 4, ["x"]]
    assert corpus.longest == 4
    assert words_of(corpus.tokenizer)[2:] == ["word", ",", "a", "b", "c", "x"]
    assert np.diff(corpus_of(path).offsets).tolist() == [9, 50, 1]


def test_every_sentence_comes_back(saved: Saved) -> None:
    sentences = [text for _, text in austen_rows()[900:1400]]
    corpus = corpus_of(saved("\n".join(sentences)), size=700)
    batch = corpus.batch(0, 500)
    new = encoded(corpus.tokenizer, sentences)
    assert batch.tokens.equal(new.tokens)
    assert batch.lengths.equal(new.lengths)
    assert batch.tokens.dtype == torch.int64
    assert batch.linked.all()
    words = set(words_of(corpus.tokenizer))
    expected = [[word if word in words else "[UNK]" for word in divided(text, False)[:50]] for text in sentences]
    assert text_of(corpus) == expected


def test_batches_against_a_slow_loop(saved: Saved) -> None:
    draw = random.Random(0)
    lines = [
        "" if draw.random() < 0.3 else " ".join(draw.choices("abcdefg", k=draw.randint(1, 9))) for _ in range(200)
    ]
    corpus = corpus_of(saved("\n".join(lines)), longest=7)
    ids = {word: number for number, word in enumerate(words_of(corpus.tokenizer))}
    expected, places = [], []
    for place, line in enumerate(lines):
        if line:
            expected.append([ids[word] for word in line.split()][:7])
            places.append(place)
    assert len(corpus) == len(expected)
    for start, size in ((0, 1), (0, 5), (3, 40), (len(corpus) - 9, 9), (0, len(corpus))):
        batch = corpus.batch(start, size)
        longest = max(map(len, expected[start : start + size]))
        assert batch.tokens.shape == (size, longest)
        for row in range(size):
            sentence = expected[start + row]
            assert batch.tokens[row].tolist() == sentence + [0] * (longest - len(sentence))
            assert int(batch.lengths[row]) == len(sentence)
            if row:
                neighbours = places[start + row] - places[start + row - 1] == 1
                assert bool(batch.linked[row - 1]) == neighbours
        assert batch.linked.shape == (size - 1,)
    for start, size in ((-1, 2), (0, 0), (len(corpus) - 1, 2), (0, len(corpus) + 1)):
        with pytest.raises(
            ValueError, match=f"must lie within the {len(corpus)} sentences; got {size} sentences from"
        ):
            corpus.batch(start, size)


def test_an_epoch_has_every_block_once_and_needs_no_state(saved: Saved) -> None:
    corpus = corpus_of(saved("".join(f"s{number}\n" for number in range(103))), held_out=10)
    assert corpus.blocks(4) == 23
    epochs = [[corpus.block(epoch * 23 + place, 4, seed=1) for place in range(23)] for epoch in range(3)]
    for epoch in epochs:
        assert sorted(epoch) == list(range(10, 102, 4))
    assert len({tuple(epoch) for epoch in epochs}) == 3
    assert corpus.block(30, 4, seed=1) == epochs[1][7]
    other = [corpus.block(place, 4, seed=2) for place in range(23)]
    assert sorted(other) == sorted(epochs[0])
    assert other != epochs[0]
    for number, epoch in enumerate(epochs):
        order = torch.randperm(23, generator=generator_of(1, "blocks", number))
        assert epoch == (10 + 4 * order).tolist()
    for size in (1, 94):
        with pytest.raises(ValueError, match=f"at least 2 sentences and at most the 93 .*; got {size}:"):
            corpus.block(0, size, seed=1)


# The cache


def test_a_corpus_is_made_once(saved: Saved, monkeypatch: pytest.MonkeyPatch) -> None:
    path = saved("a b\nc\n\nd\n")
    shown: list[tuple[int, int, str]] = []
    first = corpus_of(path, shown=lambda *what: shown.append(what))
    assert list(dict.fromkeys(what for *_, what in shown)) == ["hashing", "tokenising", "counting", "writing"]
    last = {what: (done, total) for done, total, what in shown}
    assert all(done == total for done, total in last.values())
    assert last["hashing"] == (9, 9)
    [folder] = kept(path)
    assert len(folder.name.removeprefix("text.txt.tokens-")) == 12
    assert sorted(entry.name for entry in path.parent.iterdir()) == ["text.txt", folder.name]
    os.utime(path, (0, 0))
    monkeypatch.setattr(corpus_module, "_numbered", None)
    shown.clear()
    again = corpus_of(str(path), shown=lambda *what: shown.append(what))
    assert {what for *_, what in shown} == {"hashing"}
    assert again.tokens.tolist() == first.tokens.tolist()
    assert again.offsets.tolist() == first.offsets.tolist()
    assert again.starts.tolist() == first.starts.tolist()
    assert again.tokenizer.to_str() == first.tokenizer.to_str()
    monkeypatch.chdir(path.parent)
    assert len(corpus_of("text.txt")) == len(corpus_of("../data/text.txt")) == 3


def test_one_byte_of_the_text_a_name_or_a_setting_makes_another(saved: Saved) -> None:
    folder = saved("a b\nc\n").parent
    saved("d\n", "x.txt")
    corpus_of(folder)
    state = (folder / "text.txt").stat()
    (folder / "text.txt").write_text("a b\ne\n")
    os.utime(folder / "text.txt", ns=(state.st_atime_ns, state.st_mtime_ns))
    assert text_of(corpus_of(folder)) == [["a", "b"], ["e"], ["d"]]
    (folder / "x.txt").rename(folder / "a.txt")
    assert text_of(corpus_of(folder)) == [["d"], ["a", "b"], ["e"]]
    assert len(kept(folder)) == 3
    for number, setting in enumerate(
        ({"size": 3}, {"longest": 1}, {"lowercase": True}, {"held_out": 1}, {"column": "x"}, {"breaks": ()}),
        start=4,
    ):
        corpus_of(folder, **setting)  # type: ignore[arg-type]
        assert len(kept(folder)) == number


def test_the_cache_may_be_elsewhere(saved: Saved, tmp_path: Path) -> None:
    path = saved("a\nb\n")
    corpus_of(path, cache=tmp_path / "some" / "where")
    assert kept(path) == []
    assert len(kept(tmp_path / "some" / "where" / path.name)) == 1
    (tmp_path / "file").touch()
    with pytest.raises(
        PermissionError, match=r"must take the tokens of the corpus; .*; choose another place with --text.cache"
    ):
        corpus_of(path, cache=tmp_path / "file")


@pytest.mark.parametrize(
    "harm",
    [
        "tokens.npy",
        "offsets.npy",
        "starts.npy",
        "corpus.json",
        "tokenizer.json",
        "cut",
        "text",
        "checksum",
        "tokeniser",
    ],
)
def test_a_damaged_cache_is_made_anew(saved: Saved, harm: str) -> None:
    path = saved("a b\nc\n")
    expected = text_of(corpus_of(path))
    [folder] = kept(path)
    if harm == "cut":
        (folder / "tokens.npy").write_bytes((folder / "tokens.npy").read_bytes()[:-4])
    elif harm == "text":
        (folder / "corpus.json").write_text("[]")
    elif harm == "tokeniser":
        (folder / "tokenizer.json").write_text("{")
    elif harm == "checksum":
        description = json.loads((folder / "corpus.json").read_text())
        (folder / "corpus.json").write_text(json.dumps({**description, "checksum": "0" * 64}))
    else:
        (folder / harm).unlink()
    assert text_of(corpus_of(path)) == expected
    assert sorted(entry.name for entry in path.parent.iterdir()) == ["text.txt", folder.name]
    assert len(list(folder.iterdir())) == 5


@pytest.mark.parametrize("name", ["_numbered", "_build", "_write", "_put"])
def test_what_fails_leaves_nothing(saved: Saved, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = saved("a b\nc\n")

    def fail(*_arguments: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(corpus_module, name, fail)
        with pytest.raises(KeyboardInterrupt):
            corpus_of(path)
    assert list(path.parent.iterdir()) == [path]
    assert len(corpus_of(path)) == 2


def test_a_killed_process_leaves_no_corpus_that_is_used(saved: Saved) -> None:
    path = saved("a b\nc\n")
    script = (
        "import os, sys\n"
        "from debiased_contrastive.text import corpus\n"
        "corpus._put = lambda *_: os.kill(os.getpid(), 9)\n"
        "corpus.corpus_of(sys.argv[1])"
    )
    run = subprocess.run([sys.executable, "-c", script, str(path)], check=False)
    assert run.returncode == -signal.SIGKILL
    assert kept(path) == []
    assert len(list(path.parent.iterdir())) == 2, "what it had written is still there, under another name"
    assert text_of(corpus_of(path)) == [["a", "b"], ["c"]]
    assert len(kept(path)) == 1


def test_two_at_once_make_one(saved: Saved, monkeypatch: pytest.MonkeyPatch) -> None:
    path = saved("a b\nc\n")
    put = corpus_module._put

    def late(*arguments: Any) -> None:
        monkeypatch.setattr(corpus_module, "_put", put)
        corpus_of(path)
        put(*arguments)

    monkeypatch.setattr(corpus_module, "_put", late)
    assert text_of(corpus_of(path)) == [["a", "b"], ["c"]]
    assert sorted(entry.name for entry in path.parent.iterdir()) == ["text.txt", kept(path)[0].name]


def test_a_text_that_changes_while_it_is_read_is_refused(saved: Saved) -> None:
    path = saved("a b\nc\n")

    def change(_done: int, _total: int, what: str) -> None:
        if what == "tokenising":
            path.write_text("other\n")

    with pytest.raises(ValueError, match="must stay as it is while it is read; it changed; call again"):
        corpus_of(path, shown=change)
    assert list(path.parent.iterdir()) == [path]


def test_memory_does_not_grow_with_the_text(tmp_path: Path) -> None:
    words = [f"{number}th" * 9 for number in range(100, 2100)]
    path = tmp_path / "large.txt"
    with path.open("w") as file:
        for number in range(200_000):
            file.write(f"{words[number % 2000]}\n")
    size = path.stat().st_size
    tracemalloc.start()
    try:
        corpus = corpus_of(path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(corpus) == 200_000
    assert corpus.tokenizer.get_vocab_size() == 2002
    assert peak < size / 3


# What is refused


BAD_TSV = "book\tsentence\nemma\tA\nemma\tB\tC\n"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.txt", b"a\nb\x85c\n", r"t.txt must be UTF-8; line 2, byte 3 of the file, is 0x85; convert it"),
        ("t.txt", b"\xef\xbb\xbfa\nb\xe9", r"t.txt must be UTF-8; line 2, byte 6 of the file, is 0xe9; convert it"),
        ("t.txt", "a\n".encode("utf-16"), r"t.txt must be UTF-8; line 1, byte 0 of the file, is 0xff"),
        ("t.tsv", b"sentence\n\xff\n", r"t.tsv must be UTF-8; line 2, byte 9 "),
        ("t.txt", b"", r"t.txt must hold at least one sentence; it holds none$"),
        ("t.txt", b"\n \n\r\n", r"t.txt must hold at least one sentence; it holds none$"),
        ("t.tsv", b"sentence\n", r"t.tsv must hold at least one sentence; it holds none$"),
        ("t.tsv", b"", r"t.tsv must have a column 'sentence'; it has none; choose"),
        ("t.tsv", b"\n\n", r"t.tsv must have a column 'sentence'; it has none; choose"),
        (
            "t.tsv",
            b"book\ttext\na\tb\n",
            r"t.tsv must have a column 'sentence'; it has book, text; choose among them ",
        ),
        ("t.tsv", BAD_TSV, r"t.tsv must have 2 columns, as its first line has; line 3 has 3; replace the tabs"),
        ("t.csv", b"a", r"t.csv must end in one of .txt, .tsv, .parquet; got '.csv'; rename it$"),
        ("t", b"a", r"t must end in one of .txt, .tsv, .parquet; got 'no ending'; rename it$"),
        ("t.parquet", b"a", r"t.parquet must be a whole .parquet file: .*; write it again$"),
        ("t.parquet", b"", r"t.parquet must be a whole .parquet file: .*; write it again$"),
    ],
)
def test_one_line_for_each_fault(saved: Saved, name: str, content: str | bytes, message: str) -> None:
    path = saved(content, name)
    with pytest.raises(ValueError, match=message) as caught:
        corpus_of(path)
    assert "\n" not in str(caught.value)
    assert list(path.parent.iterdir()) == [path]


def test_a_byte_beyond_the_first_block_is_found(saved: Saved, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sentences_module, "_BLOCK", 7)
    with pytest.raises(ValueError, match="line 31, byte 121 of the file, is 0x85"):
        corpus_of(saved(b"abc\n" * 30 + b"d\x85\n"))
    tsv = "book\tsentence\n" + "a\tb\n" * 30 + "c\n"
    with pytest.raises(ValueError, match="line 32 has 1"):
        corpus_of(saved(tsv, "t.tsv"))


def test_a_file_without_lines_is_no_sentence(saved: Saved, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sentences_module, "_LONGEST_LINE", 1000)
    monkeypatch.setattr(sentences_module, "_BLOCK", 64)
    with pytest.raises(ValueError, match="must hold one sentence a line; line 3 is longer than 1000 bytes"):
        corpus_of(saved("a\nb\n" + "c " * 600))


def test_faults_of_columns_and_places(saved: Saved, tmp_path: Path) -> None:
    path = saved("", "t.parquet")
    pq.write_table(pa.table({"sentence": [1, 2], "book": ["a", "b"]}), path)
    with pytest.raises(ValueError, match=r"t.parquet:sentence must hold strings; got int64; choose another column"):
        corpus_of(path)
    pq.write_table(pa.table({"sentence": [["a"], ["b"]], "book": ["a", "b"]}), path)
    with pytest.raises(ValueError, match=r"t.parquet:sentence must hold strings; got list<"):
        corpus_of(path)
    with pytest.raises(ValueError, match="must have a column 'text'; it has sentence, book"):
        corpus_of(path, column="text")
    with pytest.raises(ValueError, match="must have a column 'chapter'; it has sentence, book"):
        corpus_of(path, column="book", breaks=("chapter",))
    bad = pa.array([b"ok", b"\xff"]).cast(pa.binary()).view(pa.string())
    pq.write_table(pa.table({"sentence": bad}), path)
    with pytest.raises(ValueError, match=r"t.parquet:sentence must be UTF-8; among 2 rows from row 0"):
        corpus_of(path)
    with pytest.raises(
        FileNotFoundError, match=r"nowhere.txt must be a file or a folder of text, .*; check the path$"
    ):
        corpus_of(tmp_path / "nowhere.txt")
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "README.md").touch()
    with pytest.raises(
        ValueError, match=r"empty must hold files that end in one of .txt, .tsv, .parquet; it holds none"
    ):
        corpus_of(tmp_path / "empty")


@pytest.mark.parametrize(("name", "value", "least"), [("size", 0, 1), ("longest", 0, 1), ("held_out", -1, 0)])
def test_settings_have_limits(saved: Saved, name: str, value: int, least: int) -> None:
    with pytest.raises(ValueError, match=f"^{name} must be at least {least}; got {value}$"):
        corpus_of(saved("a\n"), **{name: value})  # type: ignore[arg-type]


@pytest.mark.parametrize(("library", "name"), [("tokenizers", "t.txt"), ("pyarrow", "t.parquet")])
def test_what_is_missing_is_named_with_its_extra(
    saved: Saved, library: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = saved("a\n", name)
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ValueError, match=rf"needs {library}: pip install 'debiased-contrastive\[text\]'"):
        corpus_of(path)
