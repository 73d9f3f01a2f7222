"""A large batch by `cached_backward`, beside the same images in plain steps of small batches: time and memory."""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.contenders import OURS, TAU_PLUS, TEMPERATURE, Step
from benchmarks.measure import extra_memory
from benchmarks.results import environment, parser, publish, whole_number
from benchmarks.targets import Target, judged
from debiased_contrastive.images.encoders import projector, resnet18
from debiased_contrastive.losses.cached import cached_backward
from debiased_contrastive.losses.nt_xent import DebiasedNTXentLoss

BATCH, SIDE, CHUNK, SMALL_BATCH = 8192, 32, 64, 256
PLAIN = "plain"
CONTENDERS = {
    OURS: f"one batch by cached_backward, chunks of {CHUNK}",
    PLAIN: f"plain steps, batches of {SMALL_BATCH}",
}
SIZE = (("batch", BATCH),)
TARGETS = (
    Target(f"time / batches of {SMALL_BATCH}", "seconds", (PLAIN,), 1.6, SIZE),
    Target("peak memory in all, MiB", "peak_mib", (), 3072.0, SIZE),
)


def network() -> nn.Module:
    """A ResNet-18 for small images with its projector, the same weights for all."""
    torch.manual_seed(0)
    return nn.Sequential(resnet18(stem="cifar"), projector(512))


def views_of(batch: int) -> list[Tensor]:
    """Two views of so many images; what is on them takes no part in the time."""
    generator = torch.Generator().manual_seed(0)
    return [torch.rand(batch, 3, SIDE, SIDE, generator=generator) for _ in range(2)]


def step_of(name: str, batch: int) -> Step:
    """Gradients of all images, as a contender computes them."""
    encoder, views = network(), views_of(batch)
    loss = DebiasedNTXentLoss(temperature=TEMPERATURE, tau_plus=TAU_PLUS, on_floor="cap_tau")

    def plain() -> None:
        for start in range(0, batch, SMALL_BATCH):
            part = slice(start, start + SMALL_BATCH)
            encoder.zero_grad()
            loss(*(encoder(view[part]) for view in views)).backward()

    def cached() -> None:
        encoder.zero_grad()
        cached_backward(loss, encoder, *views, chunk=CHUNK)

    contenders: dict[str, Callable[[], None]] = {OURS: cached, PLAIN: plain}
    return contenders[name]


def measured(name: str, batch: int) -> dict[str, Any]:
    """Seconds and memory of one step, after a small one. The process's own time: others may use the machine."""
    step_of(name, min(batch, CHUNK))()
    step, seconds = step_of(name, batch), 0.0

    def timed() -> None:
        nonlocal seconds
        start = time.process_time()
        step()
        seconds = time.process_time() - start

    memory = extra_memory(timed)
    return {"seconds": seconds, "images_per_second": 2 * batch / seconds, "rounds": 1, **memory}


def rows_of(batch: int) -> list[dict[str, Any]]:
    """Each contender in a process of its own."""
    rows = []
    for name in CONTENDERS:
        command = [sys.executable, "-m", "benchmarks.cached", "--measure", name, "--batch", str(batch)]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        rows.append({"contender": name, "batch": batch, **json.loads(done.stdout.splitlines()[-1])})
    return rows


def main() -> None:
    line = parser("benchmarks.cached", __doc__, "results/cached.json")
    line.add_argument("--batch", type=whole_number(2), default=BATCH, help="pairs of views")
    line.add_argument("--measure", choices=CONTENDERS, help=argparse.SUPPRESS)
    arguments = line.parse_args()
    torch.set_num_threads(1)
    if arguments.measure:
        print(json.dumps(measured(arguments.measure, arguments.batch)))
        return
    machine = environment("torch", threads=1)
    rows = rows_of(arguments.batch)
    settings = {
        "benchmark": "cached",
        "contenders": CONTENDERS,
        "batch": arguments.batch,
        "size": SIDE,
        "temperature": TEMPERATURE,
    }
    results = {"environment": machine, "settings": settings, "rows": rows, "targets": judged(rows, TARGETS)}
    publish(arguments.out, results)


if __name__ == "__main__":
    main()
