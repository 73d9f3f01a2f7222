"""Sentences a second of Quick-Thoughts, the share of the time outside towers and loss, and nn.GRU in our place."""

import json
import random
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor

from benchmarks.results import environment, parser, whole_number
from debiased_contrastive.files import write_atomically
from debiased_contrastive.runs import new_run
from debiased_contrastive.text import towers as sentence
from debiased_contrastive.text.corpus import Corpus
from debiased_contrastive.text.quickthoughts import make_method
from debiased_contrastive.text.run import inputs, read_corpus, train
from debiased_contrastive.text.settings import TEXT_PRESETS, TextSettings, with_corpus
from debiased_contrastive.training.machine import keep_freed_memory, start_fabric
from debiased_contrastive.training.settings import as_json

WARM_UP = 3
"""Steps before the clock starts."""


def made_up(folder: Path, sentences: int) -> Path:
    """A text whose words are as uneven and whose sentences are as long as those of novels."""
    draw = random.Random(0)
    words = [f"w{place}" for place in range(30_000)]
    weights = [1 / (place + 3) for place in range(len(words))]
    path = folder / "made_up.txt"
    with path.open("w") as lines:
        for _ in range(sentences):
            length = min(60, max(1, round(draw.lognormvariate(2.6, 0.8))))
            lines.write(" ".join(draw.choices(words, weights, k=length)) + "\n")
    return path


def whole(settings: TextSettings, corpus: Corpus, folder: Path, steps: int) -> float:
    """Seconds of so many steps of training as users run it, log and optimiser included; warm-up steps aside."""
    run, fabric = (
        new_run(folder, as_json(settings)),
        start_fabric(settings.training.accelerator, settings.training.precision),
    )
    updates = train(settings, run, fabric, corpus)
    start = 0.0
    for update in updates:
        if update.step == WARM_UP:
            start = time.perf_counter()
        if update.step == WARM_UP + steps:
            seconds = time.perf_counter() - start
            updates.close()
            return seconds
    raise AssertionError("the corpus has fewer steps than are timed")


def bare(settings: TextSettings, corpus: Corpus, steps: int) -> float:
    """Seconds of towers and loss alone, forward and backward, on the same batches."""
    torch.manual_seed(0)
    method = make_method(settings, corpus.tokenizer.get_vocab_size())
    fabric = start_fabric(settings.training.accelerator, settings.training.precision)
    batches: list[dict[str, Tensor]] = list(inputs(settings, corpus, fabric, range(WARM_UP + steps)))
    start = 0.0
    for step, batch in enumerate(batches):
        if step == WARM_UP:
            start = time.perf_counter()
        method(**batch).backward()
        method.zero_grad()
    return time.perf_counter() - start


def measured(settings: TextSettings, corpus: Corpus, steps: int, rounds: int) -> dict[str, Any]:
    """Least of several rounds in which all take turns."""
    seconds: dict[str, list[float]] = {"whole": [], "bare": [], "bare_nn_gru": []}
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(rounds):
            seconds["whole"].append(whole(settings, corpus, Path(folder) / str(turn), steps))
            seconds["bare"].append(bare(settings, corpus, steps))
            # nn.GRU over packed sentences in the place of ours.
            with patch.object(sentence, "_has_own_recurrence", return_value=False):
                seconds["bare_nn_gru"].append(bare(settings, corpus, steps))
    least = {name: min(times) for name, times in seconds.items()}
    return {
        "threads": torch.get_num_threads(),
        "sentences_per_second": settings.training.batch * steps / least["whole"],
        "outside": 1 - least["bare"] / least["whole"],
        "nn_gru_times_as_long": least["bare_nn_gru"] / least["bare"],
        **{f"seconds_{name}": value for name, value in least.items()},
    }


def sentence_of(results: dict[str, Any]) -> str:
    """The result file in words, for docs/text.md."""
    rows = results["rows"]
    speeds = " and ".join(
        f"{row['sentences_per_second']:.0f} sentences/s with {row['threads']} of the two cores" for row in rows
    )
    outside = " and ".join(f"{100 * row['outside']:.0f} %" for row in rows)
    slower = " and ".join(f"{row['nn_gru_times_as_long']:.1f}" for row in rows)
    return (
        f"`quickthoughts-small` trains {speeds}; {outside} of the time goes elsewhere than into towers and loss "
        f"(batches, optimiser, clipping, log). With `nn.GRU` over packed sentences instead of our recurrence, "
        f"towers and loss take {slower} times as long."
    )


def main() -> None:
    line = parser("benchmarks.text_training", __doc__, "results/text_training.json")
    line.add_argument("--corpus", type=Path, help="a text; a made-up one if not given")
    line.add_argument("--cache", type=Path, help="folder for its tokens")
    line.add_argument("--steps", type=whole_number(1), default=40)
    line.add_argument("--rounds", type=whole_number(1), default=3)
    arguments = line.parse_args()
    keep_freed_memory()
    machine = environment("torch", "tokenizers", threads=2)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        settings = TEXT_PRESETS["quickthoughts-small"].settings
        needed = settings.training.batch * (WARM_UP + arguments.steps)
        path = arguments.corpus or made_up(Path(folder), needed)
        settings = with_corpus(settings, path)
        settings = replace(settings, text=replace(settings.text, cache=arguments.cache))
        try:
            corpus = read_corpus(settings)
        except (OSError, ValueError) as error:
            line.error(str(error))
        for threads in (1, 2):
            torch.set_num_threads(threads)
            rows.append(measured(settings, corpus, arguments.steps, arguments.rounds))
    results = {
        "environment": machine,
        "settings": {"benchmark": "text_training", "steps": arguments.steps, "rounds": arguments.rounds},
        "rows": rows,
    }
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(arguments.out, json.dumps(results, indent=2) + "\n")
    print(f"{sentence_of(results)}\nwritten to {arguments.out}")


if __name__ == "__main__":
    main()
