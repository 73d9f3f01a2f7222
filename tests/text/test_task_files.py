"""The six tasks from tiny files with the quirks of the real ones, and from the real ones where they are."""

import os
import re
from collections import Counter
from pathlib import Path

import pytest

from debiased_contrastive.text.task_files import (
    TASK_COUNTS,
    TASK_NAMES,
    TREC_CLASSES,
    SentenceTask,
    read_task,
    read_tasks,
)

TINY = {"MR": (3, 2), "CR": (2, 1), "SUBJ": (2, 1), "MPQA": (1, 2), "TREC": (3, 2), "MSRP": (2, 1)}
HEADER = "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\n"
RAW = {
    # An ellipsis in cp1252, which Unicode takes for a line break when it is read as Latin-1.
    "MR/rt-polarity.pos": b"a caf\xe9 of a film\x85 and more . \nyes\x85 \n\xa0kept\xa0\n",
    "MR/rt-polarity.neg": b"no \x91thanks . \nnever again . \n",
    "CR/custrev.pos": b"great\r\n\r\nvery great\r\n",
    "CR/custrev.neg": b"\nso - so\n\n",
    "SUBJ/subj.objective": b"he leaves . \nshe stays . \n",
    "SUBJ/subj.subjective": b"i loved it\x85 \n",
    "MPQA/mpqa.pos": b" fully supports \n",
    "MPQA/mpqa.neg": b"complaining\nfails to\n\n",
    "TREC/train_5500.label": b"NUM:dist How far ?\nABBR:exp What is : it ?\nLOC:city A sister\xf0city ?\n",
    "TREC/TREC_10.label": b"HUM:ind Who ?\nDESC:def What ?\n",
    "MSRP/msr_paraphrase_train.txt": (
        HEADER
        + '1\t7\t8\tHe said "the witness", twice.\t"Twice," he said \u201cso\u201d.\n0\t9\t10\tAn "open one\tNone\n'
    ).encode(),
    "MSRP/msr_paraphrase_test.txt": (HEADER + "1\t1\t2\tA\u2028b\tc\u0085d\n").encode(),
}
TSV = {
    "MR.tsv": "label\tsentence\n0\tno \u2018thanks .\n1\ta caf\xe9 of a film\u2026 and more .\n0\tnever again .\n"
    "1\tyes\u2026\n1\t\xa0kept\xa0\n",
    "CR.tsv": "sentence\tlabel\ngreat\t1\nso - so\t0\nvery great\t1\n",
    "SUBJ.tsv": "label\tsentence\n1\ti loved it\u2026\n0\the leaves .\n0\tshe stays .\n",
    "MPQA.tsv": "label\tsentence\n0\tcomplaining\n0\tfails to\n1\tfully supports\n",
    "TREC_train.tsv": "label\tfine_label\tsentence\nNUM\tdist\tHow far ?\nABBR\texp\tWhat is : it ?\n"
    "LOC\tcity\tA sister\xf0city ?\n",
    "TREC_test.tsv": "label\tfine_label\tsentence\nHUM\tind\tWho ?\nDESC\tdef\tWhat ?\n",
}


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    return written(tmp_path / "raw", RAW)


