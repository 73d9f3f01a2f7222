"""A corpus is the sentences of its text as numbers, whatever the file looks like, made once and never half."""

import itertools
import json
import os
import random
import signal
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

import debiased_contrastive.text.corpus as corpus_module
import debiased_contrastive.text.sentences as sentences_module
from debiased_contrastive.numerics import make_generator
from debiased_contrastive.text.corpus import Corpus, load_corpus
from debiased_contrastive.text.sentences import austen_path, list_files, read_austen, read_sentences
from debiased_contrastive.text.vocabulary import list_words, tokenise
from tests.text.test_vocabulary import divided

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
    found = read_sentences(list_files(path), **choices)
    return [pair for block in found for pair in zip(block.sentences, block.starts, strict=True)]


def text_of(corpus: Corpus) -> list[list[str]]:
    words = list_words(corpus.tokenizer)
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
    monkeypatch.setattr(sentences_module, "_BYTES_AT_ONCE", block)
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
    assert sum(block.dropped for block in read_sentences([parquet])) == 1


def test_a_null_in_parquet_is_dropped_and_counted(saved: Saved) -> None:
    path = saved("", "table.parquet")
    pq.write_table(pa.table({"sentence": ["a", None, "b", "c"], "document": ["x", "x", "x", None]}), path)
    assert read(path) == [("a", True), ("b", True), ("c", True)]
    corpus = load_corpus(path)
    assert (len(corpus), corpus.dropped) == (3, 1)
    assert load_corpus(path).dropped == 1


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()])
def test_every_kind_of_string_is_read(saved: Saved, kind: Any) -> None:
    path = saved("", "table.parquet")
    pq.write_table(pa.table({"sentence": pa.array(["a", "é"], kind)}), path)
    assert read(path) == [("a", True), ("é", False)]


