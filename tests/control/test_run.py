"""Agents from pixels: what is logged, that a run cut off ends as one that was not, and that they learn."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
import torch

from debiased_contrastive.control import rollout
from debiased_contrastive.control.film import Film, check_film, film_episode, write_film, write_strip
from debiased_contrastive.control.replay import Transitions, replay_files
from debiased_contrastive.control.rollout import crop_centre, make_agent, make_task, observe, play_episodes
from debiased_contrastive.control.run import load_agent, train
from debiased_contrastive.control.settings import (
    CONTROL_PRESETS,
    AgentSettings,
    Camera,
    ControlObjective,
    ControlSettings,
    ControlTraining,
    with_task_defaults,
)
from debiased_contrastive.runs import Run, new_run
from debiased_contrastive.training.checkpoint import checkpoints
from debiased_contrastive.training.loop import Log
from debiased_contrastive.training.machine import start_fabric
from debiased_contrastive.training.settings import as_json, from_json
from tests.control.tiny_task import STEPS, TinyTask

CPU = torch.device("cpu")
FABRIC = start_fabric("cpu")


@pytest.fixture(autouse=True)
def tiny_task(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rollout, "PixelTask", TinyTask)


def settings_of(objective: ControlObjective | None = None, **training: Any) -> ControlSettings:
    numbers: dict[str, Any] = {"frames": 240, "repeat": 2, "random_steps": 30, "batch": 8, "evaluate_every": 50,
                               "episodes": 2, "log_every": 10, "learning_rate": 1e-3, "accelerator": "cpu"}  # fmt: skip
    return ControlSettings(
        task="bar-middle",
        camera=Camera(size=14, crop=12, stack=2),
        agent=AgentSettings(filters=4, layers=2, feature_dim=8, hidden_dim=32),
        objective=objective or ControlObjective("debiased", tau_plus=0.1, num_positives=2),
        training=ControlTraining(**{**numbers, **training}),
    )


def run_of(folder: Path, settings: ControlSettings) -> Run:
    return new_run(folder, as_json(settings))


def finish(folder: Path, settings: ControlSettings) -> Run:
    run = run_of(folder, settings)
    for _ in train(settings, run, FABRIC):
        pass
    return run


def lines(run: Run) -> list[dict[str, Any]]:
    timed = ("steps_per_second", "frames_per_second", "seconds")
    return [{key: value for key, value in line.items() if key not in timed} for line in run.metrics()]


def test_both_counters_and_all_that_is_measured_are_logged(tmp_path: Path) -> None:
    run = finish(tmp_path / "run", settings_of())
    found = list(run.metrics())
    assert [line["step"] for line in found] == list(range(10, 121, 10))
    # The last step of an episode has one frame instead of two.
    assert all(line["frames"] == 2 * line["step"] - line["step"] // STEPS for line in found)
    assert [line["step"] for line in found if "return" in line] == [50, 100, 120]
    assert all(len(line["returns"]) == 2 for line in found if "return" in line)
    assert found[-1]["episode"] == 120 // STEPS
    assert "critic_loss" not in found[2]
    assert {"critic_loss", "actor_loss", "entropy", "alpha", "contrast_loss", "floored", "tau_cap_median"} <= set(
        found[3]
    )
    seconds = found[-1]["seconds"]
    assert set(seconds) == {"act", "simulate", "render", "draw", "update", "whole"}
    assert sum(seconds.values()) <= 2 * seconds["whole"] + 1e-3, "evaluations do not count"
    assert run.is_finished
    assert not replay_files(run.folder), "what is remembered is gigabytes, and of no use at the end"


@pytest.mark.parametrize("kind", ["none", "debiased"])
def test_a_run_cut_off_anywhere_ends_as_one_that_was_not(tmp_path: Path, kind: Any) -> None:
    settings = settings_of(ControlObjective(kind, tau_plus=0.1))
    whole = finish(tmp_path / "whole", settings)
    run = run_of(tmp_path / "cut", settings)
    # Among random steps, in the middle of an episode, at a checkpoint of its own, at an episode's end, right after.
    for stop in (7, 33, 50, 60, 61, 105):
        steps = train(settings, run, FABRIC)
        for stride in steps:
            if stride.step == stop:
                steps.close()
                break
        assert checkpoints(run.folder)[-1].name == f"checkpoint-{stop}.pt"
    for _ in train(settings, run, FABRIC):
        pass
    assert lines(run) == lines(whole)
    one, other = (load_agent(some.folder)[0].state_dict() for some in (run, whole))
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_a_finished_run_is_left_alone(tmp_path: Path) -> None:
    run = finish(tmp_path / "run", settings_of())
    (run.folder / "replay-7.pt").write_bytes(b"of a crash between two lines")
    assert list(train(settings_of(), run, FABRIC)) == []
    assert not replay_files(run.folder)


def test_a_crash_goes_back_to_the_last_whole_checkpoint(tmp_path: Path) -> None:
    settings = settings_of(checkpoint_every=20)
    whole = finish(tmp_path / "whole", settings)
    run = run_of(tmp_path / "crash", settings)
    steps = train(settings, run, FABRIC)
    while next(steps).step < 95:
        pass
    # A crash: nothing is closed, and the newest file is torn. In a copy, since who is alive holds the run.
    shutil.copytree(run.folder, tmp_path / "after")
    run = Run(tmp_path / "after")
    path = checkpoints(run.folder)[-1]
    assert path.name == "checkpoint-80.pt"
    path.write_bytes(path.read_bytes()[:100])
    for _ in train(settings, run, FABRIC):
        pass
    assert lines(run) == lines(whole)


def test_time_limits_are_no_ends_and_all_frames_are_counted() -> None:
    """Of the tiny task all discounts are 1, and the last step of an episode has half the frames."""
    practice = rollout.Rollout(settings_of(random_steps=200), CPU)
    for _ in range(2 * STEPS):
        practice.learn()
    replay = practice.replay
    goes_on = replay.goes_on[: replay.count]
    assert int(goes_on.sum()) == 2 * STEPS
    assert bool((replay.discounts[: replay.count][goes_on] == 1).all())
    assert practice.frames == 2 * (2 * STEPS - 1)
    assert not practice.measured, "random steps teach nothing"


def test_the_first_step_after_the_random_ones_learns() -> None:
    practice = rollout.Rollout(settings_of(random_steps=10), CPU)
    for _ in range(10):
        practice.learn()
    assert not practice.measured
    practice.learn()
    assert "critic_loss" in practice.measured


def test_every_update_draws_anew() -> None:
    practice, seeds = rollout.Rollout(settings_of(random_steps=10), CPU), []
    draw = practice.replay.draw

    def watched(n: int, crop: int, views: int, generator: torch.Generator) -> Transitions:
        seeds.append(generator.initial_seed())
        return draw(n, crop, views, generator)

    practice.replay.draw = watched  # type: ignore[method-assign]
    for _ in range(15):
        practice.learn()
    assert len(set(seeds)) == 5


def test_updates_may_be_rarer_than_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    updates: list[int] = []

    def learn(_self: rollout.Rollout, update: int) -> dict[str, float]:
        updates.append(update)
        return {"loss": 1.0}

    monkeypatch.setattr(rollout.Rollout, "_update", learn)
    practice = rollout.Rollout(settings_of(random_steps=4, update_every=3), CPU)
    for _ in range(13):
        practice.learn()
    # At steps 6, 9 and 12; counted one by one, since the policy moves at every other.
    assert updates == [2, 3, 4]


def test_the_replay_has_room_for_all_steps_of_a_run() -> None:
    practice = rollout.Rollout(settings_of(frames=4000, repeat=8), CPU)
    # 500 steps in 4 episodes of 125, each with a first frame of its own.
    assert practice.replay.capacity >= 500 + 4


def test_evaluations_do_not_count_as_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0

    def judge(*_: object) -> list[float]:
        nonlocal now
        now += 4
        return [1.0, 2.0]

    monkeypatch.setattr("debiased_contrastive.training.loop.time.perf_counter", lambda: now)
    monkeypatch.setattr(rollout, "play_episodes", judge)
    settings = settings_of(log_every=5, evaluate_every=5)
    run, practice = run_of(tmp_path / "run", settings), rollout.Rollout(settings, CPU)
    log = Log(practice, run, FABRIC)
    for passed in (6, 8):
        for _ in range(5):
            practice.learn()
        now += passed
        log.write_if_due()
    first, second = run.metrics()
    assert [line["seconds"]["whole"] for line in (first, second)] == [6, 8]
    assert first["steps_per_second"] == pytest.approx(5 / 6)
    assert second["frames_per_second"] == pytest.approx(10 / 8)
    assert first["return"] == 1.5


def test_every_episode_begins_elsewhere_and_the_same_way_for_one_seed() -> None:
    def beginnings(seed: int) -> torch.Tensor:
        practice = rollout.Rollout(replace(settings_of(), seed=seed), CPU)
        for _ in range(3 * STEPS):
            practice.learn()
        replay = practice.replay
        return replay.frames[: replay.count][replay.age[: replay.count] == 0]

    first, again, other = beginnings(0), beginnings(0), beginnings(1)
    assert len(first) == 3
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert not torch.equal(first[0], first[1])


def test_with_one_seed_all_begin_alike_whatever_the_contrast() -> None:
    agents = [make_agent(settings_of(ControlObjective(kind)), 1) for kind in ("none", "biased", "debiased")]
    for agent in agents[1:]:
        for one, other in zip(agents[0].encoder.parameters(), agent.encoder.parameters(), strict=True):
            assert torch.equal(one, other)
    assert agents[1].contrast is not None
    assert agents[1].contrast.tau_plus == 0
    assert agents[2].contrast is not None
    assert agents[2].contrast.tau_plus == 0.05


def test_with_edges_repeated_the_middle_is_the_whole_frame() -> None:
    """Or whatever is at the edge of the picture would be out of sight."""
    camera = Camera(size=6, crop=6, pad=2)
    task = make_task(replace(settings_of(), camera=camera))
    task.begin(0)
    frame = observe(task, camera)
    assert frame.shape == (3, 10, 10)
    assert frame.dtype == torch.uint8
    assert torch.equal(crop_centre(frame, 6), task.frame())
    assert torch.equal(frame[:, 0], frame[:, 2])
    assert torch.equal(frame[:, :, 9], frame[:, :, 7])
    with pytest.raises(ValueError, match=r"crop must be at most size \+ 2 pad, 10; got 11"):
        Camera(size=6, crop=11, pad=2)


def test_the_middle_is_what_is_acted_on() -> None:
    frames = torch.arange(36).view(1, 6, 6)
    assert torch.equal(crop_centre(frames, 4), frames[:, 1:5, 1:5])
    assert torch.equal(crop_centre(frames, 3), frames[:, 1:4, 1:4])


def test_returns_depend_on_seed_and_name_alone(tmp_path: Path) -> None:
    run = finish(tmp_path / "run", settings_of())
    agent, settings = load_agent(run.folder)
    first, again, others = (
        list(play_episodes(agent, make_task(settings), settings, what))
        for what in ("evaluation", "evaluation", "test")
    )
    assert first == again == list(run.metrics())[-1]["returns"]
    assert first != others
    assert first[0] != first[1], "every episode begins elsewhere"


def test_the_return_rises_on_a_tiny_task(tmp_path: Path) -> None:
    """By chance about 6 of 20, at best 18: a bar starts anywhere and needs some steps to the middle."""
    settings = settings_of(
        ControlObjective("debiased", tau_plus=0.01), frames=1500, repeat=1, random_steps=200, batch=32,
        evaluate_every=500, episodes=10, learning_rate=3e-3,
    )  # fmt: skip
    untrained = fmean(play_episodes(make_agent(settings, 1), make_task(settings), settings, "evaluation"))
    run = finish(tmp_path / "run", settings)
    learnt = [line["return"] for line in run.metrics() if "return" in line]
    assert untrained < 9
    assert learnt[-1] > 15


def test_settings_come_back_from_json_and_know_the_tasks() -> None:
    settings = settings_of()
    assert from_json(ControlSettings, json.loads(json.dumps(as_json(settings)))) == settings
    preset = CONTROL_PRESETS["curl-dmc100k"].settings
    found = {}
    for task in (
        "finger-spin",
        "walker-walk",
        "cartpole-swingup",
        "cheetah-run",
        "reacher-easy",
        "ball_in_cup-catch",
    ):
        training = with_task_defaults(replace(preset, task=task)).training
        found[task] = (training.repeat, training.learning_rate)
    assert found == {
        "finger-spin": (2, 1e-3), "walker-walk": (2, 1e-3), "cartpole-swingup": (8, 1e-3), "cheetah-run": (4, 2e-4),
        "reacher-easy": (4, 1e-3), "ball_in_cup-catch": (4, 1e-3),
    }  # fmt: skip
    paper = with_task_defaults(replace(CONTROL_PRESETS["curl-dcl-paper"].settings, task="cheetah-run")).training
    assert (paper.repeat, paper.learning_rate, paper.frames // 8, paper.batch) == (8, 1e-3, 100_000, 128)


@pytest.mark.parametrize(
    ("kind", "values", "message"),
    [
        (Camera, {"size": 10, "crop": 12}, r"crop must be at most size \+ 2 pad, 10; got 12"),
        (ControlObjective, {"kind": "hard"}, "kind must be one of"),
        (ControlObjective, {"tau_plus": 1.0}, "tau_plus"),
        (ControlTraining, {"capacity": 10}, "capacity must be an integer of at least 1000; got 10"),
        (ControlTraining, {"repeat": 0}, "repeat must lie between 1 and an episode's frames, 1000"),
        (ControlTraining, {"repeat": 1001}, "repeat must lie between 1 and an episode's frames, 1000"),
        (ControlTraining, {"repeat": 8, "frames": 4}, "and be at most frames, 4; got 8"),
        (AgentSettings, {"strided": 5}, "strided must lie between 0 and layers, 4; got 5"),
        (ControlTraining, {"learning_rate": 0.0}, "learning_rate must be positive; got 0.0"),
        (AgentSettings, {"gamma": 1.5}, "must lie in"),
        (AgentSettings, {"encoder_steps": 3}, "encoder_steps 1 or 2"),
    ],
)
def test_wrong_settings_are_told(kind: Any, values: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        kind(**values)


def test_films_and_strips(tmp_path: Path) -> None:
    from PIL import Image

    settings = settings_of()
    film = film_episode(make_agent(settings, 1), settings, 32)
    assert len(film.frames) == STEPS
    assert film.seconds == 0.1
    # Frames that differ: equal ones become one of a longer time.
    write_film(
        tmp_path / "film.gif", Film([frame // 2 + 5 * place for place, frame in enumerate(film.frames)], 0.1, 0)
    )
    write_strip(tmp_path / "strip.png", film.frames)
    with Image.open(tmp_path / "film.gif") as image:
        assert image.n_frames == STEPS
        assert image.info["duration"] == 100
        assert image.size == (32, 32)
    with Image.open(tmp_path / "strip.png") as image:
        assert image.size == (8 * 32, 32)
    with pytest.raises(ValueError, match=r"must end in .mp4 or .gif; got film.avi"):
        check_film(Path("film.avi"), 240)
    with pytest.raises(ValueError, match="an even number from 16 to 480; got 241"):
        check_film(Path("film.mp4"), 241)


def test_a_film_as_mp4_has_every_frame(tmp_path: Path) -> None:
    av = pytest.importorskip("av", reason="av is not installed: it is in the extra `control`")
    settings = settings_of()
    film = film_episode(make_agent(settings, 1), settings, 32)
    write_film(tmp_path / "film.mp4", film)
    with av.open(str(tmp_path / "film.mp4")) as container:
        frames = [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]
    assert len(frames) == STEPS
    # Colours survive compression roughly.
    assert abs(float(frames[5].mean()) - float(film.frames[5].float().mean())) < 12
