"""The commands that serve every domain: train, evaluate, embed, report and others."""

import io
import time
from collections.abc import Generator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from lightning_fabric import Fabric

from debiased_contrastive.cli import commands
from debiased_contrastive.cli.terminal import catch_interrupts, progress, say, show, table
from debiased_contrastive.domain import Domain, Metric, find_domain
from debiased_contrastive.files import check_can_be_written, write_atomically
from debiased_contrastive.report.groups import Row, has_unbiased, result_metrics, rows
from debiased_contrastive.report.numbers import GLUE, plus_minus
from debiased_contrastive.report.page import write_report
from debiased_contrastive.report.words import results_heading, summarise
from debiased_contrastive.runs import EVALUATION, SETTINGS, Run, check_is_free, existing_run, new_run, open_run
from debiased_contrastive.training.loggers import LogName, check_loggers
from debiased_contrastive.training.loop import Update
from debiased_contrastive.training.machine import keep_freed_memory, start_fabric
from debiased_contrastive.training.settings import as_json


def demo(command: commands.Demo, domains: Sequence[Domain]) -> None:
    """Train, evaluate and compare the settings of a domain's demonstration."""
    domain = find_domain(domains, command.domain)
    if domain.demo is None:
        raise ValueError(f"there is no demonstration of {domain.name}")
    plan, work = domain.demo(), domain.load()
    folder = command.out or Path("runs") / ("demo" if domain is domains[0] else f"demo-{domain.name}")
    runs = []
    for seed in range(command.seeds or plan.seeds):
        for name, base in plan.settings(folder).items():
            settings = replace(base, seed=seed)
            place = folder / f"{name}-seed{seed}"
            run, fabric = open_run(place, as_json(settings), domain.name), _start(settings)
            data = work.open_data(settings, fabric, None, partial(progress, quiet=command.quiet))
            updates = work.train(settings, run, fabric, data)
            follow(updates, domain, settings, run, fabric, quiet=command.quiet, evaluates_next=True)
            if plan.result not in run.evaluation:
                with progress(f"evaluate {run.folder.name}", quiet=command.quiet) as bar:
                    plan.evaluate(run, bar)
            runs.append(run)
    page = folder / "report.html"
    more = plan.finish(folder, runs)
    main = plan.columns[0] if plan.columns else None
    write_report(runs, page, title=plan.title, domains=domains, main=main, meaning=plan.meaning)
    compare(runs, domains, plan.columns)
    show(f"\nopen {' and '.join(map(str, (page, *more)))}")


def train(command: commands.TrainPreset, domains: Sequence[Domain]) -> None:
    one: Any = command
    domain = next(domain for domain in domains if one.settings.preset in domain.presets)
    flags = getattr(one, "flags", None)
    log = _find_loggers(command)
    settings = domain.settle(one.settings, flags)
    folder = command.out or Path("runs") / domain.name_run(settings)
    check_is_free(folder)
    work, fabric = domain.load(), _start(settings)
    # Settings that cannot be trained are refused before a run directory is left behind.
    data = work.open_data(settings, fabric, flags, partial(progress, quiet=command.quiet))
    if fabric.is_global_zero:
        new_run(folder, as_json(settings), domain.name)
    fabric.barrier()
    run = existing_run(folder)
    updates = work.train(settings, run, fabric, data, log=log)
    follow(updates, domain, settings, run, fabric, quiet=command.quiet)


def resume(command: commands.Resume, domains: Sequence[Domain]) -> None:
    run, domain = _find(command.run, domains)
    log = _find_loggers(command)
    settings = domain.read_settings(run.settings)
    if command.data_root is not None:
        if domain.move is None:
            raise ValueError(f"{command.run} is a run on {domain.name}: it has no data, so leave --data-root out")
        settings = domain.move(settings, command.data_root)
    if run.is_finished:
        say(f"{run.folder} is finished")
        return
    work, fabric = domain.load(), _start(settings)
    data = work.open_data(settings, fabric, None, partial(progress, quiet=command.quiet))
    updates = work.train(settings, run, fabric, data, log=log)
    follow(updates, domain, settings, run, fabric, quiet=command.quiet)


def follow(
    updates: Generator[Update, None, None],
    domain: Domain,
    settings: Any,
    run: Run,
    fabric: Fabric,
    *,
    quiet: bool,
    evaluates_next: bool = False,
) -> None:
    """Train with a progress bar; Ctrl-C ends it between two steps, and nothing is lost.

    At the end it says how to evaluate the run, unless the caller `evaluates_next` by itself.
    """
    if run.is_finished:
        say(f"{run.folder} is finished")
        return
    stopped = False
    words = (getattr(settings, "task", ""), settings.objective.kind, f"seed {settings.seed}")
    title = ", ".join(filter(None, words))
    # Several processes would have to agree where to stop; there, the last checkpoint stands.
    with (
        catch_interrupts(fabric.world_size == 1) as stop,
        progress(title, quiet=quiet or not fabric.is_global_zero) as bar,
    ):
        samples, start = 0, time.perf_counter()
        for update in updates:
            samples += update.samples
            if fabric.is_global_zero:
                speed = f"{samples / (time.perf_counter() - start):,.0f} {domain.unit}/s"
                bar.at(update.step, update.steps, ", ".join(filter(None, (speed, update.note()))))
            if stop.asked and update.step < update.steps:
                # Between two steps: closing writes a checkpoint.
                updates.close()
                stopped = True
                break
    if stopped:
        say(f"stopped at step {update.step}; go on with: debiased resume {run.folder}")
        raise KeyboardInterrupt
    if fabric.is_global_zero and not evaluates_next:
        say(f"trained; next: debiased evaluate {run.folder}")


