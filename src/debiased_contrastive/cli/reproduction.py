"""`debiased reproduce`: list what there is, run what is missing, and show it beside the paper's numbers."""

import os
import sys
from typing import get_args

from debiased_contrastive.cli.commands import Reproduce
from debiased_contrastive.cli.terminal import Board, catch_interrupts, say, show, table
from debiased_contrastive.report.numbers import count
from debiased_contrastive.reproduce.item import Item, Request, ScaleName
from debiased_contrastive.reproduce.names import NAMES, load_item
from debiased_contrastive.reproduce.runner import Job, choose_rows, fill, missing_jobs


def reproduce(command: Reproduce) -> None:
    """Run what is missing of an item and show it; runs that failed are named, and the exit code is 1."""
    if command.item is None:
        _list_all(command)
        return
    item = load_item(command.item)
    folder, scale = item.folder(command.out, command.scale), item.scales[command.scale]
    request = _request(command, item, command.scale)
    jobs = choose_rows(item.jobs(request), command.rows or None)
    if command.first_step:
        _time_first_steps(jobs)
        return
    failures: list[str] = []
    if not command.show:
        missing = missing_jobs(jobs, folder)
        if missing:
            item.check(request)
            missing[0].check_data()
            say(f"{item.name}, {scale.what}: {len(missing)} of {count(len(jobs), 'run')} to do; {scale.cost}")
        with catch_interrupts() as stop, Board(len(missing), stop, quiet=command.quiet) as watch:
            workers, runs = command.workers or os.cpu_count() or 1, command.runs / folder.relative_to(command.out)
            failures = fill(jobs, folder, runs, workers=workers, cluster=command.cluster or "", watch=watch)
    text = item.show(folder)
    if not text:
        raise ValueError(f"{folder} holds no results yet: leave out --show to run {item.name}")
    show(text.rstrip("\n"))
    show(f"results, table and figures in {folder}")
    if failures:
        say(f"debiased: {count(len(failures), 'run')} failed: {'; '.join(failures)}")
        sys.exit(1)


def _request(command: Reproduce, item: Item, scale: ScaleName) -> Request:
    return Request(
        scale,
        command.seeds or item.scales[scale].seeds,
        command.epochs,
        command.data,
        command.task_data,
        command.task,
        command.frames,
    )


def _list_all(command: Reproduce) -> None:
    lines = []
    for name in NAMES:
        item = load_item(name)
        for scale in get_args(ScaleName):
            known, folder = item.scales[scale], item.folder(command.out, scale)
            jobs = list(item.jobs(_request(command, item, scale)))
            done = sum((folder / f"{job.name}.json").is_file() for job in jobs)
            first = scale == get_args(ScaleName)[0]
            what = f"{known.what}; needs {known.data}" if known.data else known.what
            lines.append([name if first else "", scale, what, known.cost, f"{done} of {len(jobs)}"])
        lines[-3][2] = f"{item.title}. {lines[-3][2]}"
    table("Figures, tables and questions", ["name", "scale", "what", "a run takes", "results"], lines)
    show(f"debiased reproduce NAME --scale small runs what is missing in {command.out} and shows it.")


def _time_first_steps(jobs: list[Job]) -> None:
    """One step of each row, so that a cost is known before it is spent."""
    for job in jobs:
        if job.domain and job.settings.seed == 0:
            seconds, steps = job.time_first_step()
            whole = seconds * steps / 3600
            show(f"{job.name}: first step {seconds:.1f} s, {steps:,} steps, so about {whole:,.1f} h here")