def test_many_rows_come_in_small_blocks(saved: Saved, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sentences_module, "_ROWS_AT_ONCE", 3)
    monkeypatch.setattr(sentences_module, "_BYTES_AT_ONCE", 40)
    parquet = saved("", "table.parquet")
    texts = [f"sentence {number}" for number in range(20)]
    documents = [number // 7 for number in range(20)]
    pq.write_table(pa.table({"sentence": texts, "document": documents}), parquet)
    tsv = saved(
        "sentence\tdocument\n" + "".join(f"{a}\t{b}\n" for a, b in zip(texts, documents, strict=True)), "t.tsv"
    )
    expected = [(text, number in (0, 7, 14)) for number, text in enumerate(texts)]
    for path in (parquet, tsv):
        found = list(read_sentences([path]))
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
    corpus = load_corpus(folder)
    assert text_of(corpus) == [[text] for text, _ in expected]
    assert corpus.starts.tolist() == [start for _, start in expected]
    assert [path.parent for path in kept(folder)] == [folder.parent]


def test_the_novels_of_austen_travel_inside_the_package(tmp_path: Path) -> None:
    rows = read_austen()
    assert len(rows) == 6000
    assert Counter(book for book, _ in rows)["persuasion"] == 1000
    assert [text for _, text in rows] == [text for text, _ in read(austen_path())]
    corpus = load_corpus(austen_path(), cache=tmp_path)
    assert len(corpus) == 6000
    assert corpus.starts[::1000].all()
    assert 0.4 < (~corpus.starts).mean() < 0.9
    counts = Counter(word for _, text in rows for word in divided(text, False)[:50])
    assert list_words(corpus.tokenizer)[2:] == sorted(counts, key=lambda word: (-counts[word], word))


# The corpus


def test_a_vocabulary_is_the_most_frequent_words_and_of_equal_ones_the_first(saved: Saved) -> None:
    path = saved("c b a c b\nB é c d\n")
    assert list_words(load_corpus(path).tokenizer) == ["[PAD]", "[UNK]", "c", "b", "B", "a", "d", "é"]
    corpus = load_corpus(path, size=4)
    assert list_words(corpus.tokenizer) == ["[PAD]", "[UNK]", "c", "b", "B"]
    assert corpus.tokenizer.get_vocab_size() == 4 + 1, "the unknown word is one of the four, padding is not"
    assert corpus.tokens.tolist() == [2, 3, 1, 2, 3, 4, 1, 2, 1]
    found = [array.dtype.name for array in (corpus.tokens, corpus.offsets, corpus.starts)]
    assert found == ["int32", "int64", "bool"]
    one = load_corpus(path, size=1)
    assert list_words(one.tokenizer) == ["[PAD]", "[UNK]"]
    assert set(one.tokens.tolist()) == {1}
    lower = load_corpus(path, lowercase=True)
    assert list_words(lower.tokenizer)[2:4] == ["b", "c"]
    assert len(kept(path)) == 4


def test_the_arrays_are_mapped_and_cannot_be_changed(saved: Saved) -> None:
    corpus = load_corpus(saved("a b\nc\n"))
    for array in (corpus.tokens, corpus.offsets, corpus.starts):
        assert isinstance(array, np.memmap)
        assert not array.flags.writeable
    batch = corpus.batch(0, 2)
    batch.tokens[:] = 7
    assert corpus.tokens.tolist() == [2, 3, 4]


def test_what_is_held_out_is_not_counted(saved: Saved) -> None:
    path = saved("rare rare rare rare\nalso rare\n\nthe end\nthe start\n")
    corpus = load_corpus(path, held_out=2)
    assert corpus.held_out == 2
    assert list_words(corpus.tokenizer)[2:] == ["the", "end", "start"]
    assert corpus.tokens.tolist() == [1] * 6 + [2, 3, 2, 4]
    assert len(corpus) == 4
    assert [corpus.block_start(step, 2, seed=0) for step in range(3)] == [2, 2, 2]
    with pytest.raises(ValueError, match=r"^held_out must be less than the 4 sentences of .*text.txt; got 4$"):
        load_corpus(path, held_out=4)


def test_sentences_are_cut_and_words_beyond_the_cut_are_not_counted(saved: Saved) -> None:
    path = saved("a,b c d d d d d\n" + "word " * 300_000 + "\nx\n")
    corpus = load_corpus(path, longest=4)
    assert text_of(corpus) == [["a", ",", "b", "c"], ["word"] * 4, ["x"]]
    assert corpus.longest == 4
    assert list_words(corpus.tokenizer)[2:] == ["word", ",", "a", "b", "c", "x"]
    assert np.diff(load_corpus(path).offsets).tolist() == [9, 50, 1]


def test_every_sentence_comes_back(saved: Saved) -> None:
    sentences = [text for _, text in read_austen()[900:1400]]
    corpus = load_corpus(saved("\n".join(sentences)), size=700)
    batch = corpus.batch(0, 500)
    new = tokenise(corpus.tokenizer, sentences)
    assert batch.tokens.equal(new.tokens)
    assert batch.lengths.equal(new.lengths)
    assert batch.tokens.dtype == torch.int64
    assert batch.linked.all()
    words = set(list_words(corpus.tokenizer))
    expected = [[word if word in words else "[UNK]" for word in divided(text, False)[:50]] for text in sentences]
    assert text_of(corpus) == expected


def test_batches_against_a_slow_loop(saved: Saved) -> None:
    draw = random.Random(0)
    lines = [
        "" if draw.random() < 0.3 else " ".join(draw.choices("abcdefg", k=draw.randint(1, 9))) for _ in range(200)
    ]
    corpus = load_corpus(saved("\n".join(lines)), longest=7)
    ids = {word: number for number, word in enumerate(list_words(corpus.tokenizer))}
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
    corpus = load_corpus(saved("".join(f"s{number}\n" for number in range(103))), held_out=10)
    assert corpus.num_blocks(4) == 23
    epochs = [[corpus.block_start(epoch * 23 + place, 4, seed=1) for place in range(23)] for epoch in range(3)]
    for epoch in epochs:
        assert sorted(epoch) == list(range(10, 102, 4))
    assert len({tuple(epoch) for epoch in epochs}) == 3
    assert corpus.block_start(30, 4, seed=1) == epochs[1][7]
    other = [corpus.block_start(place, 4, seed=2) for place in range(23)]
    assert sorted(other) == sorted(epochs[0])
    assert other != epochs[0]
    for number, epoch in enumerate(epochs):
        order = torch.randperm(23, generator=make_generator(1, "blocks", number))
        assert epoch == (10 + 4 * order).tolist()
    for size in (1, 94):
        with pytest.raises(ValueError, match=f"at least 2 sentences and at most the 93 .*; got {size}:"):
            corpus.block_start(0, size, seed=1)


# The cache


def test_a_corpus_is_made_once(saved: Saved, monkeypatch: pytest.MonkeyPatch) -> None:
    path = saved("a b\nc\n\nd\n")
    shown: list[tuple[int, int, str]] = []
    first = load_corpus(path, progress=lambda *what: shown.append(what))
    assert list(dict.fromkeys(what for *_, what in shown)) == ["hashing", "tokenising", "counting", "writing"]
    last = {what: (done, total) for done, total, what in shown}
    assert all(done == total for done, total in last.values())
    assert last["hashing"] == (9, 9)
    [folder] = kept(path)
    assert len(folder.name.removeprefix("text.txt.tokens-")) == 12
    assert sorted(entry.name for entry in path.parent.iterdir()) == ["text.txt", folder.name]
    os.utime(path, (0, 0))
    monkeypatch.setattr(corpus_module, "_number_words", None)
    shown.clear()
    again = load_corpus(str(path), progress=lambda *what: shown.append(what))
    assert {what for *_, what in shown} == {"hashing"}
    assert again.tokens.tolist() == first.tokens.tolist()
    assert again.offsets.tolist() == first.offsets.tolist()
    assert again.starts.tolist() == first.starts.tolist()
    assert again.tokenizer.to_str() == first.tokenizer.to_str()
    monkeypatch.chdir(path.parent)
    assert len(load_corpus("text.txt")) == len(load_corpus("../data/text.txt")) == 3


def test_one_byte_of_the_text_a_name_or_a_setting_makes_another(saved: Saved) -> None:
    folder = saved("a b\nc\n").parent
    saved("d\n", "x.txt")
    load_corpus(folder)
    state = (folder / "text.txt").stat()
    (folder / "text.txt").write_text("a b\ne\n")
    os.utime(folder / "text.txt", ns=(state.st_atime_ns, state.st_mtime_ns))
    assert text_of(load_corpus(folder)) == [["a", "b"], ["e"], ["d"]]
    (folder / "x.txt").rename(folder / "a.txt")
    assert text_of(load_corpus(folder)) == [["d"], ["a", "b"], ["e"]]
    assert len(kept(folder)) == 3
    for number, setting in enumerate(
        ({"size": 3}, {"longest": 1}, {"lowercase": True}, {"held_out": 1}, {"column": "x"}, {"breaks": ()}),
        start=4,
    ):
        load_corpus(folder, **setting)  # type: ignore[arg-type]
        assert len(kept(folder)) == number


def test_the_cache_may_be_elsewhere(saved: Saved, tmp_path: Path) -> None:
    path = saved("a\nb\n")
    load_corpus(path, cache=tmp_path / "some" / "where")
    assert kept(path) == []
    assert len(kept(tmp_path / "some" / "where" / path.name)) == 1
    (tmp_path / "file").touch()
    with pytest.raises(
        PermissionError, match=r"must take the tokens of the corpus; .*; choose another place with --text.cache"
    ):
        load_corpus(path, cache=tmp_path / "file")


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
    expected = text_of(load_corpus(path))
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
    assert text_of(load_corpus(path)) == expected
    assert sorted(entry.name for entry in path.parent.iterdir()) == ["text.txt", folder.name]
    assert len(list(folder.iterdir())) == 5


@pytest.mark.parametrize("name", ["_number_words", "_build", "_write", "_move_into_place"])
def test_what_fails_leaves_nothing(saved: Saved, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = saved("a b\nc\n")

    def fail(*_arguments: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(corpus_module, name, fail)
        with pytest.raises(KeyboardInterrupt):
            load_corpus(path)
    assert list(path.parent.iterdir()) == [path]
    assert len(load_corpus(path)) == 2


def test_a_killed_process_leaves_no_corpus_that_is_used(saved: Saved) -> None:
    path = saved("a b\nc\n")
    script = (
        "import os, sys\n"
        "from debiased_contrastive.text import corpus\n"
        "corpus._move_into_place = lambda *_: os.kill(os.getpid(), 9)\n"
        "corpus.load_corpus(sys.argv[1])"
    )
    run = subprocess.run([sys.executable, "-c", script, str(path)], check=False)
    assert run.returncode == -signal.SIGKILL
    assert kept(path) == []
    assert len(list(path.parent.iterdir())) == 2, "what it had written is still there, under another name"
    assert text_of(load_corpus(path)) == [["a", "b"], ["c"]]
    assert len(kept(path)) == 1


def test_two_at_once_make_one(saved: Saved, monkeypatch: pytest.MonkeyPatch) -> None:
    path = saved("a b\nc\n")
    put = corpus_module._move_into_place

    def late(*arguments: Any) -> None:
        monkeypatch.setattr(corpus_module, "_move_into_place", put)
        load_corpus(path)
        put(*arguments)

    monkeypatch.setattr(corpus_module, "_move_into_place", late)
    assert text_of(load_corpus(path)) == [["a", "b"], ["c"]]
    assert sorted(entry.name for entry in path.parent.iterdir()) == ["text.txt", kept(path)[0].name]


def test_a_text_that_changes_while_it_is_read_is_refused(saved: Saved) -> None:
    path = saved("a b\nc\n")

    def change(_done: int, _total: int, what: str) -> None:
        if what == "tokenising":
            path.write_text("other\n")

    with pytest.raises(ValueError, match="must stay as it is while it is read; it changed; call again"):
        load_corpus(path, progress=change)
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
        corpus = load_corpus(path)
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
        load_corpus(path)
    assert "\n" not in str(caught.value)
    assert list(path.parent.iterdir()) == [path]


def test_a_byte_beyond_the_first_block_is_found(saved: Saved, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sentences_module, "_BYTES_AT_ONCE", 7)
    with pytest.raises(ValueError, match="line 31, byte 121 of the file, is 0x85"):
        load_corpus(saved(b"abc\n" * 30 + b"d\x85\n"))
    tsv = "book\tsentence\n" + "a\tb\n" * 30 + "c\n"
    with pytest.raises(ValueError, match="line 32 has 1"):
        load_corpus(saved(tsv, "t.tsv"))


def test_a_file_without_lines_is_no_sentence(saved: Saved, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sentences_module, "_LONGEST_LINE", 1000)
    monkeypatch.setattr(sentences_module, "_BYTES_AT_ONCE", 64)
    with pytest.raises(ValueError, match="must hold one sentence a line; line 3 is longer than 1000 bytes"):
        load_corpus(saved("a\nb\n" + "c " * 600))


def test_faults_of_columns_and_places(saved: Saved, tmp_path: Path) -> None:
    path = saved("", "t.parquet")
    pq.write_table(pa.table({"sentence": [1, 2], "book": ["a", "b"]}), path)
    with pytest.raises(ValueError, match=r"t.parquet:sentence must hold strings; got int64; choose another column"):
        load_corpus(path)
    pq.write_table(pa.table({"sentence": [["a"], ["b"]], "book": ["a", "b"]}), path)
    with pytest.raises(ValueError, match=r"t.parquet:sentence must hold strings; got list<"):
        load_corpus(path)
    with pytest.raises(ValueError, match="must have a column 'text'; it has sentence, book"):
        load_corpus(path, column="text")
    with pytest.raises(ValueError, match="must have a column 'chapter'; it has sentence, book"):
        load_corpus(path, column="book", breaks=("chapter",))
    bad = pa.array([b"ok", b"\xff"]).cast(pa.binary()).view(pa.string())
    pq.write_table(pa.table({"sentence": bad}), path)
    with pytest.raises(ValueError, match=r"t.parquet:sentence must be UTF-8; among 2 rows from row 0"):
        load_corpus(path)
    with pytest.raises(
        FileNotFoundError, match=r"nowhere.txt must be a file or a folder of text, .*; check the path$"
    ):
        load_corpus(tmp_path / "nowhere.txt")
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "README.md").touch()
    with pytest.raises(
        ValueError, match=r"empty must hold files that end in one of .txt, .tsv, .parquet; it holds none"
    ):
        load_corpus(tmp_path / "empty")


@pytest.mark.parametrize(("name", "value", "least"), [("size", 0, 1), ("longest", 0, 1), ("held_out", -1, 0)])
def test_settings_have_limits(saved: Saved, name: str, value: int, least: int) -> None:
    with pytest.raises(ValueError, match=f"^{name} must be at least {least}; got {value}$"):
        load_corpus(saved("a\n"), **{name: value})  # type: ignore[arg-type]


@pytest.mark.parametrize(("library", "name"), [("tokenizers", "t.txt"), ("pyarrow", "t.parquet")])
def test_what_is_missing_is_named_with_its_extra(
    saved: Saved, library: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = saved("a\n", name)
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ValueError, match=rf"needs {library}: pip install 'debiased-contrastive\[text\]'"):
        load_corpus(path)