def evaluate(command: commands.Evaluate, domains: Sequence[Domain]) -> None:
    run, domain = _find(command.run, domains)
    values = {name: getattr(command, name) for name in ("tasks", "task_data", "official", "data_root", "test_root")}
    given = {name: value for name, value in values.items() if value}
    if foreign := [_flag(name) for name in given if name not in domain.evaluate_flags]:
        known = ", ".join(_flag(name) for name in values if name in domain.evaluate_flags)
        raise ValueError(
            f"{command.run} is a run on {domain.name}: evaluate takes {known or 'no such flag'} there; "
            f"got {', '.join(foreign)}: leave it out"
        )
    check_can_be_written(run.folder / EVALUATION)
    work = domain.load()
    with progress(f"evaluate {run.folder.name}", quiet=command.quiet) as bar:
        work.evaluate(run, bar, **given)
    compare([run], domains)


def watch(command: commands.Watch, domains: Sequence[Domain]) -> None:
    _, domain = _find(command.run, domains)
    work = domain.load()
    if work.watch is None:
        raise ValueError(f"{command.run} is a run on {domain.name}: only a run on control has an agent to watch")
    check_can_be_written(command.out)
    show(work.watch(command.run, command.out, command.size, command.episode))


def embed(command: commands.Embed, domains: Sequence[Domain]) -> None:
    """Write the features of images or sentences, by the encoder of a run."""
    _, domain = _find(command.run, domains)
    source: Path | None = getattr(command, domain.embeds) if domain.embeds else None
    if domain.embeds is None:
        raise ValueError(
            f"{command.run} is a run on {domain.name}: there are features of images and sentences alone"
        )
    if source is None:
        raise ValueError(f"{command.run} is a run on {domain.name}: give {_flag(domain.embeds)} and what to embed")
    if command.out.suffix not in (".npy", ".npz"):
        raise ValueError(f"--out must end in .npy or .npz; got {command.out}: .npz holds names and labels too")
    check_can_be_written(command.out)
    work = domain.load()
    assert work.embed is not None
    arrays = work.embed(command.run, source, partial(progress, quiet=command.quiet))
    features = arrays["features"]
    # Sound weights can still overflow on what they never saw.
    if not np.isfinite(features).all():
        row = int(np.flatnonzero(~np.isfinite(features).all(1))[0])
        raise ValueError(f"features must be finite; row {row} of {source} is not: nothing was written")
    buffer = io.BytesIO()
    if command.out.suffix == ".npy":
        np.save(buffer, features)
    else:
        np.savez(buffer, **arrays)
    command.out.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(command.out, buffer.getvalue())
    show(f"{len(features)} rows of {features.shape[1]} features in {command.out}")


def report(command: commands.Report, domains: Sequence[Domain]) -> None:
    check_can_be_written(command.out)
    runs: list[Run] = []
    for folder in command.runs:
        below = sorted(path.parent for path in folder.rglob(SETTINGS))
        if not below:
            raise FileNotFoundError(f"{folder} is no run and holds none: expected settings.json in it or below it")
        runs += map(existing_run, below)
    write_report(runs, command.out, title=command.title, domains=domains)
    compare(runs, domains)
    show(f"\nopen {command.out}")


def compare(runs: Sequence[Run], domains: Sequence[Domain], columns: Sequence[Metric] = ()) -> None:
    """Show the report's table of results in the terminal, or these columns of it, and its first sentence."""
    groups = rows(runs, domains, columns[0] if columns else None)
    metrics = list(columns) or result_metrics(groups, domains)
    gap = ["gap closed"] if has_unbiased(groups) else []
    header = ["objective", *(metric.heading for metric in metrics), *gap, "seeds"]
    lines = []
    for row in groups:
        numbers = [_format_number(row, metric) for metric in metrics]
        closed = "-" if row.gap_closed is None else f"{100 * row.gap_closed:.0f} %"
        lines.append([row.label, *numbers, *([closed] if gap else []), str(row.seeds)])
    table(results_heading(metrics)[1] if metrics else "Not evaluated", header, lines)
    show(f"\n{summarise(groups).headline}".replace(GLUE, " "))


def _format_number(row: Row, metric: Metric) -> str:
    measure = row.measures.get(metric.key)
    return "-" if measure is None else plus_minus(measure, metric.scale, metric.decimals)


def data(command: commands.Data, _domains: Sequence[Domain]) -> None:
    from debiased_contrastive.images.datasets import link_subset, read_class_list

    out = command.out or Path(command.classes.stem)
    counts = link_subset(command.source, read_class_list(command.classes), out)
    show(", ".join(f"{count} classes in {out / part}" for part, count in counts.items()))


def presets(_command: commands.Presets, domains: Sequence[Domain]) -> None:
    from debiased_contrastive.images.networks import OPERATIONS_PER_SECOND

    lines = [
        [name, preset.what, *domain.cost(preset.settings)]
        for domain in domains
        for name, preset in domain.presets.items()
    ]
    table("Presets", ["name", "what", "samples", "epochs", "operations", "on a GPU"], lines)
    show(
        "operations: encoder, forward and backward; on a GPU: at "
        f"{OPERATIONS_PER_SECOND / 1e12:.0f} TFLOP/s sustained. "
        "debiased train NAME --help lists what can be changed."
    )


def _find(folder: Path, domains: Sequence[Domain]) -> tuple[Run, Domain]:
    run = existing_run(folder)
    return run, find_domain(domains, run.domain)


def _start(settings: Any) -> Fabric:
    keep_freed_memory()
    return start_fabric(settings.training.accelerator, settings.training.precision)


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _find_loggers(command: commands.TrainPreset | commands.Resume) -> tuple[LogName, ...]:
    names = (*command.log, "tensorboard") if command.tensorboard else command.log
    check_loggers(names)
    return names
