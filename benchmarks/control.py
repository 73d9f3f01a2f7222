"""Where the time of an agent's step goes, and how fast a large replay is drawn from."""

import json
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from benchmarks.results import environment, parser, whole_number
from debiased_contrastive.control.replay import Replay
from debiased_contrastive.control.rollout import Rollout
from debiased_contrastive.control.settings import (
    CONTROL_PRESETS,
    EPISODE,
    ControlObjective,
    ControlSettings,
    with_task_defaults,
)
from debiased_contrastive.files import write_atomically
from debiased_contrastive.report.numbers import markdown_table
from debiased_contrastive.training.machine import keep_freed_memory

OBJECTIVES = {
    "without contrast": ControlObjective("none"),
    "biased": ControlObjective("biased"),
    "M = 2": ControlObjective("debiased", tau_plus=0.1, num_positives=2),
}
NETWORKS = ("act", "update")
ROUNDS = 3


def parts(settings: ControlSettings, steps: int) -> dict[str, float]:
    """Seconds of a step by part of the work, of the fastest of some rounds; drawing is told apart by `draws`."""
    rollout = Rollout(settings, torch.device("cpu"))
    best: dict[str, float] = {}
    for _ in range(settings.training.random_steps + 10):
        rollout.learn()
    for _ in range(ROUNDS):
        rollout.seconds.clear()
        start = time.perf_counter()
        for _ in range(steps):
            rollout.learn()
        whole = (time.perf_counter() - start) / steps
        if not best or whole < best["whole"]:
            best = {"whole": whole, **{part: value / steps for part, value in rollout.seconds.items()}}
    return best


def minutes_of(settings: ControlSettings, seconds: dict[str, float]) -> float:
    """Of a whole run at that pace: its steps, and those of its evaluations, in which nothing is learnt."""
    training = settings.training
    assert training.repeat is not None, "settings must be settled"
    steps = training.frames // training.repeat
    judged = steps // training.evaluate_every * training.episodes * (EPISODE // training.repeat)
    shown = seconds["act"] + seconds["simulate"] + seconds["render"]
    return (steps * seconds["whole"] + judged * shown) / 60


def draws(frames: int, channels: int, size: int, crop: int, batch: int, views: int) -> dict[str, float]:
    """Seconds to choose so many transitions of a full replay, and to cut their views out of it."""
    replay = Replay(frames, (channels, size, size), 1)
    # Written to, or all of it would be one page of zeros.
    replay.frames.random_(256)
    replay.age[:] = torch.arange(frames) % 125
    replay.goes_on[:] = replay.age != 124
    replay.count = frames
    generator = torch.Generator().manual_seed(0)
    places = replay._draw_places(batch, generator)
    stacks = replay._stacks(places)
    return {
        "sample": _least(lambda: replay._stacks(replay._draw_places(batch, generator))),
        "augment": _least(lambda: [replay._crop(stacks, crop, generator) for _ in range(views)]),
    }


def _least(call: Callable[[], object]) -> float:
    seconds = []
    for _ in range(10):
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def sentence_of(results: dict[str, Any]) -> str:
    """The draws of the result file and the time of a run in words, for docs/control.md."""
    drawn = "; ".join(
        f"of {draw['frames']:,} frames of {draw['size']} x {draw['size']} pixels, {draw['batch']} transitions are "
        f"chosen in {1e3 * draw['sample']:.1f} ms and {draw['views']} crops of each made in "
        f"{1e3 * draw['augment']:.1f} ms"
        for draw in results["draws"]
    )
    minutes = "; ".join(f"{row['objective']} {row['minutes']:.0f}" for row in results["rows"])
    return (
        f"Drawing on one core: {drawn}. Minutes of a run of the small preset at this pace, its evaluations "
        f"included: {minutes}."
    )


def markdown(results: dict[str, Any]) -> str:
    """The steps of the result file as a table, for docs/control.md."""
    names = ("render", "simulate", "draw", *NETWORKS)
    header = ["one core", "steps/s", *(f"{name}, ms" for name in names), "rest, ms", "not the networks'"]
    lines = []
    for row in results["rows"]:
        seconds = row["seconds"]
        rest = seconds["whole"] - sum(seconds[name] for name in names)
        outside = 1 - sum(seconds[name] for name in NETWORKS) / seconds["whole"]
        cells = [f"{1e3 * value:.1f}" for value in (*(seconds[name] for name in names), rest)]
        lines.append([row["objective"], f"{1 / seconds['whole']:.1f}", *cells, f"{outside:.0%}"])
    return markdown_table(header, lines)


def main() -> None:
    line = parser("benchmarks.control", __doc__, "results/control_speed.json")
    line.add_argument("--steps", type=whole_number(1), default=200)
    line.add_argument("--random-steps", type=whole_number(64), default=1000, help="before the clock starts")
    line.add_argument("--frames", type=whole_number(1000), default=100_000, help="of the large replay")
    arguments = line.parse_args()
    torch.set_num_threads(1)
    keep_freed_memory()
    machine = environment("torch", "dm_control", "mujoco", threads=1)
    base = with_task_defaults(CONTROL_PRESETS["curl"].settings)
    base = replace(base, training=replace(base.training, random_steps=arguments.random_steps))
    rows: list[dict[str, Any]] = []
    for name, objective in OBJECTIVES.items():
        seconds = parts(replace(base, objective=objective), arguments.steps)
        rows.append({"objective": name, "seconds": seconds, "minutes": minutes_of(base, seconds)})
    camera, batch = base.camera, base.training.batch
    shapes = (
        {"frames": arguments.frames, "channels": 3, "size": 100, "crop": 84, "batch": 512, "views": 3},
        {
            "frames": arguments.frames,
            "channels": camera.channels,
            "size": camera.side,
            "crop": camera.crop,
            "batch": batch,
            "views": 3,
        },
    )
    results = {
        "environment": machine,
        "settings": {"benchmark": "control", "steps": arguments.steps, "random_steps": arguments.random_steps},
        "rows": rows,
        "draws": [{**shape, **draws(**shape)} for shape in shapes],
    }
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(arguments.out, json.dumps(results, indent=2) + "\n")
    print(f"{markdown(results)}\n{sentence_of(results)}\nwritten to {arguments.out}")


if __name__ == "__main__":
    main()
