"""A study as a command: run what is missing, or print the tables of the results that are there."""

import argparse
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from debiased_contrastive.files import write_atomically
from debiased_contrastive.reproduce.runner import Job, choose_rows, fill

Item = TypeVar("Item")


@dataclass(frozen=True)
class Study:
    """Jobs and the tables of their results: a question of our own."""

    jobs: Callable[[argparse.Namespace], Iterable[Job]]
    tables: Sequence[Callable[[Path], str]]
    """From a folder of results to Markdown, empty where there is nothing to show."""
    plot: Callable[[Path], Mapping[str, str]] = lambda _folder: {}
    """From a folder of results to plots by their names."""
    flags: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Further flags, as argparse takes them."""
    seeds: int = 0
    """Number of seeds if none is given; 0 for a study without seeds."""


def main(module: str, words: Sequence[str] | None = None) -> None:
    """Run what is missing of the study of a module, or print its tables; bad input is one line and exit code 2."""
    name, loaded = module.rpartition(".")[2], import_module(module)
    study: Study = loaded.STUDY
    first = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    first.add_argument(
        "--tables", type=Path, metavar="DIR", help="Only print the tables of the results in this folder."
    )
    parser = argparse.ArgumentParser(
        name, description=loaded.__doc__, parents=[first], formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="The folder of the results.")
    parser.add_argument("--runs", type=Path, default=Path("build") / name, help="The folder of the trainings.")
    parser.add_argument("--rows", nargs="+", metavar="NAME", help="Run only these rows.")
    parser.add_argument(
        "--share", default="0/1", metavar="K/N", help="Run every N-th job from the K-th on; K counts from 0."
    )
    parser.add_argument("--workers", type=int, default=1, help="Number of processes, of one thread each.")
    if study.seeds:
        parser.add_argument("--seeds", type=int, default=study.seeds, help="Number of seeds.")
    for flag, options in study.flags.items():
        parser.add_argument(f"--{flag}", **options)
    try:
        # Tables need none of the flags that jobs require.
        if folder := first.parse_known_args(words)[0].tables:
            print("\n".join(filter(None, (table(folder) for table in study.tables))), end="")
            for what, picture in study.plot(folder).items():
                write_atomically(folder / f"{what}.svg", picture)
            return
        arguments = parser.parse_args(words)
        jobs = take_share(choose_rows(study.jobs(arguments), arguments.rows), arguments.share)
        if fill(jobs, arguments.out, arguments.runs, workers=arguments.workers):
            sys.exit(1)
    except (ValueError, OSError) as error:
        parser.exit(2, f"{name}: {error}\n")


def take_share(items: Iterable[Item], share: str) -> list[Item]:
    """The items of one process among several: for `1/3` the second, the fifth and so on.

    >>> take_share("abcd", "1/3")
    ['b']
    """
    match = re.fullmatch(r"(\d+)/(\d+)", share)
    if match is None or int(match[1]) >= int(match[2]):
        raise ValueError(f"--share must be K/N with K from 0 to N - 1; got {share}")
    return list(items)[int(match[1]) :: int(match[2])]
