"""The tiled kernel never holds a matrix of logits: peak memory of a fresh process, against its size."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

B, D = 3072, 128
MATRIX_MIB = (2 * B) ** 2 * 4 / 2**20  # 144 MiB of float32 logits for 6144 anchors

SCRIPT = f"""
import ctypes, json, torch, debiased_contrastive as dc
torch.set_num_threads(1)

def status(key):
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith(key)) / 1024

def extra(loss, *views, **rest):
    loss(*(z[:64] for z in views), **{{name: value[:64] for name, value in rest.items()}}).backward()  # warm up
    ctypes.CDLL(None).malloc_trim(0)  # else the step would fill what earlier ones left free
    open("/proc/self/clear_refs", "w").write("5")  # forget the peak so far
    before = status("VmRSS")
    loss(*views, **rest).backward()
    return status("VmHWM") - before

z0, z1, z2 = (torch.randn({B}, {D}, requires_grad=True) for _ in range(3))
labels = torch.arange({B}) % 10
print(json.dumps({{
    "nt_xent": extra(dc.DebiasedNTXentLoss(), z0, z1),
    "nt_xent, low temperature, hard": extra(dc.DebiasedNTXentLoss(0.01, beta=1.0), z0, z1),
    "nt_xent, three views, labels": extra(dc.DebiasedNTXentLoss(), z0, z1, z2, labels=labels),
    "nt_xent, known positives": extra(dc.DebiasedNTXentLoss(), z0, z1, positive_labels=labels),
    "info_nce, symmetric": extra(dc.DebiasedInfoNCELoss(symmetric=True), z0, z1),
}}))
"""


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="reads the peak from Linux's /proc")
def test_peak_memory_is_a_few_embeddings_and_a_tile() -> None:
    run = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    peaks = json.loads(run.stdout)
    assert len(peaks) == 5
    for name, peak in peaks.items():
        # Embeddings are 3 MiB; some copies of them, their gradients and a few tiles.
        assert 5 < peak < MATRIX_MIB / 2, f"{name}: {peak:.0f} MiB"