def written(root: Path, files: dict[str, bytes], flat: bool = False) -> Path:
    for name, content in files.items():
        path = root / (Path(name).name if flat else name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return root


def test_the_raw_files(raw: Path) -> None:
    mr, cr, subj, mpqa, trec, msrp = read_tasks(raw, counts=TINY)
    assert mr.sentences == (
        "a caf\xe9 of a film\u2026 and more .", "yes\u2026", "\xa0kept\xa0", "no \u2018thanks .", "never again .",
    )  # fmt: skip
    assert mr.labels == (1, 1, 1, 0, 0)
    assert (cr.sentences, cr.labels) == (("great", "very great", "so - so"), (1, 1, 0))
    assert (subj.sentences[0], subj.labels) == ("he leaves .", (0, 0, 1)), "objective ones come first"
    assert (mpqa.sentences, mpqa.labels) == (("fully supports", "complaining", "fails to"), (1, 0, 0))
    assert {task.kind for task in (mr, cr, subj, mpqa)} == {"cv"}
    assert trec.sentences == ("How far ?", "What is : it ?", "A sister\xf0city ?")
    assert [TREC_CLASSES[label] for label in (*trec.labels, *trec.test_labels)] == [
        "NUM",
        "ABBR",
        "LOC",
        "HUM",
        "DESC",
    ]
    assert (trec.kind, trec.test_sentences, trec.partners) == ("split", ("Who ?", "What ?"), ())
    assert msrp == SentenceTask(
        "MSRP",
        "pairs",
        ('He said "the witness", twice.', 'An "open one'),
        (1, 0),
        ('"Twice," he said \u201cso\u201d.', "None"),
        ("A\u2028b",),
        (1,),
        ("c\x85d",),
    )


def test_a_table_a_flat_folder_and_other_names_are_the_same_tasks(raw: Path, tmp_path: Path) -> None:
    tasks = read_tasks(raw, counts=TINY)
    table = written(tmp_path / "tsv", {name: text.encode() for name, text in TSV.items()})
    assert read_tasks(table, TASK_NAMES[:5], counts=TINY) == tasks[:5]
    assert read_tasks(written(tmp_path / "flat", RAW, flat=True), counts=TINY) == tasks
    (raw / "SUBJ/subj.objective").rename(raw / "plot.tok.gt9.5000")
    (raw / "SUBJ/subj.subjective").rename(raw / "quote.tok.gt9.5000")
    assert read_task(raw, "SUBJ", counts=TINY) == tasks[2]
    utf8 = RAW["MR/rt-polarity.pos"].decode("cp1252").encode()
    (raw / "MR/rt-polarity.pos").write_bytes(utf8)
    assert read_task(raw, "MR", counts=TINY) == tasks[0]


def error_of(root: Path, name: str) -> str:
    with pytest.raises((ValueError, FileNotFoundError)) as caught:
        read_task(root, name, counts=TINY)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("name", TASK_NAMES)
def test_missing_files_are_named_with_the_folder(raw: Path, tmp_path: Path, name: str) -> None:
    assert error_of(tmp_path / "empty", name).startswith(f"{name} is missing: expected ")
    files = sorted(path for path in RAW if path.startswith(f"{name}/"))
    (raw / files[-1]).unlink()
    message = error_of(raw, name)
    assert all(Path(path).name in message for path in files)
    assert str(raw) in message
    assert f"{name}.tsv" in message or name in ("TREC", "MSRP")


def test_counts_are_checked(raw: Path) -> None:
    with pytest.raises(
        ValueError, match=r"MR in .* have 5,331 \+ 5,331 sentences of its two classes; got 3 \+ 2: take"
    ):
        read_task(raw, "MR")
    with pytest.raises(ValueError, match=r"4,076 \+ 1,725 samples of train and test; got 2 \+ 1"):
        read_task(raw, "MSRP")
    (raw / "MR/rt-polarity.neg").write_bytes(RAW["MR/rt-polarity.neg"] + b"one more\n")
    assert "got 3 + 3" in error_of(raw, "MR")
    (raw / "CR/custrev.pos").write_bytes(b"")
    assert "got 1 + 0" in error_of(raw, "CR")
    with pytest.raises(ValueError, match="one of MR, CR, SUBJ, MPQA, TREC, MSRP; got 'SICK'"):
        read_task(raw, "SICK")


@pytest.mark.parametrize(
    ("name", "file", "content", "message"),
    [
        ("TREC", "TREC/TREC_10.label", b"HUM:ind Who ?\nWhat ?\n", "line 2: expected a label among ABBR, .*'What'"),
        ("MSRP", "MSRP/msr_paraphrase_test.txt", b"Quality\n1\t2\t3\tA\n", "line 2: expected 5 fields .*, got 4"),
        (
            "MSRP",
            "MSRP/msr_paraphrase_test.txt",
            b"2\t2\t3\tA\tB\n",
            "line 1: expected a label among 0, 1, got '2'",
        ),
        ("CR", "CR/CR.tsv", b"great\t1\n", "the header must name label and sentence, between tabs; got 'great"),
        ("CR", "CR/CR.tsv", b"", "the header must name label and sentence"),
        ("CR", "CR/CR.tsv", b"label\tsentence\n1\ta\tb\n", "line 2: expected 2 fields between tabs, got 3"),
    ],
)
def test_damage_is_named(raw: Path, name: str, file: str, content: bytes, message: str) -> None:
    if name == "CR":
        (raw / "CR/custrev.pos").unlink()
    (raw / file).write_bytes(content)
    found = error_of(raw, name)
    assert found.startswith(str(raw / file))
    assert re.search(message, found)


def test_a_task_has_a_label_for_each_sentence() -> None:
    with pytest.raises(ValueError, match="got 2 sentences, 1 labels and 0 partners"):
        SentenceTask("own", "cv", ("a", "b"), (0,))
    with pytest.raises(ValueError, match=r"a pairs task .* got 1 sentences, 1 labels and 0 partners"):
        SentenceTask("own", "pairs", ("a",), (0,))
    with pytest.raises(ValueError, match="in test_sentences"):
        SentenceTask("own", "split", ("a",), (0,), (), ("b",), ())


def test_the_real_files() -> None:
    folder = os.environ.get("DEBIASED_TASK_DATA")
    if folder is None:
        pytest.skip("DEBIASED_TASK_DATA is not set: the folder with the official files of the six tasks")
    tasks = {task.name: task for task in read_tasks(Path(folder))}
    assert set(tasks) == set(TASK_COUNTS)
    sentences = [
        text for task in tasks.values() for text in (*task.sentences, *task.partners, *task.test_sentences)
    ]
    assert all(text and "\n" not in text and "\ufffd" not in text for text in sentences)
    assert sum("\u2026" in text for text in tasks["MR"].sentences) > 10
    assert Counter(tasks["TREC"].test_labels) == {0: 9, 1: 138, 2: 94, 3: 65, 4: 81, 5: 113}
    assert Counter(tasks["MSRP"].labels) == {1: 2753, 0: 1323}
    assert sum('"' in text for text in tasks["MSRP"].sentences) > 500
