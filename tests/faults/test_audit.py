"""The audit of large files: left alone it stays small in memory, interrupted it ends at once and leaves nothing."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

FEATURES, CLASSES, AT_ONCE = 32, 10, 100_000
MIB = 2**20


def write_file(folder: Path, count: int) -> list[str]:
    """Rows of ten classes and their labels; the words that audit them."""
    generator = np.random.default_rng(0)
    labels = generator.integers(0, CLASSES, count)
    centres = 2 * generator.standard_normal((CLASSES, FEATURES))
    rows = np.lib.format.open_memmap(folder / "z.npy", "w+", np.float16, (count, FEATURES))
    for start in range(0, count, AT_ONCE):
        part = labels[start : start + AT_ONCE]
        rows[start : start + AT_ONCE] = centres[part] + generator.standard_normal((len(part), FEATURES))
    rows.flush()
    np.save(folder / "labels.npy", labels)
    return ["audit", "z.npy", "--labels", "labels.npy", "--quiet", "--out", "page.html"]


def environment() -> dict[str, str]:
    """Two threads that wait for each other on shared cores take many times as long as one."""
    return {**os.environ, "OMP_NUM_THREADS": "1"}


@pytest.mark.parametrize(
    ("count", "when"),
    [
        # Read in one block, so that what is interrupted is k-means, which is not written in Python.
        (50_000, "prior by clusters"),
        pytest.param(2_000_000, "reading", marks=pytest.mark.slow),
    ],
)
def test_an_interrupt_ends_an_audit_in_one_line(count: int, when: str, tmp_path: Path) -> None:
    words = [sys.executable, "-m", "debiased_contrastive.cli", *write_file(tmp_path, count)]
    before = sorted(tmp_path.iterdir())
    pipe = subprocess.PIPE
    with subprocess.Popen(words, cwd=tmp_path, env=environment(), stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stderr is not None
        line = next(line for line in process.stderr if when in line)
        assert str(count) not in line.split(" of ")[0], "it is in the middle"
        process.send_signal(signal.SIGINT)
        asked = time.monotonic()
        out, said = process.communicate(timeout=60)
    assert time.monotonic() - asked < 15
    assert process.returncode == 130
    assert said.splitlines()[-1] == "debiased: interrupted"
    assert all(line.startswith(("audit: ", "debiased: interrupted")) for line in said.splitlines()), said
    assert out == ""
    assert sorted(tmp_path.iterdir()) == before, "no page, nor a part of one"


MEASURED = """
import sys
import debiased_contrastive.auditing.audit, debiased_contrastive.cli.analyses
from debiased_contrastive.cli.main import main

def status(key):
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith(key)) / 1024

before = status("VmRSS")
main(sys.argv[1:])
print(before, status("VmHWM"), file=sys.stderr)
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads the peak from Linux's /proc")
def test_a_file_of_two_million_rows_is_never_in_memory(tmp_path: Path) -> None:
    words = [sys.executable, "-c", MEASURED, *write_file(tmp_path, 2_000_000)]
    done = subprocess.run(words, cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "From 20,000 of 2,000,000 rows, drawn at random; all were checked." in " ".join(done.stdout.split())
    assert (tmp_path / "page.html").read_text().rstrip().endswith("</html>")
    before, peak = map(float, done.stderr.splitlines()[-1].split())
    assert peak < 1536
    # One copy of all rows as float32, which is what they are computed with.
    assert peak - before < 2_000_000 * FEATURES * 4 / MIB
