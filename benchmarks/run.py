"""Forward and backward of the contenders: time and memory, to a table and a JSON file."""

import argparse
import json
import os
import platform
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import debiased_contrastive
from benchmarks.contenders import CONTENDERS, FEATURES, TAU_PLUS, TEMPERATURE
from benchmarks.measure import THREADS
from benchmarks.table import markdown
from benchmarks.targets import judged

PAIRS = (256, 1024, 4096, 32768)
LIMIT_GIB = 4


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run", description=__doc__)
    parser.add_argument("--pairs", nargs="+", type=_number_of_pairs, default=PAIRS, help="sizes, b")
    parser.add_argument("--out", type=_file, default=Path("results/benchmarks.json"))
    arguments = parser.parse_args()
    environment = _environment()
    print(f"{'pairs':>6}  {'contender':<36}{'ms':>10}{'extra MiB':>11}{'peak MiB':>10}{'rounds':>8}")
    rows = [row for pairs in dict.fromkeys(arguments.pairs) for row in _rows(pairs)]
    targets = judged(rows)
    for target in targets:
        verdict = f"limit {target['limit']:g}, {'met' if target['met'] else 'NOT MET'}"
        print(f"{target['pairs']:>6}  {target['measure']}: {target['value']:.3g}, {verdict}")
    results = {"environment": environment, "settings": _settings(), "rows": rows, "targets": targets}
    _write(arguments.out, results)
    print(f"\n{markdown(results)}\nwritten to {arguments.out}")


def _rows(pairs: int) -> list[dict[str, Any]]:
    needs = {name: contender.needs(pairs) / 2**30 for name, contender in CONTENDERS.items()}
    times = _measured("--time", *(name for name in needs if needs[name] <= LIMIT_GIB), pairs=pairs)
    rows = []
    for name in CONTENDERS:
        row: dict[str, Any] = {"contender": name, "pairs": pairs}
        if name in times:
            row |= times[name] | _measured("--memory", name, pairs=pairs)
        else:
            row["skipped"] = f"needs about {needs[name]:,.0f} GiB, the limit is {LIMIT_GIB} GiB"
        _show(row)
        rows.append(row)
    return rows


def _measured(*what: str, pairs: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.measure", *what, "--pairs", str(pairs)]
    # Kept from the terminal: the peers warn a lot.
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{done.stderr}{' '.join(what)} at {pairs} pairs failed: exit status {done.returncode}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def _show(row: dict[str, Any]) -> None:
    line = f"{row['pairs']:>6}  {CONTENDERS[row['contender']].title:<36}"
    if "skipped" in row:
        line += f"  skipped: {row['skipped']}"
    else:
        line += f"{1e3 * row['seconds']:>10.2f}{row['extra_mib']:>11.1f}{row['peak_mib']:>10.0f}"
        line += f"{row['rounds']:>8}  {row.get('note', '')}"
    print(line.rstrip(), flush=True)


def _environment() -> dict[str, Any]:
    cpu = platform.processor()
    if (info := Path("/proc/cpuinfo")).exists():
        lines = info.read_text().splitlines()
        cpu = next((line.split(": ")[1] for line in lines if line.startswith("model name")), cpu)
    versions = {name: version(name) for name in ("torch", "lightly", "pytorch-metric-learning")}
    versions |= {
        "python": platform.python_version(),
        "debiased-contrastive": debiased_contrastive.__version__,
    }
    # The load before the run: on busy cores threads wait for each other and times mean little.
    machine = {"cpu": cpu, "cores": os.cpu_count(), "load_before": os.getloadavg()[0]}
    return {**machine, "threads": THREADS, "versions": versions}


def _settings() -> dict[str, Any]:
    return {
        "contenders": {name: contender.title for name, contender in CONTENDERS.items()},
        "features": FEATURES,
        "dtype": "float32",
        "temperature": TEMPERATURE,
        "tau_plus": TAU_PLUS,
        "memory_limit_gib": LIMIT_GIB,
    }


def _write(path: Path, results: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f"{path.name}.tmp")
    unfinished.write_text(json.dumps(results, indent=2) + "\n")
    os.replace(unfinished, path)


def _number_of_pairs(text: str) -> int:
    if not text.isdecimal() or int(text) < 2:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 2, got {text!r}")
    return int(text)


def _file(text: str) -> Path:
    if Path(text).is_dir():
        raise argparse.ArgumentTypeError(f"must be a file, got the directory {text!r}")
    return Path(text)


if __name__ == "__main__":
    main()
