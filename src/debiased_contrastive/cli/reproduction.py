"""`debiased reproduce`: list what there is, run what is missing, and show it beside the paper's numbers."""

import os
import shutil
import sys
import textwrap
from dataclasses import replace
from pathlib import Path
from typing import get_args

from debiased_contrastive.cli.commands import Reproduce
from debiased_contrastive.cli.terminal import Board, catch_interrupts, say, show
from debiased_contrastive.report.numbers import count, fit_width
from debiased_contrastive.reproduce.item import Item, Request, Scale, ScaleName
from debiased_contrastive.reproduce.names import NAMES, load_item
from debiased_contrastive.reproduce.results import count_seeds
from debiased_contrastive.reproduce.runner import Job, choose_rows, fill, missing_jobs, row_name

_OTHERS = set(NAMES) - {"table3"}
_FLAGS = {"epochs": _OTHERS, "data": _OTHERS, "task_data": {"table2"}, "task": {"table3"}, "frames": {"table3"}}
"""Which items have these flags; the others have all items."""


def reproduce(command: Reproduce) -> None:
    """Run what is missing of an item and show it; runs that failed are named, and the exit code is 1."""
    if command.item is None:
        _list_all(command)
        return
    _refuse_idle_flags(command)
    item = load_item(command.item)
    folder, scale = item.folder(command.out, command.scale), item.scales[command.scale]
    if command.data is not None and not scale.data:
        raise ValueError(f"leave out --data: --scale {command.scale} takes what is in the package")
    request = _request(command, command.scale, scale)
    jobs = choose_rows(item.jobs(request), command.rows or None)
    if command.first_step:
        _check_data(item, scale, request, jobs[0])
        _time_first_steps(jobs, command.rows)
        return
    changed = [f"--{name} {value}" for name in ("epochs", "frames") if (value := getattr(command, name))]
    what = ", but with ".join([scale.what, *changed])
    # What is shown holds all rows and seeds that are there, not only those that were asked for now.
    missing_jobs(item.jobs(replace(request, seeds=max(request.seeds, count_seeds(folder)))), folder)
    missing, failures = missing_jobs(jobs, folder), list[str]()
    if missing and not command.show:
        _check_data(item, scale, request, missing[0])
        say(f"{item.name}, {what}: {len(missing)} of {count(len(jobs), 'run')} to do; a run takes {scale.cost}")
        failures = _run(command, missing, folder)
    # A folder of results may hold other tasks than the one of this command.
    part, parts = (folder / jobs[0].name).parent, item.parts(folder)
    if part in parts:
        _show(item, part, command.scale, what)
        if others := [other.name for other in parts if other != part]:
            show(f"results of {', '.join(others)} are there, too: --task shows them")
    elif not failures:
        raise ValueError(f"{part} holds no results yet: leave out --show to run {item.name}")
    if failures:
        say(f"debiased: {count(len(failures), 'run')} failed: {'; '.join(failures)}")
        sys.exit(1)


def _run(command: Reproduce, missing: list[Job], folder: Path) -> list[str]:
    """Make results in a folder, and return a line for each that failed."""
    workers, runs = command.workers or os.cpu_count() or 1, command.runs / folder.relative_to(command.out)
    try:
        with catch_interrupts() as stop, Board(len(missing), stop, quiet=command.quiet) as watch:
            return fill(missing, folder, runs, workers=workers, cluster=command.cluster or "", watch=watch)
    except KeyboardInterrupt:
        say(f"{command.item} is not done: the same command goes on from the last checkpoints in {runs}")
        raise


def _show(item: Item, part: Path, scale: ScaleName, what: str) -> None:
    """Show the results in a folder first, which needs no more than to read them; then write that beside them."""
    text = item.text(part, scale, what)
    show(fit_width(text, _width()))
    item.write(part, text)
    show(f"files are in {part}")


def _width() -> int:
    """The number of columns of the terminal; what another program reads, or a file, has whole lines."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else sys.maxsize


def _refuse_idle_flags(command: Reproduce) -> None:
    for name, items in _FLAGS.items():
        if getattr(command, name) is not None and command.item not in items:
            others = f"{command.item} has no such thing" if items == _OTHERS else f"it is for {', '.join(items)}"
            raise ValueError(f"leave out --{name.replace('_', '-')}: {others}")


def _request(command: Reproduce, scale_name: ScaleName, scale: Scale) -> Request:
    return Request(
        scale_name,
        command.seeds or scale.seeds,
        command.epochs,
        command.data,
        command.task_data,
        command.task,
        command.frames,
    )


def _check_data(item: Item, scale: Scale, request: Request, job: Job) -> None:
    """Raise in one line, before hours of work, where something is missing that a run needs."""
    from debiased_contrastive.images.sources import VARIABLE

    item.check(request)
    if scale.data and request.data is None and not os.environ.get(VARIABLE):
        raise ValueError(
            f"{item.name} at --scale {request.scale} needs {scale.data}: pass --data DIR or set {VARIABLE}; "
            "--scale smoke needs nothing"
        )
    job.check_data()


def _list_all(command: Reproduce) -> None:
    width = _width()
    for name in NAMES:
        item = load_item(name)
        show(f"{name:<15}  {item.title}")
        for scale in get_args(ScaleName):
            known, folder = item.scales[scale], item.folder(command.out, scale)
            jobs = list(item.jobs(_request(command, scale, known)))
            done = sum((folder / f"{job.name}.json").is_file() for job in jobs)
            needs = f" (needs {known.data})" if known.data else ""
            line = (
                f"    {scale}  {f'{done} of {len(jobs)} done':<15}  {known.what}{needs}; a run takes {known.cost}"
            )
            show("\n".join(textwrap.wrap(line, width, subsequent_indent=" " * 28)))
    show(f"\ndebiased reproduce NAME --scale small runs what is missing in {command.out} and shows it.")


def _time_first_steps(jobs: list[Job], rows: tuple[str, ...]) -> None:
    """One step, so that a cost is known before it is spent: of the first row, or of each row that was asked for."""
    timed = [job for job in jobs if job.domain and job.settings.seed == 0]
    for job in timed if rows else timed[:1]:
        seconds, steps = job.time_first_step()
        whole = _duration(seconds * steps)
        show(f"{job.name}: first step {seconds:.1f} s, {steps:,} steps, so about {whole} here")
    if len(timed) > 1 and not rows:
        others = ", ".join(row_name(job) for job in timed[1:])
        show(f"other rows by --rows: {others}")


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 3600 else f"{seconds / 3600:,.1f} h"
