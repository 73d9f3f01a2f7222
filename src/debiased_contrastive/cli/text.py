"""The commands that train on sentences and encode them."""

import io
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from debiased_contrastive.cli.compare import compare
from debiased_contrastive.cli.terminal import progress, say, show
from debiased_contrastive.cli.training import check_tensorboard, train_to_the_end
from debiased_contrastive.files import check_can_be_written, write_atomically
from debiased_contrastive.images.features import check_features
from debiased_contrastive.report.page import write_report
from debiased_contrastive.runs import EVALUATION, Run, check_is_free, existing_run, new_run
from debiased_contrastive.text.demo import demo_runs, probed
from debiased_contrastive.text.evaluate import scored
from debiased_contrastive.text.run import (
    check_text,
    sentence_encoder,
    text_of,
    text_settings_from,
    trained_towers,
    with_corpus,
)
from debiased_contrastive.text.sentences import blocks, files_of
from debiased_contrastive.text.settings import TextSettings
from debiased_contrastive.text.task_files import NAMES
from debiased_contrastive.text.word_vectors import check_word_vectors
from debiased_contrastive.training.fit import device_of, fabric_of
from debiased_contrastive.training.settings import as_json

VARIABLE = "DEBIASED_TASK_DATA"
"""The environment variable that says where the sentence tasks are."""


def train(settings: TextSettings, corpus: Path | None, out: Path | None, *, tensorboard: bool, quiet: bool) -> None:
    """Train a new run."""
    check_tensorboard(tensorboard)
    if corpus is not None and settings.text.path is not None:
        raise ValueError(f"give --corpus or --text.path, which are the same; got {corpus} and {settings.text.path}")
    settings = with_corpus(settings, corpus)
    if settings.towers.words is not None:
        check_word_vectors(settings.towers.words, settings.towers.word_dim)
    folder = out or Path("runs") / f"{settings.preset}-{settings.objective.kind}-seed{settings.seed}"
    check_is_free(folder)
    _train(settings, folder, None, tensorboard=tensorboard, quiet=quiet)


def demo(folder: Path, seeds: int, *, quiet: bool) -> None:
    """Train and probe biased and debiased towers on the novels in the package."""
    runs = []
    for run, settings in demo_runs(folder, seeds):
        _train(settings, run.folder, run, tensorboard=False, quiet=quiet)
        if "linear" not in run.evaluation:
            probed(run)
        runs.append(run)
    page = folder / "report.html"
    write_report(runs, page, title="Which novel is this sentence of? Neighbours as positives, biased and debiased")
    compare(runs)
    show(f"\nopen {page}")


def resume(run: Run, corpus: Path | None, *, tensorboard: bool, quiet: bool) -> None:
    """Continue a run."""
    check_tensorboard(tensorboard)
    if run.is_finished:
        say(f"{run.folder} is finished")
        return
    settings = with_corpus(text_settings_from(run.settings), corpus)
    _train(settings, run.folder, run, tensorboard=tensorboard, quiet=quiet)


def evaluate(folder: Path, tasks: Sequence[str], root: Path | None, *, quiet: bool) -> None:
    """Score a run on sentence tasks and show what was found."""
    root = root or (Path(os.environ[VARIABLE]) if VARIABLE in os.environ else None)
    if root is None:
        raise ValueError(f"give --task-data, the folder with the files of the sentence tasks, or set {VARIABLE}")
    names = NAMES if not tasks or "all" in tasks else tuple(name for name in NAMES if name in tasks)
    run = existing_run(folder)
    check_can_be_written(run.folder / EVALUATION)
    with progress(f"evaluate {run.folder.name}", quiet=quiet) as bar:
        scored(run, root, names, bar.at)
    compare([run])


def embed(folder: Path, source: Path, out: Path, *, quiet: bool) -> None:
    """Write the vectors of the sentences of a file."""
    if out.suffix != ".npy":
        raise ValueError(f"--out must end in .npy for sentences; got {out}")
    check_can_be_written(out)
    settings = text_settings_from(existing_run(folder).settings)
    found = blocks(files_of(source), settings.text.column, ())
    sentences = [sentence for block in found for sentence in block.sentences]
    if not sentences:
        raise ValueError(f"{source} must hold at least one sentence; it holds none")
    encode = sentence_encoder(folder, device_of(settings.training.accelerator))
    parts = []
    with progress(f"embed {len(sentences)} sentences", quiet=quiet) as bar:
        for start in range(0, len(sentences), _AT_ONCE):
            parts.append(encode(sentences[start : start + _AT_ONCE]).numpy())
            bar.at(min(start + _AT_ONCE, len(sentences)), len(sentences))
    vectors = np.concatenate(parts)
    check_features(vectors, source)
    buffer = io.BytesIO()
    np.save(buffer, vectors)
    out.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(out, buffer.getvalue())
    show(f"{len(sentences)} rows of {parts[0].shape[1]} features in {out}")


_AT_ONCE = 4096


def _train(settings: TextSettings, folder: Path, run: Run | None, *, tensorboard: bool, quiet: bool) -> None:
    fabric = fabric_of(settings.training)
    # One process makes the cache, the others find it.
    if fabric.is_global_zero:
        with progress("corpus", quiet=quiet) as bar:
            corpus = text_of(settings, bar.at, say)
    fabric.barrier()
    if not fabric.is_global_zero:
        corpus = text_of(settings)
    # What cannot be trained is told before a run directory is left behind.
    check_text(settings, corpus, fabric)
    if run is None and fabric.is_global_zero:
        new_run(folder, as_json(settings))
    fabric.barrier()
    run = existing_run(folder)
    updates = trained_towers(settings, run, fabric, corpus, tensorboard=tensorboard)
    what = f"{settings.objective.kind}, seed {settings.seed}"
    train_to_the_end(updates, run, fabric, what, "sentences", quiet=quiet)
