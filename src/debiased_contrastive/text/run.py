"""Runs of Quick-Thoughts on any text (Section 5.2): training, evaluation, and vectors of sentences."""

import os
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from lightning_fabric import Fabric
from torch import Tensor

from debiased_contrastive.domain import Bar, Progress
from debiased_contrastive.files import read_text, write_atomically
from debiased_contrastive.membership.files import Array, join_digest, read_rows
from debiased_contrastive.membership.guide import from_guide
from debiased_contrastive.membership.knowledge import Knowledge
from debiased_contrastive.membership.labels import from_groups
from debiased_contrastive.membership.strength import choose_strength
from debiased_contrastive.membership.training import TrainingKnowledge, pack, unpack
from debiased_contrastive.numerics import derive_seed
from debiased_contrastive.runs import Run, existing_run
from debiased_contrastive.text.corpus import Corpus, OnProgress, load_corpus
from debiased_contrastive.text.frozen import VOCABULARY, load_encoder
from debiased_contrastive.text.quickthoughts import QuickThoughts, make_method
from debiased_contrastive.text.sentences import austen_path, list_files, read_sentences
from debiased_contrastive.text.settings import TextSettings
from debiased_contrastive.text.task_files import TASK_NAMES, read_tasks
from debiased_contrastive.text.tasks import write_scores
from debiased_contrastive.text.towers import load_words_
from debiased_contrastive.text.vocabulary import (
    check_word_vectors,
    list_words,
    read_word_vectors,
)
from debiased_contrastive.training.checkpoint import checkpoints
from debiased_contrastive.training.gradient import GradientLearner
from debiased_contrastive.training.loggers import LogName
from debiased_contrastive.training.loop import Identity, Update, fit
from debiased_contrastive.training.machine import compute_once
from debiased_contrastive.training.membership import describe_tau_plus
from debiased_contrastive.training.settings import as_json, from_json
from debiased_contrastive.training.weights import save_encoder

TASK_DATA_VARIABLE = "DEBIASED_TASK_DATA"
"""The environment variable that says where the sentence tasks are."""
SMALLEST_BATCH = 4
"""A sentence, its two neighbours, and another."""
SENTENCES_PER_UPDATE = 4096
"""Sentences after which a progress bar moves."""


def read_corpus(
    settings: TextSettings, progress: OnProgress | None = None, tell: Callable[[str], None] = lambda _line: None
) -> Corpus:
    """Read the corpus of these settings, from its cache if it has been read before."""
    text = settings.text
    return load_corpus(
        text.path or austen_path(),
        size=text.vocabulary,
        longest=text.longest,
        lowercase=text.lowercase,
        held_out=text.held_out,
        column=text.column,
        breaks=text.break_columns,
        # The folder of the package may not be writable.
        cache=text.cache or (None if text.path else user_cache()),
        progress=progress,
        tell=tell,
    )


def open_corpus(settings: TextSettings, fabric: Fabric, _flags: Any, progress: Progress) -> Corpus:
    """Read the text to train on; raise if these settings cannot use it."""
    if settings.towers.words is not None:
        check_word_vectors(settings.towers.words, settings.towers.word_dim)
    # One process writes the cache, the others read it.
    if fabric.is_global_zero:
        with progress("corpus") as bar:
            corpus = read_corpus(settings, bar.at, partial(print, file=sys.stderr, flush=True))
    fabric.barrier()
    if not fabric.is_global_zero:
        corpus = read_corpus(settings)
    check_corpus(settings, corpus, fabric)
    return corpus


def user_cache() -> Path:
    """The folder for cached files of this user."""
    try:
        folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "debiased-contrastive"
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError) as error:
        # RuntimeError: the system does not know the user, as in a container.
        raise ValueError(
            f"there is no place for the tokens of the novels ({error}): give a folder with --text.cache, or set "
            "XDG_CACHE_HOME"
        ) from None
    return folder


def check_corpus(settings: TextSettings, corpus: Corpus, fabric: Fabric) -> None:
    """Raise unless the text suits the settings."""
    batch, world = settings.training.batch, fabric.world_size
    if batch < SMALLEST_BATCH:
        raise ValueError(
            f"a batch must have at least {SMALLEST_BATCH} sentences, or some have no other to be told from; got "
            f"{batch}"
        )
    corpus.num_blocks(batch)
    if batch % world:
        raise ValueError(f"batch must be a multiple of the number of processes, {world}; got {batch}")
    if settings.text.breaks and corpus.starts[corpus.held_out :].all():
        raise ValueError("two sentences must be neighbours; a break stands between all: pass --text.no-breaks")
    read_rows(settings.membership.source, settings.membership.file, len(corpus))


def make_knowledge(settings: TextSettings, rows: Array | None) -> Knowledge:
    """Make what is known about the sentences from the rows of a file."""
    assert rows is not None
    membership = settings.membership
    if membership.source == "groups":
        known = from_groups(*rows.T)
    else:
        known = from_guide(rows, form=membership.form, num_classes=membership.num_classes, seed=settings.seed)
    # Sentences have no labels that could tell the strength.
    return choose_strength(known) if membership.is_auto else known


