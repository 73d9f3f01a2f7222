"""Ten steps of every method in every domain, by the command line, and what the losses were.

    python -m tests.golden.cases tests/golden/losses.json

writes the file anew. It may change only with a line under "Numbers changed" in the changelog.
"""

import json
import platform
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import nn

import debiased_contrastive as dc
from debiased_contrastive.cli.main import main

QUIET = ["--training.accelerator", "cpu", "--training.log-every", "1", "--quiet"]
IMAGES = [
    "train", "demo", "--data.per-class", "8", "--training.batch", "40", "--training.epochs", "5", "--training.knn-every",
    "0", "--encoder.width", "4", "--encoder.hidden-dim", "16", "--encoder.out-dim", "8", *QUIET,
]  # fmt: skip
VIEWS = [
    "train", "cmc-small", "--data.folder-size", "12", "--views.size", "12", "--training.batch", "20",
    "--training.epochs", "5", "--encoder.width", "4", "--encoder.out-dim", "8", "--objective.bank-negatives", "12",
    *QUIET,
]  # fmt: skip
SENTENCES = [
    "train", "quickthoughts-small", "--training.batch", "40", "--training.epochs", "1", "--towers.word-dim", "8",
    "--towers.hidden-dim", "6", "--text.vocabulary", "50", "--training.learning-rate", "0.1", *QUIET,
]  # fmt: skip
AGENT = [
    "train", "curl", "--task", "cartpole-balance", "--camera.size", "16", "--camera.crop", "12", "--camera.pad", "0",
    "--camera.smooth", "1", "--agent.filters", "4", "--agent.layers", "2", "--agent.strided", "1",
    "--agent.hidden-dim", "16", "--training.frames", "160", "--training.repeat", "8", "--training.random-steps", "10",
    "--training.batch", "8", "--training.evaluate-every", "1000", "--training.episodes", "1", *QUIET,
]  # fmt: skip
DEBIASED = ["--objective.kind", "debiased", "--objective.tau-plus", "0.1"]
KNOWN = ["--membership.source", "labels", "--membership.known", "0.5", "--membership.warm-up", "1"]
FLOORED = ["--objective.kind", "debiased", "--objective.tau-plus", "0.9"]
"""So large that some queries of an agent are on the floor from the first step on."""
RUNS: dict[str, list[str]] = {
    "simclr-biased": [*IMAGES, "--objective.kind", "biased"],
    "simclr-debiased": [*IMAGES, *DEBIASED],
    "simclr-debiased-M2": [*IMAGES, *DEBIASED, "--objective.num-positives", "2"],
    "simclr-unbiased": [*IMAGES, "--objective.kind", "unbiased"],
    "simclr-known-labels": [*IMAGES, *DEBIASED, "--objective.known-labels", "0.5"],
    "simclr-auto": [*IMAGES, *DEBIASED, "--objective.auto"],
    "simclr-hard": [*IMAGES, *DEBIASED, "--objective.beta", "0.5", "--objective.temperature", "0.1"],
    **{
        f"simclr-floor-{rule}": [*IMAGES, *DEBIASED, "--objective.on-floor", rule, "--objective.temperature", "0.1"]
        for rule in ("biased", "smooth", "cap_tau")
    },
    "simclr-queue": [*IMAGES, *DEBIASED, "--objective.negatives", "queue", "--objective.queue-size", "60"],
    "simclr-queue-M2": [
        *IMAGES, *DEBIASED, "--objective.negatives", "queue", "--objective.queue-size", "60",
        "--objective.num-positives", "2",
    ],
    "simclr-membership": [*IMAGES, *KNOWN, "--membership.attraction", "0.5"],
    "simclr-queue-membership": [
        *IMAGES, *KNOWN, "--objective.negatives", "queue", "--objective.queue-size", "60",
    ],
    "cmc-membership": [*VIEWS, *KNOWN],
    "cmc-debiased": [*VIEWS, *DEBIASED],
    "cmc-biased": [*VIEWS, "--objective.kind", "biased"],
    **{
        f"quickthoughts-floor-{floor}": [*SENTENCES, "--objective.tau-plus", "0.5", "--objective.floor", floor]
        for floor in ("zero", "small", "relative", "biased", "cap_tau")
    },
    "quickthoughts-floor-bound": [
        *SENTENCES, "--objective.tau-plus", "0.5", "--objective.floor", "bound", "--objective.temperature", "0.2",
    ],
    "quickthoughts-biased": [*SENTENCES, "--objective.kind", "biased", "--objective.denominator", "original"],
    "curl-none": [*AGENT, "--objective.kind", "none"],
    "curl-biased": [*AGENT, "--objective.kind", "biased"],
    "curl-M1": [*AGENT, *FLOORED],
    "curl-M2": [*AGENT, *FLOORED, "--objective.num-positives", "2"],
    **{
        f"curl-floor-{floor}": [*AGENT, *FLOORED, "--objective.floor", floor]
        for floor in ("small", "relative", "biased", "cap_tau")
    },
}  # fmt: skip
KEYS = ("loss", "biased_loss", "contrast_loss", "critic_loss", "actor_loss", "floored", "tau_cap_median")
"""Of the log: whatever of these a domain has."""


