"""CURL with any of the objectives (Section 5.3): a run directory in, a trained agent out, and what it gains."""

import sys
import time
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import torch

from debiased_contrastive.control.agent import Agent
from debiased_contrastive.control.replay_files import remove_replay
from debiased_contrastive.control.rollout import Rollout, agent_of, centre, seen, task_of
from debiased_contrastive.control.settings import Camera, ControlSettings
from debiased_contrastive.control.task import PixelTask
from debiased_contrastive.numerics import seed_of
from debiased_contrastive.runs import Run
from debiased_contrastive.training.checkpoint import save_checkpoint
from debiased_contrastive.training.fit import (
    Identity,
    load_trained,
    newest_state,
    putting_back,
    remove_refused,
    trained_run,
)
from debiased_contrastive.training.log import Board
from debiased_contrastive.training.settings import as_json, made_from
from debiased_contrastive.training.state import check_finite
from debiased_contrastive.training.weights import save_encoder


@dataclass(frozen=True)
class Stride:
    """Where a training stands."""

    step: int
    steps: int
    """How many there will be."""
    samples: int
    """Frames of the simulation in a step."""
    gained: float | None
    """The return of the last evaluation, None before the first."""

    @property
    def said(self) -> str:
        """For a bar."""
        return "" if self.gained is None else f"return {self.gained:.0f}"


def trained_agent(
    settings: ControlSettings, run: Run, device: torch.device, *, tensorboard: bool = False
) -> Generator[Stride, None, None]:
    """Train from the newest checkpoint, or from the start; yields after every step.

    Whoever stops between two steps loses nothing: closing the generator writes a checkpoint.
    """
    if run.is_finished:
        remove_replay(run.folder)
        return
    with run.hold(_tell):
        yield from _trained_agent(Rollout(settings, device), run, tensorboard=tensorboard)


def _trained_agent(rollout: Rollout, run: Run, *, tensorboard: bool) -> Generator[Stride, None, None]:
    settings, training = rollout.settings, rollout.settings.training
    _restore(run, rollout)
    judge = task_of(settings)
    journal = Journal(run, rollout, Board(run.folder, rollout.step) if tensorboard else None)
    gained = _last_return(run)
    try:
        while rollout.step < rollout.steps:
            rollout.forward()
            step, is_last = rollout.step, rollout.step == rollout.steps
            start, found = time.perf_counter(), None
            if step % training.evaluate_every == 0 or is_last:
                found = list(returns(rollout.agent, judge, settings, "evaluation"))
                gained = fmean(found)
            journal.after(found, time.perf_counter() - start)
            if step % (training.checkpoint_every or training.evaluate_every) == 0 or is_last:
                _save(run, rollout)
            yield Stride(step, rollout.steps, rollout.task.repeat, gained)
    except GeneratorExit:
        _save(run, rollout)
        raise
    save_encoder(run.folder, rollout.agent, as_json(settings))
    # It is for what is learnt later, and gigabytes.
    remove_replay(run.folder)


def _save(run: Run, rollout: Rollout) -> None:
    check_finite(rollout.agent.state_dict(), f"at step {rollout.step}")
    save_checkpoint(run.folder, rollout.step, {**rollout.save(run.folder), **asdict(_identity(rollout))})


def _identity(rollout: Rollout) -> Identity:
    return Identity(as_json(rollout.settings))


def _restore(run: Run, rollout: Rollout) -> None:
    state, refused = newest_state(run, rollout.agent, _identity(rollout), rollout.steps, _tell)
    if state is None:
        # Of a crash before the first checkpoint.
        remove_replay(run.folder)
    else:
        with putting_back(run):
            rollout.restore(run.folder, state)
    run.forget_after(rollout.step)
    remove_refused(refused)


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


class Journal:
    """Lines of metrics of an agent, with the time between them."""

    def __init__(self, run: Run, rollout: Rollout, board: Board | None) -> None:
        self.run, self.rollout, self.board = run, rollout, board
        self._begin()

    def _begin(self) -> None:
        self.step, self.frames = self.rollout.step, self.rollout.frames
        self.rollout.seconds.clear()
        self.time = time.perf_counter()

    def after(self, returns: Sequence[float] | None, judging: float) -> None:
        """Log if it is time to, or if there are returns, found in so many seconds, to be told."""
        rollout = self.rollout
        self.time += judging
        if rollout.step % rollout.settings.training.log_every and returns is None:
            return
        passed = time.perf_counter() - self.time
        values: dict[str, Any] = {
            "frames": rollout.frames,
            "episode": rollout.episode,
            "training_return": rollout.last_return,
            **rollout.means(),
            "steps_per_second": (rollout.step - self.step) / passed,
            "frames_per_second": (rollout.frames - self.frames) / passed,
            "seconds": {part: round(value, 4) for part, value in (*rollout.seconds.items(), ("whole", passed))},
        }
        if returns is not None:
            values |= {"return": fmean(returns), "returns": list(returns)}
        self.run.log(rollout.step, values)
        if self.board is not None:
            self.board.write(rollout.step, values)
        self._begin()


def _last_return(run: Run) -> float | None:
    found = [line["return"] for line in run.metrics() if isinstance(line.get("return"), int | float)]
    return found[-1] if found else None


def returns(agent: Agent, task: PixelTask, settings: ControlSettings, what: str) -> Iterator[float]:
    """What the agent gains when it does what it thinks best, in episodes that depend on seed and name alone."""
    for number in range(settings.training.episodes):
        yield sum(played(agent, task, settings.camera, seed_of(settings.seed, what, number)))


def played(agent: Agent, task: PixelTask, camera: Camera, seed: int) -> Iterator[float]:
    """The rewards of an episode, each when it is given."""
    task.begin(seed)
    frames = deque([seen(task, camera)] * camera.stack, camera.stack)
    is_last = False
    while not is_last:
        step = task.step(agent.act(centre(torch.cat(list(frames)), camera.crop), explore=False))
        is_last = step.is_last
        frames.append(seen(task, camera))
        yield step.reward


def trained(folder: Path) -> tuple[Agent, ControlSettings]:
    """The agent of a finished run, with its settings."""
    run = trained_run(folder)
    settings = control_settings_from(run.settings)
    agent = agent_of(settings, task_of(settings).action_dim)
    load_trained(run, agent)
    return agent, settings


def control_settings_from(content: dict[str, Any]) -> ControlSettings:
    """The settings that `as_json` wrote."""
    made: ControlSettings = made_from(ControlSettings, content)
    return made