def train(
    settings: TextSettings, run: Run, fabric: Fabric, corpus: Corpus, *, log: Sequence[LogName] = ()
) -> Generator[Update, None, None]:
    """Train to the end of the run, as `fit` does; the towers are written at the end."""
    torch.manual_seed(derive_seed(settings.seed, "weights"))
    method = make_method(settings, corpus.tokenizer.get_vocab_size(), gather=fabric.world_size > 1)
    if not checkpoints(run.folder):
        _load_words_(method, settings, corpus)
    _keep_vocabulary(run, fabric, corpus)
    epoch = corpus.num_blocks(settings.training.batch)
    rows = read_rows(settings.membership.source, settings.membership.file, len(corpus))
    if settings.membership.source != "none":
        method.known = TrainingKnowledge()

    def prepare(step: int) -> None:
        if method.known is not None and step == epoch * settings.membership.begin:
            # By one process alone: the numbers of clusters must be the same everywhere.
            knowledge = unpack(compute_once(fabric, lambda: pack(make_knowledge(settings, rows))))
            for words in (describe_tau_plus(settings.objective.tau_plus), *knowledge.warnings, knowledge.reason):
                if words:
                    fabric.print(f"membership: {words}", file=sys.stderr)
            method.known.hold(knowledge)

    def measure(_step: int) -> dict[str, float]:
        seen = method.diagnostics
        values = {"floored": seen.floored, "tau_cap_median": seen.tau_cap_median}
        if seen.mean_q is not None and seen.effective_number is not None:
            values |= {"mean_q": seen.mean_q, "effective_number": seen.effective_number}
        else:
            # With a membership it would be the weighted loss, which is not biased.
            values["biased_loss"] = method.biased_loss
        known = None if method.known is None else method.known.knowledge
        if known is not None and known.strength is not None:
            values["membership_strength"] = known.strength
        return values

    learner = GradientLearner(
        method,
        settings.training,
        fabric,
        seed=settings.seed,
        epoch=epoch,
        unit="sentences",
        inputs=partial(inputs, settings, corpus, fabric, prepare=prepare),
        measure=measure,
    )
    identity = Identity(as_json(settings), len(corpus), join_digest(corpus.digest, rows))
    yield from fit(learner, run, fabric, identity, log=log)
    method.known = None
    if fabric.is_global_zero:
        save_encoder(run.folder, method, as_json(settings), beside=(VOCABULARY,))


def _keep_vocabulary(run: Run, fabric: Fabric, corpus: Corpus) -> None:
    """Write the tokeniser; raise if the run began with another one, whose ids are other words."""
    path, text = run.folder / VOCABULARY, corpus.tokenizer.to_str()
    if path.exists() and read_text(path) != text:
        raise ValueError(
            f"{run.folder} must go on with the text that it began with; this one has other words than "
            f"{VOCABULARY}: give the place of the first with --data-root, or start a new run"
        )
    fabric.barrier()
    if fabric.is_global_zero and not path.exists():
        write_atomically(path, text)


def _load_words_(method: QuickThoughts, settings: TextSettings, corpus: Corpus) -> None:
    """Load pretrained word vectors into both towers, if there is a file of them."""
    towers = settings.towers
    if towers.words is None:
        return
    pretrained = read_word_vectors(towers.words, list_words(corpus.tokenizer), towers.word_dim)
    for tower in (method.left, method.right):
        load_words_(tower, pretrained.vectors, pretrained.known)


def inputs(
    settings: TextSettings,
    corpus: Corpus,
    fabric: Fabric,
    wanted: range,
    *,
    prepare: Callable[[int], None] = lambda _step: None,
) -> Iterator[dict[str, Tensor]]:
    """The method's input at each step: this process's part of a block of contiguous sentences.

    `linked` and `ids` describe the whole block, since the processes share the outputs of their towers. `prepare` is
    called before each step.
    """
    batch = settings.training.batch
    share = batch // fabric.world_size
    for step in wanted:
        prepare(step)
        start = corpus.block_start(step, batch, settings.seed)
        sentences = corpus.batch(start + fabric.global_rank * share, share)
        linked = corpus.linked(start, batch)
        linked = linked if settings.text.breaks else torch.ones_like(linked)
        # Lengths stay where they are: packing wants them on the CPU.
        yield {
            "tokens": sentences.tokens.to(fabric.device),
            "lengths": sentences.lengths,
            "linked": linked.to(fabric.device),
            "ids": torch.arange(start, start + batch, device=fabric.device),
        }


def evaluate(run: Run, bar: Bar | None = None, *, tasks: Sequence[str] = (), task_data: Path | None = None) -> None:
    """Score a finished run on sentence tasks, all six if none is named, and write each score when it is done.

    Without `task_data`, the folder with the files of the tasks, an environment variable names it.
    """
    folder = task_data or os.environ.get(TASK_DATA_VARIABLE)
    if folder is None:
        raise ValueError(
            f"give --task-data, the folder with the files of the sentence tasks, or set {TASK_DATA_VARIABLE}"
        )
    names = [name for name in TASK_NAMES if not tasks or name in tasks or "all" in tasks]
    encode = load_encoder(run.folder).encode
    write_scores(run, encode, read_tasks(Path(folder), names), None if bar is None else bar.at)


def embed(folder: Path, source: Path, progress: Progress) -> dict[str, Any]:
    """Encode the sentences of a file with the towers of a finished run."""
    column = from_json(TextSettings, existing_run(folder).settings).text.column
    blocks = read_sentences(list_files(source), column, ())
    sentences = [sentence for block in blocks for sentence in block.sentences]
    if not sentences:
        raise ValueError(f"{source} must hold at least one sentence; it holds none")
    encode, parts = load_encoder(folder).encode, []
    with progress(f"embed {len(sentences)} sentences") as bar:
        for start in range(0, len(sentences), SENTENCES_PER_UPDATE):
            parts.append(encode(sentences[start : start + SENTENCES_PER_UPDATE]).numpy())
            bar.at(min(start + SENTENCES_PER_UPDATE, len(sentences)), len(sentences))
    return {"features": np.concatenate(parts)}
