"""The results as Markdown, for docs/benchmarks.md."""

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

Row: TypeAlias = dict[str, Any]


def markdown(results: dict[str, Any]) -> str:
    """Of results/benchmarks.json; the same file gives the same text."""
    rows = {(row["contender"], row["pairs"]): row for row in results["rows"]}
    titles = results["settings"]["contenders"]

    def time(row: Row) -> str:
        ratio = row["seconds"] / rows["ours", row["pairs"]]["seconds"]
        return f"{_number(1e3 * row['seconds'])} ({_number(ratio)}x)"

    parts = [
        _conditions(results["environment"], results["settings"]),
        _by_size("Forward and backward, ms (ratio to ours)", rows, titles, time),
        _by_size("Extra memory, MiB", rows, titles, lambda row: _number(row["extra_mib"])),
        "\n".join(_skipped(row, titles) for row in results["rows"] if "skipped" in row),
        _targets(results["targets"], titles),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _conditions(environment: dict[str, Any], settings: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {number}" for name, number in environment["versions"].items())
    return (
        f"{environment['cpu']}, {environment['threads']} threads; {versions}. Two views of b inputs, "
        f"{settings['features']} features, {settings['dtype']}, t = {settings['temperature']}, "
        f"tau_plus = {settings['tau_plus']}."
    )


def _by_size(
    title: str, rows: dict[tuple[str, int], Row], titles: dict[str, str], cell: Callable[[Row], str]
) -> str:
    sizes = sorted({pairs for _, pairs in rows})
    lines = [[title, *(f"b = {pairs}" for pairs in sizes)]]
    for name, label in titles.items():
        of_name = [rows[name, pairs] for pairs in sizes]
        lines.append([label, *("not run" if "skipped" in row else cell(row) for row in of_name)])
    return _table(lines)


def _skipped(row: Row, titles: dict[str, str]) -> str:
    return f"- Not run: {titles[row['contender']]} at b = {row['pairs']}, {row['skipped']}."


def _targets(targets: list[Row], titles: dict[str, str]) -> str:
    lines = [["Ours", "against", "b", "value", "limit", "met"]]
    for target in targets:
        what = target["measure"], titles.get(target["against"], "")
        numbers = str(target["pairs"]), _number(target["value"]), f"{target['limit']:g}"
        lines.append([*what, *numbers, "yes" if target["met"] else "**no**"])
    return _table(lines) if targets else ""


def _table(lines: list[list[str]]) -> str:
    lines.insert(1, ["---"] + ["---:"] * (len(lines[0]) - 1))
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _number(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.table", description=__doc__)
    parser.add_argument("results", nargs="?", type=Path, default=Path("results/benchmarks.json"))
    path = parser.parse_args().results
    try:
        text = path.read_text()
    except OSError as error:
        parser.error(f"cannot read {path}: {error.strerror}")
    print(markdown(json.loads(text)), end="")


if __name__ == "__main__":
    main()
