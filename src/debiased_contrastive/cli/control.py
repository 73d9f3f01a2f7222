"""The commands that train agents from pixels, judge and show them."""

import json
from pathlib import Path
from statistics import fmean

from lightning_fabric import Fabric

from debiased_contrastive.cli.compare import compare
from debiased_contrastive.cli.terminal import progress, show
from debiased_contrastive.cli.training import check_tensorboard, train_to_the_end
from debiased_contrastive.control.demo import demo_runs
from debiased_contrastive.control.film import check_film, filmed, write_film, write_strip
from debiased_contrastive.control.rollout import agent_of, task_of
from debiased_contrastive.control.run import control_settings_from, returns, trained, trained_agent
from debiased_contrastive.control.settings import ControlSettings, settled
from debiased_contrastive.files import check_can_be_written, write_atomically
from debiased_contrastive.report.page import write_report
from debiased_contrastive.runs import EVALUATION, STRIP, Run, check_is_free, existing_run, new_run
from debiased_contrastive.training.fit import device_of, fabric_of
from debiased_contrastive.training.settings import Training, as_json

STRIP_SIZE = 96
"""Side of a picture in a strip."""


def train(settings: ControlSettings, out: Path | None, *, tensorboard: bool, quiet: bool) -> None:
    """Train a new run."""
    check_tensorboard(tensorboard)
    settings = settled(settings)
    name = f"{settings.preset}-{settings.task}-{settings.objective.kind}-seed{settings.seed}"
    folder = out or Path("runs") / name
    check_is_free(folder)
    fabric = _fabric(settings)
    # What cannot be trained is told before a run directory is left behind.
    check_task(settings)
    run = new_run(folder, as_json(settings))
    _train(settings, run, fabric, tensorboard=tensorboard, quiet=quiet)


def resume(run: Run, *, tensorboard: bool, quiet: bool) -> None:
    """Continue a run."""
    check_tensorboard(tensorboard)
    settings = control_settings_from(run.settings)
    _train(settings, run, _fabric(settings), tensorboard=tensorboard, quiet=quiet)


def evaluate(folder: Path, *, quiet: bool) -> None:
    """Play the episodes of an evaluation that training has not seen, and show what they gain."""
    run = existing_run(folder)
    check_can_be_written(run.folder / EVALUATION)
    _evaluate(run, quiet=quiet)
    compare([run])


def watch(folder: Path, out: Path, size: int, episode: int) -> None:
    """Film an episode of a trained agent."""
    check_film(out, size)
    check_can_be_written(out)
    agent, settings = trained(folder)
    agent.to(device_of(settings.training.accelerator))
    film = filmed(agent, settings, size, episode)
    write_film(out, film)
    show(f"{len(film.frames)} frames of {settings.task}, return {film.gained:.0f}, in {out}")


def demo(folder: Path, seeds: int, *, quiet: bool) -> None:
    """Train an agent on a task that is soon learnt, film it, and show how it went."""
    runs = []
    for run, settings in demo_runs(folder, seeds):
        _train(settings, run, _fabric(settings), tensorboard=False, quiet=quiet)
        if not run.evaluation:
            _evaluate(run, quiet=quiet)
        runs.append(run)
    page, film = folder / "report.html", folder / "film.gif"
    watch(runs[0].folder, film, 2 * STRIP_SIZE, 0)
    write_report(runs, page, title="An agent learns from pixels, with debiased contrast between crops")
    compare(runs)
    show(f"\nopen {page} and {film}")


def check_task(settings: ControlSettings) -> None:
    """Raise unless the task is there, can be drawn and suits the networks."""
    task = task_of(settings)
    task.begin(0)
    task.frame()
    agent_of(settings, task.action_dim)


def _fabric(settings: ControlSettings) -> Fabric:
    fabric = fabric_of(Training(accelerator=settings.training.accelerator))
    if fabric.world_size > 1:
        raise ValueError(f"an agent learns in one process; got {fabric.world_size}: start it without torchrun")
    return fabric


def _train(settings: ControlSettings, run: Run, fabric: Fabric, *, tensorboard: bool, quiet: bool) -> None:
    updates = trained_agent(settings, run, fabric.device, tensorboard=tensorboard)
    what = f"{settings.task}, {settings.objective.kind}, seed {settings.seed}"
    train_to_the_end(updates, run, fabric, what, "frames", quiet=quiet)


def _evaluate(run: Run, *, quiet: bool) -> None:
    agent, settings = trained(run.folder)
    agent.to(device_of(settings.training.accelerator))
    found: list[float] = []
    with progress(f"evaluate {run.folder.name}", quiet=quiet) as bar:
        for gained in returns(agent, task_of(settings), settings, "test"):
            found.append(gained)
            bar.at(len(found), settings.training.episodes, f"return {fmean(found):.0f}")
    write_strip(run.folder / STRIP, filmed(agent, settings, STRIP_SIZE).frames)
    content = {**run.evaluation, "return": {"mean": fmean(found), "returns": found}}
    write_atomically(run.folder / EVALUATION, json.dumps(content, indent=2) + "\n")
