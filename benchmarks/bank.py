"""Logits of a batch against drawn rows of a memory bank, forward and backward: ours beside rows looked up."""

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor

from benchmarks.contenders import Step
from benchmarks.measure import extra_memory, times
from benchmarks.results import environment, parser, whole_number
from debiased_contrastive.files import write_atomically
from debiased_contrastive.kernels import bank as bank_kernel
from debiased_contrastive.report.numbers import markdown_table

FEATURES, ROUNDS = 128, 5
IMAGENET100 = 126_689
"""Its training images."""
SIZES = ((12_500, 1024), *((IMAGENET100, count) for count in (1024, 2048, 4096, 16_384)))
WAYS = {
    "ours": bank_kernel.COST_OF_A_ROW,
    "products with the whole bank": sys.maxsize,
    "own rows, some anchors at a time": 0,
    "all rows looked up": None,
}
"""Up to which n / k a contender takes products with the whole bank; ours chooses between the next two."""


def step_of(name: str, batch: int, size: int, count: int) -> Step:
    """Forward and backward of one bank, as a contender has them."""
    generator = torch.Generator().manual_seed(0)
    anchors = torch.randn(batch, FEATURES, generator=generator, requires_grad=True)
    bank = torch.nn.functional.normalize(torch.randn(size, FEATURES, generator=generator))
    places = torch.randint(size, (batch, count), generator=generator)
    gradient = torch.randn(batch, count, generator=generator)
    worth = WAYS[name]

    def step() -> None:
        if worth is None:
            _looked_up(anchors, bank, places).backward(gradient)
        else:
            with patch.object(bank_kernel, "COST_OF_A_ROW", worth):
                bank_kernel.bank_logits(anchors, bank, places).backward(gradient)

    return step


def _looked_up(anchors: Tensor, bank: Tensor, places: Tensor) -> Tensor:
    """As the code of contrastive multiview coding has them: a copy of every anchor's rows."""
    rows = bank.index_select(0, places.flatten()).view(*places.shape, -1)
    return torch.bmm(rows, anchors.unsqueeze(2)).squeeze(2)


def rows_of(batch: int, size: int, count: int) -> Iterator[dict[str, Any]]:
    """Seconds of the contenders in turns, and what a step adds to the memory of a process of its own."""
    seconds = times({name: step_of(name, batch, size, count) for name in WAYS}, ROUNDS)
    for name, found in seconds.items():
        arguments = ["--memory", name, "--batch", str(batch), "--size", str(size), "--count", str(count)]
        command = [sys.executable, "-m", "benchmarks.bank", *arguments]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        yield {"contender": name, "size": size, "count": count, **found, **json.loads(done.stdout)}


def markdown(results: dict[str, Any]) -> str:
    """The result file as a table, for docs/cmc.md: ms and MiB of each contender."""
    sizes = list(dict.fromkeys((row["size"], row["count"]) for row in results["rows"]))
    lines = [
        [name, *(_cell(row) for row in results["rows"] if row["contender"] == name)]
        for name in results["settings"]["contenders"]
    ]
    return markdown_table(["one core", *(f"k = {count:,} of n = {size:,}" for size, count in sizes)], lines)


def _cell(row: dict[str, Any]) -> str:
    return f"{1e3 * row['seconds']:.0f} ms, {row['extra_mib']:.0f} MiB"


def main() -> None:
    line = parser("benchmarks.bank", __doc__, "results/bank.json")
    line.add_argument("--batch", type=whole_number(1), default=128)
    line.add_argument("--size", type=whole_number(2), help="rows of the bank; several sizes if not given")
    line.add_argument("--count", type=whole_number(1), default=1024, help="rows drawn for each anchor, with --size")
    line.add_argument("--memory", choices=WAYS, help=argparse.SUPPRESS)
    arguments = line.parse_args()
    torch.set_num_threads(1)
    batch, sizes = arguments.batch, [(arguments.size, arguments.count)] if arguments.size else SIZES
    if arguments.memory:
        # What the first step of all takes is not of its size.
        step_of(arguments.memory, 2, 2, 1)()
        print(json.dumps(extra_memory(step_of(arguments.memory, batch, *sizes[0]))))
        return
    machine = environment("torch", threads=1)
    rows = [row for size in sizes for row in rows_of(batch, *size)]
    settings = {"benchmark": "bank", "contenders": list(WAYS), "batch": batch, "features": FEATURES}
    results = {"environment": machine, "settings": settings, "rows": rows}
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(arguments.out, json.dumps(results, indent=2) + "\n")
    print(f"{markdown(results)}\nwritten to {arguments.out}")


if __name__ == "__main__":
    main()
