"""The six sentence tasks of Section 5.2, MR, CR, SUBJ, MPQA, TREC and MSRP, from their official files or TSV.

Never imports torch: the command line reads the names from here.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Literal, NamedTuple

TASK_NAMES = ("MR", "CR", "SUBJ", "MPQA", "TREC", "MSRP")
TASK_COUNTS: dict[str, tuple[int, int]] = {
    "MR": (5331, 5331),
    "CR": (2405, 1366),
    "SUBJ": (5000, 5000),
    "MPQA": (3311, 7292),
    "TREC": (5452, 500),
    "MSRP": (4076, 1725),
}
"""Official numbers: sentences of the two classes, positive or objective ones first, or of train and test."""
TREC_CLASSES = ("ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM")
"""Coarse classes of questions, in the order of their labels."""

# ASCII alone: other white space, such as the no-break space of cp1252, belongs to the sentences.
_BLANK = " \t\r\n\f\v"
_BINARY = {"0": 0, "1": 1}
_TREC = {name: number for number, name in enumerate(TREC_CLASSES)}


@dataclass(frozen=True)
class SentenceTask:
    """Sentences with labels, in the order of the skip-thoughts evaluation, which the folds depend on."""

    name: str
    kind: Literal["cv", "split", "pairs"]
    """Nested cross-validation, train and test, or train and test of pairs of sentences."""
    sentences: Sequence[str]
    labels: Sequence[int]
    """Classes from 0."""
    partners: Sequence[str] = ()
    """The second sentences of pairs; empty for other tasks."""
    test_sentences: Sequence[str] = ()
    """Empty for cross-validation, as are the next two."""
    test_labels: Sequence[int] = ()
    test_partners: Sequence[str] = ()

    def __post_init__(self) -> None:
        for part in ("", "test_"):
            sentences, labels, partners = (
                len(getattr(self, f"{part}{field}")) for field in ("sentences", "labels", "partners")
            )
            if labels != sentences or partners != (sentences if self.kind == "pairs" else 0):
                raise ValueError(
                    f"{self.name}: a {self.kind} task must have one label for each sentence, and partners only "
                    f"for pairs; got {sentences} sentences, {labels} labels and {partners} partners in "
                    f"{part or 'train_'}sentences: bring them to one length"
                )


class _Row(NamedTuple):
    sentence: str
    label: int
    partner: str = ""


def read_tasks(
    root: Path, names: Sequence[str] = TASK_NAMES, *, counts: Mapping[str, tuple[int, int]] = TASK_COUNTS
) -> tuple[SentenceTask, ...]:
    """Read the tasks of these names, each with `read_task`."""
    return tuple(read_task(root, name, counts=counts) for name in names)


def read_task(root: Path, name: str, *, counts: Mapping[str, tuple[int, int]] = TASK_COUNTS) -> SentenceTask:
    """Read one of the six tasks from a folder that holds its files, or a folder of its name with them.

    The files are the official ones, under the names that the skip-thoughts evaluation reads, or TSV in
    UTF-8 with a header: `MR.tsv` with columns label and sentence, `TREC_train.tsv` and `TREC_test.tsv` with
    coarse labels. Either way the order is the same.

    Args:
        root: The folder.
        name: One of `TASK_NAMES`.
        counts: The numbers of sentences that must be found.

    Raises:
        FileNotFoundError: If the files are not all there.
        ValueError: If a file cannot be read as what it should be, or holds another number of sentences.
    """
    if name not in _SOURCES:
        raise ValueError(f"a sentence task must be one of {', '.join(TASK_NAMES)}; got {name!r}")
    for source in _SOURCES[name]:
        for folder in (Path(root, name), Path(root)):
            if all((folder / file).is_file() for file in source):
                task = _make_task(name, [read(folder / file) for file, read in source.items()])
                _check_count(task, counts[name], folder)
                return task
    looked_for = ", or ".join(" with ".join(source) for source in _SOURCES[name])
    raise FileNotFoundError(
        f"{name} is missing: expected {looked_for} in {root} or its folder {name}; put the official files there"
    )


def _make_task(name: str, files: list[list[_Row]]) -> SentenceTask:
    if name in _FIRST_CLASS:
        # A stable sort, since folds are cut from a shuffle of the order of the skip-thoughts evaluation.
        rows = sorted(chain.from_iterable(files), key=lambda row: row.label != _FIRST_CLASS[name])
        return SentenceTask(name, "cv", *_columns(rows)[:2])
    train, test = map(_columns, files)
    if name == "MSRP":
        return SentenceTask(name, "pairs", *train, *test)
    return SentenceTask(name, "split", *train[:2], test_sentences=test[0], test_labels=test[1])


def _columns(rows: list[_Row]) -> tuple[tuple[str, ...], tuple[int, ...], tuple[str, ...]]:
    return tuple(row.sentence for row in rows), tuple(row.label for row in rows), tuple(row.partner for row in rows)


def _check_count(task: SentenceTask, expected: tuple[int, int], folder: Path) -> None:
    first = task.labels.count(task.labels[0]) if task.labels else 0
    is_cv = task.kind == "cv"
    found = (first, len(task.labels) - first) if is_cv else (len(task.labels), len(task.test_labels))
    if found != expected:
        raise ValueError(
            f"{task.name} in {folder} must have {expected[0]:,} + {expected[1]:,} "
            f"{'sentences of its two classes' if is_cv else 'samples of train and test'}; got {found[0]:,} + "
            f"{found[1]:,}: take the official files, unchanged"
        )


def _class_reader(label: int) -> Callable[[Path], list[_Row]]:
    """Make a reader of a file that holds one class, one sentence a line."""
    return lambda path: [_Row(line, label) for _, line in _read_lines(path)]


def _read_questions(path: Path) -> list[_Row]:
    """Read lines such as `NUM:dist How far is it from Denver to Aspen ?`."""
    rows = []
    for number, line in _read_lines(path):
        fine, _, sentence = line.partition(" ")
        rows.append(_Row(sentence.strip(_BLANK), _parse_label(fine.partition(":")[0], _TREC, path, number)))
    return rows


def _read_table(path: Path, labels: Mapping[str, int]) -> list[_Row]:
    """Read the columns label and sentence of a TSV; quotes are characters like any other."""
    (_, header), *lines = _read_lines(path) or [(1, "")]
    columns = header.split("\t")
    if not {"label", "sentence"} <= set(columns):
        raise ValueError(f"{path}: the header must name label and sentence, between tabs; got {header[:80]!r}")
    label, sentence = columns.index("label"), columns.index("sentence")
    rows = []
    for number, line in lines:
        fields = _split_fields(line, len(columns), path, number)
        rows.append(_Row(fields[sentence], _parse_label(fields[label], labels, path, number)))
    return rows


def _read_pairs(path: Path) -> list[_Row]:
    """Read lines of label, two ids and two sentences, with literal quotes, below a header."""
    rows = []
    for number, line in _read_lines(path):
        if number == 1 and line.startswith("Quality"):
            continue
        label, _, _, sentence, partner = _split_fields(line, 5, path, number)
        rows.append(_Row(sentence, _parse_label(label, _BINARY, path, number), partner))
    return rows


def _read_lines(path: Path) -> list[tuple[int, str]]:
    """Read the lines that are not blank, with their numbers from 1."""
    data = path.read_bytes()
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        # The official files of MR, SUBJ and TREC are not UTF-8.
        text = data.decode("cp1252", errors="replace")
    # `splitlines` would also divide at characters inside of sentences.
    lines = ((number, line.strip(_BLANK)) for number, line in enumerate(text.split("\n"), 1))
    return [(number, line) for number, line in lines if line]


def _split_fields(line: str, count: int, path: Path, number: int) -> list[str]:
    fields = [field.strip(_BLANK) for field in line.split("\t")]
    if len(fields) != count:
        raise ValueError(f"{path}, line {number}: expected {count} fields between tabs, got {len(fields)}")
    return fields


def _parse_label(text: str, labels: Mapping[str, int], path: Path, number: int) -> int:
    if text not in labels:
        raise ValueError(f"{path}, line {number}: expected a label among {', '.join(labels)}, got {text[:40]!r}")
    return labels[text]


_FIRST_CLASS = {"MR": 1, "CR": 1, "SUBJ": 0, "MPQA": 1}
"""Tasks of two classes, and the class that the skip-thoughts evaluation reads first."""
_two_classes, _trec = partial(_read_table, labels=_BINARY), partial(_read_table, labels=_TREC)
_SOURCES: dict[str, tuple[dict[str, Callable[[Path], list[_Row]]], ...]] = {
    "MR": ({"rt-polarity.pos": _class_reader(1), "rt-polarity.neg": _class_reader(0)}, {"MR.tsv": _two_classes}),
    "CR": ({"custrev.pos": _class_reader(1), "custrev.neg": _class_reader(0)}, {"CR.tsv": _two_classes}),
    "SUBJ": (
        {"subj.objective": _class_reader(0), "subj.subjective": _class_reader(1)},
        # These are the names of the first distribution, which the skip-thoughts evaluation reads.
        {"plot.tok.gt9.5000": _class_reader(0), "quote.tok.gt9.5000": _class_reader(1)},
        {"SUBJ.tsv": _two_classes},
    ),
    "MPQA": ({"mpqa.pos": _class_reader(1), "mpqa.neg": _class_reader(0)}, {"MPQA.tsv": _two_classes}),
    "TREC": (
        {"train_5500.label": _read_questions, "TREC_10.label": _read_questions},
        {"TREC_train.tsv": _trec, "TREC_test.tsv": _trec},
    ),
    "MSRP": ({"msr_paraphrase_train.txt": _read_pairs, "msr_paraphrase_test.txt": _read_pairs},),
}
"""For each task, the sets of files that it can be read from, each file with its reader."""
