"""CURL with any of the objectives (Section 5.3): a run directory in, a trained agent out, and what it gains."""

import json
from collections.abc import Generator, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

from lightning_fabric import Fabric

from debiased_contrastive.control.agent import Agent
from debiased_contrastive.control.film import check_film, film_episode, write_film, write_strip
from debiased_contrastive.control.replay import remove_replay
from debiased_contrastive.control.rollout import Rollout, make_agent, make_task, play_episodes
from debiased_contrastive.control.settings import CONTROL_PRESETS, ControlSettings, with_task_defaults
from debiased_contrastive.domain import Bar, Demo, Progress
from debiased_contrastive.files import write_atomically
from debiased_contrastive.runs import EVALUATION, STRIP, Run, finished_run
from debiased_contrastive.training.loggers import LogName
from debiased_contrastive.training.loop import Identity, Update, fit
from debiased_contrastive.training.machine import choose_device
from debiased_contrastive.training.settings import as_json, from_json
from debiased_contrastive.training.weights import load_trained, save_encoder

STRIP_SIZE = 96
"""Side of a picture in a strip."""


def check_task(settings: ControlSettings, fabric: Fabric, _flags: Any, _progress: Progress) -> None:
    """Raise unless the task is there, can be drawn and suits the networks, and there is one process."""
    if fabric.world_size > 1:
        raise ValueError(f"an agent learns in one process; got {fabric.world_size}: start it without torchrun")
    task = make_task(settings)
    task.begin(0)
    task.frame()
    make_agent(settings, task.action_dim)


def train(
    settings: ControlSettings, run: Run, fabric: Fabric, _data: None = None, *, log: Sequence[LogName] = ()
) -> Generator[Update, None, None]:
    """Train to the end of the run, as `fit` does; the agent is written at the end."""
    if not run.is_finished:
        rollout = Rollout(settings, fabric.device)
        rollout.evaluated = _last_return(run)
        yield from fit(rollout, run, fabric, Identity(as_json(settings)), log=log)
        save_encoder(run.folder, rollout.module, as_json(settings))
    remove_replay(run.folder)


def _last_return(run: Run) -> float | None:
    found = [line["return"] for line in run.metrics() if isinstance(line.get("return"), int | float)]
    return found[-1] if found else None


def evaluate(run: Run, bar: Bar | None = None) -> None:
    """Play episodes that training has not seen; write their returns and a strip of pictures."""
    agent, settings = load_agent(run.folder)
    agent.to(choose_device(settings.training.accelerator))
    returns: list[float] = []
    for episode_return in play_episodes(agent, make_task(settings), settings, "test"):
        returns.append(episode_return)
        if bar is not None:
            bar.at(len(returns), settings.training.episodes, f"return {fmean(returns):.0f}")
    write_strip(run.folder / STRIP, film_episode(agent, settings, STRIP_SIZE).frames)
    content = {**run.evaluation, "return": {"mean": fmean(returns), "returns": returns}}
    write_atomically(run.folder / EVALUATION, json.dumps(content, indent=2) + "\n")


def load_agent(folder: Path) -> tuple[Agent, ControlSettings]:
    run = finished_run(folder)
    settings = from_json(ControlSettings, run.settings)
    agent = make_agent(settings, make_task(settings).action_dim)
    load_trained(run, agent)
    return agent, settings


def watch(folder: Path, out: Path, size: int, episode: int) -> str:
    """Film an episode of a trained agent, and say what the film shows."""
    check_film(out, size)
    agent, settings = load_agent(folder)
    agent.to(choose_device(settings.training.accelerator))
    film = film_episode(agent, settings, size, episode)
    write_film(out, film)
    return f"{len(film.frames)} frames of {settings.task}, return {film.episode_return:.0f}, in {out}"


def demo_settings(_folder: Path) -> dict[str, ControlSettings]:
    """The settings of a task in which the pole stands at the start, which is learnt within minutes."""
    preset = CONTROL_PRESETS["curl"].settings
    training = replace(preset.training, frames=32_000, random_steps=500, evaluate_every=500, episodes=3)
    settings = with_task_defaults(replace(preset, task="cartpole-balance", training=training))
    return {settings.objective.kind: settings}


def _film_first_run(folder: Path, runs: list[Run]) -> list[Path]:
    film = folder / "film.gif"
    watch(runs[0].folder, film, 2 * STRIP_SIZE, 0)
    return [film]


DEMO = Demo(
    title="An agent learns from pixels, with debiased contrast between crops",
    seeds=1,
    settings=demo_settings,
    result="return",
    evaluate=evaluate,
    finish=_film_first_run,
    meaning=(
        "The agent sees a cart with a pole through a camera and moves the cart, so that the pole stays up. Each "
        "step that it stays up counts one, 1,000 at most in an episode. A contrastive loss trains its eyes: it "
        "pulls crops of one moment together and pushes other moments away, also those that look alike, for which "
        "the debiased loss corrects. What sampling bias costs only a biased run beside this one could tell."
    ),
)
