"""All benchmarks, each in a process of its own."""

import argparse
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple


class Part(NamedTuple):
    """A benchmark: its module, its result file, and arguments that only show that it runs."""

    module: str
    file: str
    small: str


PARTS = {
    "losses": Part("benchmarks.run", "benchmarks.json", "--pairs 64"),
    "views": Part("benchmarks.views", "views.json", "--batch 16 --rounds 1"),
    "probe": Part("benchmarks.probe", "probe.json", "--samples 1000 --rounds 1 --C 1"),
    "training": Part("benchmarks.training", "training.json", "--images 32 --batch 16 --rounds 1"),
    "audit": Part("benchmarks.audit", "audit.json", "--rows 2000"),
    "text": Part("benchmarks.text_training", "text_training.json", "--steps 2 --rounds 1"),
    "tasks": Part("benchmarks.sentence_tasks", "sentence_tasks.json", "--samples 60 --features 5 --fits-per-C 1"),
    "bank": Part("benchmarks.bank", "bank.json", "--batch 4 --size 100 --count 8"),
    "cached": Part("benchmarks.cached", "cached.json", "--batch 4"),
    "control": Part("benchmarks.control", "control_speed.json", "--steps 2 --random-steps 64 --frames 1000"),
}


def command(part: Part, folder: Path, small: bool) -> list[str]:
    arguments = part.small.split() if small else []
    return [sys.executable, "-m", part.module, "--out", str(folder / part.file), *arguments]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS), help="some of them")
    parser.add_argument("--folder", type=Path, default=Path("results"), help="where the result files go")
    parser.add_argument("--small", action="store_true", help="tiny sizes, to see that they run")
    arguments = parser.parse_args()
    for name in dict.fromkeys(arguments.only):
        print(f"== {name}", flush=True)
        status = subprocess.run(command(PARTS[name], arguments.folder, arguments.small), check=False).returncode
        if status:
            sys.exit(status)


if __name__ == "__main__":
    main()
