"""Quick-Thoughts on any text (Section 5.2): a run directory in, a trained one out, and vectors of sentences."""

import os
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import torch
from lightning_fabric import Fabric
from torch import Tensor

from debiased_contrastive.files import read_text, write_atomically
from debiased_contrastive.numerics import seed_of
from debiased_contrastive.runs import Run
from debiased_contrastive.text.corpus import Corpus, Shown, corpus_of
from debiased_contrastive.text.quickthoughts import QuickThoughts
from debiased_contrastive.text.sentences import austen
from debiased_contrastive.text.settings import TextSettings
from debiased_contrastive.text.towers import load_words_, tower
from debiased_contrastive.text.vocabulary import encoded, tokenizer_from, words_of
from debiased_contrastive.text.word_vectors import word_vectors
from debiased_contrastive.training.checkpoint import checkpoints
from debiased_contrastive.training.fit import Course, Identity, Update, load_trained, to_the_end, trained_run
from debiased_contrastive.training.settings import as_json, made_from, whole_path
from debiased_contrastive.training.weights import save_encoder

VOCABULARY = "vocabulary.json"
"""In the run directory: the tokeniser, with which new sentences are read."""
SMALLEST = 4
"""Sentences of a batch: one, its two neighbours, and another."""
AT_ONCE = 256
"""Sentences that are encoded together."""
SentenceEncoder: TypeAlias = Callable[[Sequence[str]], Tensor]
"""From n sentences to (n, d) vectors."""


def text_of(
    settings: TextSettings, shown: Shown | None = None, tell: Callable[[str], None] = lambda _line: None
) -> Corpus:
    """The corpus of these settings, from its cache if it has been read before."""
    text = settings.text
    return corpus_of(
        text.path or austen(),
        size=text.vocabulary,
        longest=text.longest,
        lowercase=text.lowercase,
        held_out=text.held_out,
        column=text.column,
        breaks=text.break_columns,
        # The package may be where nothing can be written.
        cache=text.cache or (None if text.path else user_cache()),
        shown=shown,
        tell=tell,
    )


def user_cache() -> Path:
    """The folder for files of this user that can be made again."""
    try:
        folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "debiased-contrastive"
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError) as error:
        # RuntimeError: of a user whom the system does not know, as in a container.
        raise ValueError(
            f"there is no place for the tokens of the novels ({error}): give a folder with --text.cache, or set "
            "XDG_CACHE_HOME"
        ) from None
    return folder


def check_text(settings: TextSettings, corpus: Corpus, fabric: Fabric) -> None:
    """Raise unless the text suits the settings."""
    batch, world = settings.training.batch, fabric.world_size
    if batch < SMALLEST:
        raise ValueError(
            f"a batch must have at least {SMALLEST} sentences, or some have no other to be told from; got {batch}"
        )
    corpus.blocks(batch)
    if batch % world:
        raise ValueError(f"batch must be a multiple of the number of processes, {world}; got {batch}")
    if settings.text.breaks and corpus.starts[corpus.held_out :].all():
        raise ValueError("two sentences must be neighbours; a break stands between all: pass --text.no-breaks")


def trained_towers(
    settings: TextSettings, run: Run, fabric: Fabric, corpus: Corpus, *, tensorboard: bool = False
) -> Generator[Update, None, None]:
    """Train to the end from the newest checkpoint, or from the start; yields after every step."""
    epoch = corpus.blocks(settings.training.batch)
    torch.manual_seed(seed_of(settings.seed, "weights"))
    method = method_for(settings, corpus.tokenizer.get_vocab_size(), gather=fabric.world_size > 1)
    if not checkpoints(run.folder):
        _start_words_(method, settings, corpus)
    _keep_vocabulary(run, fabric, corpus)

    def measured(_step: int) -> dict[str, float]:
        return {
            "floored": method.floored,
            "tau_cap_median": method.tau_cap,
            "biased_loss": method.biased_loss,
        }

    def given(wanted: range) -> Iterator[dict[str, Any]]:
        return inputs(settings, corpus, fabric, wanted)

    identity = Identity(as_json(settings), len(corpus), corpus.digest)
    course = Course(method, settings.training, settings.seed, epoch, given, "sentences", identity, measured)
    yield from to_the_end(course, run, fabric, tensorboard=tensorboard)
    if fabric.is_global_zero:
        save_encoder(run.folder, method, as_json(settings), beside=(VOCABULARY,))