def run_losses(name: str, folder: Path) -> dict[str, list[float]]:
    """What the run of that name logs in its steps, one thread at work."""
    flags = list(RUNS[name])
    if name.startswith("cmc"):
        flags += ["--data.root", str(_write_images(folder / "images"))]
    if name.startswith("quickthoughts"):
        flags += ["--corpus", str(_write_text(folder / "text.txt"))]
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        main([*flags, "--out", str(folder / "run")])
    finally:
        torch.set_num_threads(threads)
    lines = [json.loads(line) for line in (folder / "run" / "metrics.jsonl").read_text().splitlines()]
    return {key: [line[key] for line in lines if key in line] for key in KEYS if any(key in line for line in lines)}


MODULES = ("nt_xent", "nt_xent-M2", "info_nce", "info_nce-symmetric", "info_nce-queue", "bank")


def module_losses(name: str) -> list[float]:
    """Ten steps of a linear encoder in float64, without any trainer."""
    torch.manual_seed(0)
    encoder = nn.Linear(6, 5, dtype=torch.float64)
    optimiser = torch.optim.SGD(encoder.parameters(), lr=0.5)
    return [_step(value, optimiser) for value in _values(name, encoder)]


def _values(name: str, encoder: nn.Linear) -> Iterator[torch.Tensor]:
    options: dict[str, Any] = {"temperature": 0.2, "tau_plus": 0.1}
    ids = torch.arange(12)
    bank = torch.nn.functional.normalize(torch.randn(30, 5, dtype=torch.float64))
    places = (ids[:, None] + 1 + torch.arange(7)) % 30
    for _ in range(10):
        x, rest = torch.randn(12, 6, dtype=torch.float64), torch.randn(30, 6, dtype=torch.float64)
        views = [encoder(x + 0.1 * torch.randn_like(x)) for _ in range(3)]
        match name.partition("-")[0]:
            case "nt_xent":
                yield dc.DebiasedNTXentLoss(**options)(*views[: 3 if name.endswith("M2") else 2])
            case "bank":
                yield dc.DebiasedBankLoss(**options)(views[:2], [bank, bank], ids=ids, places=places)
            case _:
                loss = dc.DebiasedInfoNCELoss(**options, symmetric=name.endswith("symmetric"))
                yield loss(*views[:2], *([encoder(rest)] if name.endswith("queue") else []))


def _step(value: torch.Tensor, optimiser: torch.optim.Optimizer) -> float:
    optimiser.zero_grad()
    value.mean().backward()
    optimiser.step()
    return float(value.detach().mean())


def machine() -> dict[str, str]:
    """What the last bits depend on."""
    names = [line for line in _cpu_lines() if line.startswith("model name")]
    return {
        "torch": torch.__version__,
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "processor": names[0].partition(":")[2].strip() if names else platform.processor(),
    }


def _cpu_lines() -> list[str]:
    path = Path("/proc/cpuinfo")
    return path.read_text().splitlines() if path.exists() else []


def _write_images(folder: Path) -> Path:
    rng = np.random.default_rng(0)
    for name in ("cat", "dog"):
        (folder / name).mkdir(parents=True)
        for number in range(20):
            Image.fromarray(rng.integers(0, 255, (12, 12, 3), np.uint8)).save(folder / name / f"{number:03}.bmp")
    return folder


def _write_text(path: Path) -> Path:
    path.write_text("".join(f"word{k % 31} and word{k * k % 37}\n" + "\n" * (k % 9 == 0) for k in range(400)))
    return path


def all_losses() -> dict[str, Any]:
    """Everything that the file holds."""
    found: dict[str, Any] = {
        "machine": machine(),
        "modules": {name: module_losses(name) for name in MODULES},
        "runs": {},
    }
    for name in RUNS:
        with tempfile.TemporaryDirectory() as folder:
            found["runs"][name] = run_losses(name, Path(folder))
    return found


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(json.dumps(all_losses(), indent=1) + "\n")
