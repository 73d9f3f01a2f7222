"""Time and memory of `debiased audit` on a file of many embeddings: it has no peer, so there is one row."""

import json
import os
import subprocess
import sys
import tempfile
import time
from multiprocessing import get_context
from pathlib import Path
from resource import struct_rusage
from typing import Any

import numpy as np

from benchmarks.results import environment, parser, whole_number
from debiased_contrastive.files import write_atomically

CLASSES, FEATURES, BLOCK, NOISE = 200, 384, 50_000, 0.06


def write(folder: Path, rows: int) -> None:
    """Embeddings of classes of one size, and their labels."""
    generator = np.random.default_rng(0)
    means = generator.standard_normal((CLASSES, FEATURES)).astype(np.float32)
    means /= np.linalg.norm(means, axis=1, keepdims=True)
    labels = generator.integers(0, CLASSES, rows)
    embeddings = np.lib.format.open_memmap(folder / "z.npy", "w+", np.float32, (rows, FEATURES))
    for start in range(0, rows, BLOCK):
        own = means[labels[start : start + BLOCK]]
        noise = generator.standard_normal(own.shape, dtype=np.float32)
        embeddings[start : start + BLOCK] = own + NOISE * noise
    embeddings.flush()
    np.save(folder / "labels.npy", labels)


def measured(rows: int) -> dict[str, Any]:
    """Seconds and largest memory of the command, and what it found."""
    with tempfile.TemporaryDirectory() as folder:
        # By another process: the memory of the one that starts the command counts as the command's.
        writer = get_context("spawn").Process(target=write, args=(Path(folder), rows))
        writer.start()
        writer.join()
        embeddings, labels = Path(folder) / "z.npy", Path(folder) / "labels.npy"
        size = embeddings.stat().st_size
        start = time.perf_counter()
        found, used = _called(embeddings, labels)
        seconds = time.perf_counter() - start
    return {
        "rows": rows,
        "features": FEATURES,
        "file_mib": round(size / 2**20),
        "seconds": round(seconds, 1),
        # On one thread, so that what else runs on the machine hardly moves it.
        "processor_seconds": round(used.ru_utime + used.ru_stime, 1),
        "peak_mib": round(used.ru_maxrss / 1024),
        "prior": found["prior"]["value"],
        "true_prior": 1 / CLASSES,
    }


def _called(embeddings: Path, labels: Path) -> tuple[dict[str, Any], struct_rusage]:
    """What the command prints, and what it used of the machine."""
    command = [
        sys.executable,
        "-m",
        "debiased_contrastive.cli",
        "audit",
        str(embeddings),
        "--labels",
        str(labels),
    ]
    one_thread = {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        [*command, "--json", "--quiet"], stdout=subprocess.PIPE, text=True, env=one_thread
    ) as process:
        assert process.stdout is not None
        printed = process.stdout.read()
        # Of this child alone; the module `resource` has the largest of all.
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit("debiased audit failed, see above")
    found: dict[str, Any] = json.loads(printed)
    return found, usage


def sentence(results: dict[str, Any]) -> str:
    """What the documents quote."""
    return (
        f"{results['rows']:,} rows of {results['features']} features, a file of {results['file_mib']:,} MiB, take "
        f"{results['processor_seconds']:.0f} s of processor time and {results['peak_mib']} MiB"
    )


def main() -> None:
    line = parser("benchmarks.audit", __doc__, "results/audit.json")
    line.add_argument("--rows", type=whole_number(1000), default=1_000_000)
    arguments = line.parse_args()
    machine = environment("torch", "numpy", "scikit-learn", threads=1)
    results = {"environment": machine, **measured(arguments.rows)}
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(arguments.out, json.dumps(results, indent=2) + "\n")
    print(sentence(results))


if __name__ == "__main__":
    main()
