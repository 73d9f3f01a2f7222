"""The results as Markdown, for docs/benchmarks.md."""

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

from debiased_contrastive.report.numbers import markdown_table

Row: TypeAlias = dict[str, Any]
Columns: TypeAlias = dict[str, Callable[[Row], str]]


def markdown(results: dict[str, Any]) -> str:
    """Of one file of results/; the same file gives the same text."""
    parts = _KINDS[results["settings"].get("benchmark", "losses")](results)
    return "\n\n".join(part for part in parts if part) + "\n"


def _losses(results: dict[str, Any]) -> list[str]:
    rows = {(row["contender"], row["pairs"]): row for row in results["rows"]}
    settings, titles = results["settings"], results["settings"]["contenders"]

    def time(row: Row) -> str:
        ratio = row["seconds"] / rows["ours", row["pairs"]]["seconds"]
        return f"{_number(1e3 * row['seconds'])} ({_number(ratio)}x)"

    text = (
        f"Two views of b inputs, {settings['features']} features, {settings['dtype']}, "
        f"t = {settings['temperature']}, tau_plus = {settings['tau_plus']}."
    )
    return [
        _conditions(results["environment"], text),
        _by_size("Forward and backward, ms (ratio to ours)", rows, titles, time),
        _by_size("Extra memory, MiB", rows, titles, lambda row: _number(row["extra_mib"])),
        "\n".join(_skipped(row, titles) for row in results["rows"] if "skipped" in row),
        _targets(results, {"pairs": "b"}),
    ]


def _views(results: dict[str, Any]) -> list[str]:
    settings = results["settings"]
    text = (
        f"Batches of {settings['batch']} uint8 images of {settings['size']} x {settings['size']} pixels to "
        f"{settings['views']} views, float32."
    )
    return _speeds(results, text, "views/s", "views_per_second", "ms a batch")


def _training(results: dict[str, Any]) -> list[str]:
    settings = results["settings"]
    text = (
        f"{settings['images']} images of {settings['size']} x {settings['size']} pixels, batches of "
        f"{settings['batch']}, small encoder, Adam."
    )
    return _speeds(results, text, "images/s", "images_per_second", "ms an epoch")


def _cached(results: dict[str, Any]) -> list[str]:
    settings = results["settings"]
    text = (
        f"Two views of {settings['batch']} images of {settings['size']} x {settings['size']} pixels, ResNet-18, "
        "float32; forward and backward."
    )
    columns: Columns = {
        "images/s": lambda row: _number(row["images_per_second"]),
        "s": lambda row: _number(row["seconds"]),
        "peak memory, MiB": lambda row: _number(row["peak_mib"]),
    }
    return [_conditions(results["environment"], text), _by_contender(results, columns), _targets(results, {})]


def _speeds(results: dict[str, Any], text: str, title: str, field: str, step: str) -> list[str]:
    ours = next(row for row in results["rows"] if row["contender"] == "ours")
    columns: Columns = {
        title: lambda row: _number(row[field]),
        "of ours": lambda row: _number(row[field] / ours[field]),
        step: lambda row: _number(1e3 * row["seconds"]),
        "rounds": lambda row: str(row["rounds"]),
    }
    return [_conditions(results["environment"], text), _by_contender(results, columns), _targets(results, {})]


def _probe(results: dict[str, Any]) -> list[str]:
    settings = results["settings"]
    text = (
        f"{settings['samples']} samples of {settings['features']} features, {settings['classes']} classes, "
        f"{settings['dtype']}; each with the number of threads that is faster."
    )
    columns: Columns = {
        "C": lambda row: f"{row['C']:g}",
        "s": lambda row: _number(row["seconds"]),
        "accuracy, %": lambda row: f"{100 * row['accuracy']:.2f}",
        "objective": lambda row: f"{row['objective']:.3f}" if "objective" in row else "",
        "threads": lambda row: str(row["threads"]),
    }
    parts = _conditions(results["environment"], text), _by_contender(results, columns)
    return [*parts, _targets(results, {"C": "C"})]


def _conditions(environment: dict[str, Any], text: str) -> str:
    versions = ", ".join(f"{name} {number}" for name, number in environment["versions"].items())
    threads = f"{environment['threads']} thread{'' if environment['threads'] == 1 else 's'}"
    return f"{environment['cpu']}, {threads}; {versions}. {text}"


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


def _by_contender(results: dict[str, Any], columns: Columns) -> str:
    titles = results["settings"]["contenders"]
    lines = [["", *columns]]
    lines += [[titles[row["contender"]], *(cell(row) for cell in columns.values())] for row in results["rows"]]
    return _table(lines)


def _targets(results: dict[str, Any], places: dict[str, str]) -> str:
    """places: the fields that say which rows a target is about, with their headings."""
    lines = [["Ours", "against", *places.values(), "value", "limit", "met"]]
    for target in results["targets"]:
        what = target["measure"], results["settings"]["contenders"].get(target["against"], "")
        where = (f"{target[name]:g}" for name in places)
        limit = f"{'at least ' if target.get('at_least') else ''}{target['limit']:g}"
        lines.append([*what, *where, _number(target["value"]), limit, "yes" if target["met"] else "**no**"])
    return _table(lines) if results["targets"] else ""


def _table(lines: list[list[str]]) -> str:
    return markdown_table(lines[0], lines[1:]).rstrip("\n")


def _number(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


_KINDS: dict[str, Callable[[dict[str, Any]], list[str]]] = {
    "losses": _losses,
    "views": _views,
    "probe": _probe,
    "training": _training,
    "cached": _cached,
}


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
