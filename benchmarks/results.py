"""What the benchmarks share: the command line, the machine, the result file."""

import argparse
import json
import os
import platform
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import debiased_contrastive
from benchmarks.table import markdown
from debiased_contrastive.files import write_atomically


def environment(*packages: str, threads: int) -> dict[str, Any]:
    cpu = platform.processor()
    if (info := Path("/proc/cpuinfo")).exists():
        lines = info.read_text().splitlines()
        cpu = next((line.split(": ")[1] for line in lines if line.startswith("model name")), cpu)
    versions = {name: version(name) for name in packages} | {
        "python": platform.python_version(),
        "debiased-contrastive": debiased_contrastive.__version__,
    }
    # The load before the run: on busy cores threads wait for each other and times mean little.
    machine = {"cpu": cpu, "cores": os.cpu_count(), "load_before": os.getloadavg()[0]}
    return {**machine, "threads": threads, "versions": versions}


def publish(path: Path, results: dict[str, Any]) -> None:
    """Write the results and show them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, json.dumps(results, indent=2) + "\n")
    print(f"{markdown(results)}\nwritten to {path}")


def parser(module: str, description: str | None, out: str) -> argparse.ArgumentParser:
    """The part of a benchmark's command line that all have."""
    found = argparse.ArgumentParser(prog=f"python -m {module}", description=description)
    found.add_argument("--out", type=_file, default=Path(out))
    return found


def whole_number(least: int) -> Callable[[str], int]:
    """The type of an argument: a whole number of at least that."""

    def number(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"must be a whole number of at least {least}, got {text!r}")
        return int(text)

    return number


def _file(text: str) -> Path:
    if Path(text).is_dir():
        raise argparse.ArgumentTypeError(f"must be a file, got the directory {text!r}")
    return Path(text)
