"""One process of the benchmark: times several contenders, or the memory of one. Prints one JSON line."""

import argparse
import contextlib
import ctypes
import gc
import json
import time
import warnings
from pathlib import Path
from typing import Any

import torch

from benchmarks.contenders import CONTENDERS, Step, inputs

THREADS = 2
SLOW_SECONDS = 3.0
# Here each contender already runs the code that it runs at any larger size: ours takes tiles above 128.
WARM_UP_PAIRS = 160
STATUS = Path("/proc/self/status")


def rounds_at(pairs: int) -> int:
    return next((rounds for most, rounds in ((256, 100), (1024, 15), (4096, 4)) if pairs <= most), 1)


def times(steps: dict[str, Step], rounds: int, slow_seconds: float = SLOW_SECONDS) -> dict[str, dict[str, Any]]:
    """The minimum over rounds in which the contenders take turns, so that a busy moment hits all alike."""
    runs: dict[str, list[float]] = {}
    turns: dict[str, int] = {}
    for name, step in steps.items():
        first = _seconds(step)
        slow = first > slow_seconds
        # A warm-up is too short to matter in a slow run, which therefore counts.
        runs[name] = [first] if slow else []
        turns[name] = 1 if slow else rounds
    for turn in range(rounds):
        # To and fro: whoever always came after the largest would find every cache cold.
        for name in list(steps)[:: 1 if turn % 2 == 0 else -1]:
            if turn < turns[name]:
                runs[name].append(_seconds(steps[name]))
    return {name: {"seconds": min(seconds), "rounds": len(seconds)} for name, seconds in runs.items()}


def memory(name: str, pairs: int) -> dict[str, Any]:
    """What one step adds to the resident memory at its highest, and the highest in all."""
    contender = CONTENDERS[name]
    z0, z1 = inputs(pairs)
    contender.prepare(*inputs(min(pairs, WARM_UP_PAIRS)))()
    return extra_memory(contender.prepare(z0, z1))


def extra_memory(step: Step) -> dict[str, Any]:
    """As `memory`, of a step that was prepared."""
    _give_back_free_memory()
    highest = _status_mib("VmHWM")
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    before, start = _status_mib("VmRSS"), _status_mib("VmHWM")
    step()
    peak = _status_mib("VmHWM")
    found: dict[str, Any] = {"extra_mib": peak - before, "peak_mib": max(highest, peak)}
    if peak == start and start - before > 1:
        found["note"] = "extra memory is an upper bound: the peak could not be reset"
    return found


def _times_at(names: list[str], pairs: int) -> dict[str, dict[str, Any]]:
    return times({name: CONTENDERS[name].prepare(*inputs(pairs)) for name in names}, rounds_at(pairs))


def _seconds(step: Step) -> float:
    start = time.perf_counter()
    step()
    return time.perf_counter() - start


def _give_back_free_memory() -> None:
    """Else a step would fill what the warm-up left in the heap, and seem to need less than it does."""
    gc.collect()
    with contextlib.suppress(AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def _status_mib(field: str) -> float:
    line = next(line for line in STATUS.read_text().splitlines() if line.startswith(f"{field}:"))
    return int(line.split()[1]) / 1024


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.measure", description=__doc__)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--time", nargs="+", choices=CONTENDERS, metavar="NAME")
    what.add_argument("--memory", choices=CONTENDERS, metavar="NAME")
    parser.add_argument("--pairs", type=int, required=True)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(THREADS)
    names, name, pairs = arguments.time, arguments.memory, arguments.pairs
    print(json.dumps(_times_at(names, pairs) if names else memory(name, pairs)))


if __name__ == "__main__":
    main()
