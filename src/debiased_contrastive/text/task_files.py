"""The six sentence tasks of Section 5.3, MR, CR, SUBJ, MPQA, TREC and MSRP, from their official files or TSV."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

NAMES = ("MR", "CR", "SUBJ", "MPQA", "TREC", "MSRP")
COUNTS: dict[str, tuple[int, int]] = {
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

# Of ASCII alone: cp1252 has signs, such as a space that does not break, that are not for us to drop.
_BLANK = " \t\r\n\f\v"
_BINARY = {"0": 0, "1": 1}


@dataclass(frozen=True)
class SentenceTask:
    """Sentences with labels, in the order of the skip-thoughts evaluation, which the folds depend on."""

    name: str
    kind: Literal["cv", "split", "pairs"]
    """Nested cross-validation, train and test, or train and test of pairs."""
    sentences: tuple[str, ...]
    labels: tuple[int, ...]
    partners: tuple[str, ...] = ()
    """Second sentences of pairs, else none."""
    test_sentences: tuple[str, ...] = ()
    test_labels: tuple[int, ...] = ()
    test_partners: tuple[str, ...] = ()

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


class _Rows(NamedTuple):
    sentences: list[str]
    labels: list[int]
    partners: list[str]


class _Source(NamedTuple):
    """Names of files that are a task when all are there, and their reader."""

    files: tuple[str, ...]
    read: Callable[[Sequence[Path]], SentenceTask]


def sentence_tasks(
    root: Path, names: Sequence[str] = NAMES, *, counts: Mapping[str, tuple[int, int]] = COUNTS
) -> tuple[SentenceTask, ...]:
    """The tasks of these names, each read by `sentence_task`."""
    return tuple(sentence_task(root, name, counts=counts) for name in names)


def sentence_task(root: Path, name: str, *, counts: Mapping[str, tuple[int, int]] = COUNTS) -> SentenceTask:
    """One of the six tasks, from a folder that holds its files, or a folder of its name with them.

    The files are the official ones, under the names that the skip-thoughts evaluation reads, or TSV in
    UTF-8 with a header: `MR.tsv` with columns label and sentence, `TREC_train.tsv` and `TREC_test.tsv` with
    coarse labels. Either way the order is the same. `counts` are the numbers that must be found.

    Raises
    ------
    FileNotFoundError
        If the files are not all there.
    ValueError
        If a file cannot be read as what it should be, or holds another number of sentences.
    """
    if name not in _SOURCES:
        raise ValueError(f"a sentence task must be one of {', '.join(NAMES)}; got {name!r}")
    for source in _SOURCES[name]:
        for folder in (Path(root, name), Path(root)):
            paths = [folder / file for file in source.files]
            if all(path.is_file() for path in paths):
                return _counted(source.read(paths), counts[name], folder)
    looked_for = ", or ".join(" with ".join(source.files) for source in _SOURCES[name])
    raise FileNotFoundError(
        f"{name} is missing: expected {looked_for} in {root} or its folder {name}; put the official files there"
    )


def _counted(task: SentenceTask, expected: tuple[int, int], folder: Path) -> SentenceTask:
    first = task.labels.count(task.labels[0]) if task.labels else 0
    is_cv = task.kind == "cv"
    found = (first, len(task.labels) - first) if is_cv else (len(task.labels), len(task.test_labels))
    if found != expected:
        raise ValueError(
            f"{task.name} in {folder} must have {expected[0]:,} + {expected[1]:,} "
            f"{'sentences of its two classes' if is_cv else 'samples of train and test'}; got {found[0]:,} + "
            f"{found[1]:,}: take the official files, unchanged"
        )
    return task


def _raw_classes(name: str, files: tuple[str, str], first: int) -> _Source:
    """A file for each of two classes, one sentence a line; `first` is the label of the first file."""

    def read(paths: Sequence[Path]) -> SentenceTask:
        parts = [[line for _, line in _lines(path)] for path in paths]
        labels = [first] * len(parts[0]) + [1 - first] * len(parts[1])
        return SentenceTask(name, "cv", tuple(parts[0] + parts[1]), tuple(labels))

    return _Source(files, read)


def _tsv_classes(name: str, first: int) -> _Source:
    def read(paths: Sequence[Path]) -> SentenceTask:
        rows = _table(paths[0], _BINARY)
        # The class that the skip-thoughts evaluation puts first: folds are cut from a shuffle of that order.
        order = sorted(range(len(rows.labels)), key=lambda row: rows.labels[row] != first)
        sentences, labels = (rows.sentences[row] for row in order), (rows.labels[row] for row in order)
        return SentenceTask(name, "cv", tuple(sentences), tuple(labels))

    return _Source((f"{name}.tsv",), read)


def _split(
    name: str, kind: Literal["split", "pairs"], files: tuple[str, str], rows_of: Callable[[Path], _Rows]
) -> _Source:
    """A file of train and a file of test."""

    def read(paths: Sequence[Path]) -> SentenceTask:
        train, test = (rows_of(path) for path in paths)
        return SentenceTask(
            name,
            kind,
            tuple(train.sentences),
            tuple(train.labels),
            tuple(train.partners),
            tuple(test.sentences),
            tuple(test.labels),
            tuple(test.partners),
        )

    return _Source(files, read)


def _questions(path: Path) -> _Rows:
    """Lines such as `NUM:dist How far is it from Denver to Aspen ?`."""
    rows = _Rows([], [], [])
    labels = {name: number for number, name in enumerate(TREC_CLASSES)}
    for number, line in _lines(path):
        fine, _, sentence = line.partition(" ")
        rows.sentences.append(sentence.strip(_BLANK))
        rows.labels.append(_label(fine.partition(":")[0], labels, path, number))
    return rows


def _table(path: Path, labels: Mapping[str, int]) -> _Rows:
    """Columns label and sentence of a TSV, wherever they stand; quotes are characters like any other."""
    (_, header), *lines = _lines(path) or [(1, "")]
    columns = header.split("\t")
    if not {"label", "sentence"} <= set(columns):
        raise ValueError(f"{path}: the header must name label and sentence, between tabs; got {header[:80]!r}")
    label, sentence = columns.index("label"), columns.index("sentence")
    rows = _Rows([], [], [])
    for number, line in lines:
        fields = _fields(line, len(columns), path, number)
        rows.sentences.append(fields[sentence])
        rows.labels.append(_label(fields[label], labels, path, number))
    return rows


def _pairs(path: Path) -> _Rows:
    """Lines of label, two ids and two sentences, with literal quotes, below a header."""
    rows = _Rows([], [], [])
    for number, line in _lines(path):
        if number == 1 and line.startswith("Quality"):
            continue
        label, _, _, sentence, partner = _fields(line, 5, path, number)
        rows.sentences.append(sentence)
        rows.labels.append(_label(label, _BINARY, path, number))
        rows.partners.append(partner)
    return rows


def _lines(path: Path) -> list[tuple[int, str]]:
    """The lines that are not blank, with their numbers from 1."""
    data = path.read_bytes()
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        # The originals of MR, SUBJ and TREC.
        text = data.decode("cp1252", errors="replace")
    # `splitlines` would also break at signs inside of sentences.
    lines = ((number, line.strip(_BLANK)) for number, line in enumerate(text.split("\n"), 1))
    return [(number, line) for number, line in lines if line]


def _fields(line: str, count: int, path: Path, number: int) -> list[str]:
    fields = [field.strip(_BLANK) for field in line.split("\t")]
    if len(fields) != count:
        raise ValueError(f"{path}, line {number}: expected {count} fields between tabs, got {len(fields)}")
    return fields


def _label(text: str, labels: Mapping[str, int], path: Path, number: int) -> int:
    if text not in labels:
        raise ValueError(f"{path}, line {number}: expected a label among {', '.join(labels)}, got {text[:40]!r}")
    return labels[text]


def _trec_table(path: Path) -> _Rows:
    return _table(path, {name: number for number, name in enumerate(TREC_CLASSES)})


_SOURCES: dict[str, tuple[_Source, ...]] = {
    "MR": (_raw_classes("MR", ("rt-polarity.pos", "rt-polarity.neg"), 1), _tsv_classes("MR", 1)),
    "CR": (_raw_classes("CR", ("custrev.pos", "custrev.neg"), 1), _tsv_classes("CR", 1)),
    "SUBJ": (
        _raw_classes("SUBJ", ("subj.objective", "subj.subjective"), 0),
        # The names of the first distribution, which the skip-thoughts evaluation reads.
        _raw_classes("SUBJ", ("plot.tok.gt9.5000", "quote.tok.gt9.5000"), 0),
        _tsv_classes("SUBJ", 0),
    ),
    "MPQA": (_raw_classes("MPQA", ("mpqa.pos", "mpqa.neg"), 1), _tsv_classes("MPQA", 1)),
    "TREC": (
        _split("TREC", "split", ("train_5500.label", "TREC_10.label"), _questions),
        _split("TREC", "split", ("TREC_train.tsv", "TREC_test.tsv"), _trec_table),
    ),
    "MSRP": (_split("MSRP", "pairs", ("msr_paraphrase_train.txt", "msr_paraphrase_test.txt"), _pairs),),
}
