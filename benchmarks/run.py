"""Forward and backward of the contenders: time and memory, to a table and a JSON file."""

import json
import subprocess
import sys
from typing import Any

from benchmarks.contenders import CONTENDERS, FEATURES, TAU_PLUS, TEMPERATURE
from benchmarks.measure import THREADS
from benchmarks.results import environment, parser, publish, whole_number
from benchmarks.targets import judged

PAIRS = (256, 1024, 4096, 32768)
LIMIT_GIB = 4


def main() -> None:
    line = parser("benchmarks.run", __doc__, "results/benchmarks.json")
    line.add_argument("--pairs", nargs="+", type=whole_number(2), default=PAIRS, help="sizes, b")
    arguments = line.parse_args()
    machine = environment("torch", "lightly", "pytorch-metric-learning", threads=THREADS)
    print(f"{'pairs':>6}  {'contender':<36}{'ms':>10}{'extra MiB':>11}{'peak MiB':>10}{'rounds':>8}")
    rows = [row for pairs in dict.fromkeys(arguments.pairs) for row in _rows(pairs)]
    targets = judged(rows)
    for target in targets:
        verdict = f"limit {target['limit']:g}, {'met' if target['met'] else 'NOT MET'}"
        print(f"{target['pairs']:>6}  {target['measure']}: {target['value']:.3g}, {verdict}")
    results = {"environment": machine, "settings": _settings(), "rows": rows, "targets": targets}
    print()
    publish(arguments.out, results)


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


def _settings() -> dict[str, Any]:
    return {
        "contenders": {name: contender.title for name, contender in CONTENDERS.items()},
        "features": FEATURES,
        "dtype": "float32",
        "temperature": TEMPERATURE,
        "tau_plus": TAU_PLUS,
        "memory_limit_gib": LIMIT_GIB,
    }


if __name__ == "__main__":
    main()