def _keep_vocabulary(run: Run, fabric: Fabric, corpus: Corpus) -> None:
    """Write the tokeniser down; raise where the run has begun with another, whose ids are other words."""
    path, text = run.folder / VOCABULARY, corpus.tokenizer.to_str()
    if path.exists() and read_text(path) != text:
        raise ValueError(
            f"{run.folder} must go on with the text that it began with; this one has other words than "
            f"{VOCABULARY}: give the place of the first with --data-root, or start a new run"
        )
    fabric.barrier()
    if fabric.is_global_zero and not path.exists():
        write_atomically(path, text)


def _start_words_(method: QuickThoughts, settings: TextSettings, corpus: Corpus) -> None:
    """Put the vectors of the file, if there is one, in the places of their words."""
    towers = settings.towers
    if towers.words is None:
        return
    found = word_vectors(towers.words, words_of(corpus.tokenizer), towers.word_dim)
    for one in (method.left, method.right):
        load_words_(one, found.vectors, found.known)


def inputs(settings: TextSettings, corpus: Corpus, fabric: Fabric, wanted: range) -> Iterator[dict[str, Tensor]]:
    """What the method is given at each step: this process's part of a block of contiguous sentences.

    Which of them are neighbours is told of the whole block: processes share what their towers make of it.
    """
    batch = settings.training.batch
    share = batch // fabric.world_size
    for step in wanted:
        start = corpus.block(step, batch, settings.seed)
        sentences = corpus.batch(start + fabric.global_rank * share, share)
        linked = corpus.linked(start, batch)
        linked = linked if settings.text.breaks else torch.ones_like(linked)
        # Lengths stay where they are: packing wants them on the CPU.
        yield {
            "tokens": sentences.tokens.to(fabric.device),
            "lengths": sentences.lengths,
            "linked": linked.to(fabric.device),
        }


def method_for(settings: TextSettings, num_tokens: int, *, gather: bool = False) -> QuickThoughts:
    """A fresh method for a vocabulary of that size, padding included; gather: a batch is that of all processes."""
    towers, objective = settings.towers, settings.objective
    left, right = (
        tower(towers.name, num_tokens, towers.word_dim, towers.hidden_dim, settings.text.longest) for _ in range(2)
    )
    return QuickThoughts(
        left,
        right,
        tau_plus=objective.correction,
        temperature=objective.temperature,
        denominator=objective.denominator,
        floor=objective.floor,
        gather=gather,
    )


def sentence_encoder(folder: Path, device: torch.device) -> SentenceEncoder:
    """What turns sentences into vectors with the towers of a finished run."""
    run = trained_run(folder)
    settings = text_settings_from(run.settings)
    tokenizer = _tokenizer(folder / VOCABULARY)
    method = method_for(settings, tokenizer.get_vocab_size())
    load_trained(run, method)
    return encoder_with(method.to(device), tokenizer, settings.text.longest)


def _tokenizer(path: Path) -> Any:
    try:
        return tokenizer_from(read_text(path))
    except ValueError as error:
        raise ValueError(f"{path} is damaged ({error}): restore it from a copy") from None


def encoder_with(method: QuickThoughts, tokenizer: Any, longest: int) -> SentenceEncoder:
    """What turns sentences into vectors with these towers and the tokeniser, of Hugging Face, of their corpus."""
    method.eval()
    device = next(method.parameters()).device

    @torch.no_grad()
    def encode(sentences: Sequence[str]) -> Tensor:
        parts = []
        # By length, so that little is padding; the order is put back at the end.
        order = sorted(range(len(sentences)), key=lambda place: len(sentences[place]))
        for start in range(0, len(order), AT_ONCE):
            chosen = [sentences[place] for place in order[start : start + AT_ONCE]]
            rows = encoded(tokenizer, chosen, longest)
            parts.append(method.vectors(rows.tokens.to(device), rows.lengths).cpu())
        if not parts:
            raise ValueError("there must be at least one sentence to encode; got none")
        return torch.cat(parts)[torch.tensor(order).argsort()]

    return encode


def text_settings_from(content: dict[str, Any]) -> TextSettings:
    """The settings that `as_json` wrote."""
    made: TextSettings = made_from(TextSettings, content)
    return made


def with_corpus(settings: TextSettings, path: Path | None) -> TextSettings:
    """The same on another text, by whole paths, so that the run can be continued from anywhere."""
    text, towers = replace(settings.text, path=path or settings.text.path), settings.towers
    return replace(
        settings,
        text=replace(text, path=whole_path(text.path), cache=whole_path(text.cache)),
        towers=replace(towers, words=whole_path(towers.words)),
    )
