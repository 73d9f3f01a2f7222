"""Verdicts of the benchmarks on rows made up for them."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from benchmarks import cached, probe, training, views
from benchmarks.measure import times
from benchmarks.targets import TARGETS, Target, judged, speed_up

RESULTS = Path(__file__).parents[2] / "results"


def rows(**seconds: float) -> list[dict[str, Any]]:
    return [{"contender": name, "pairs": 8, "seconds": value} for name, value in seconds.items()]


def test_ours_is_compared_with_the_least_of_those_named() -> None:
    target = Target("time", "seconds", ("slow", "fast"), 0.5, (("pairs", 8),))
    assert judged(rows(ours=1.0, fast=2.0, slow=9.0, other=0.1), (target,)) == [
        {"pairs": 8, "measure": "time", "against": "fast", "value": 0.5, "limit": 0.5, "met": True}
    ]
    assert not judged(rows(ours=1.1, fast=2.0), (target,))[0]["met"]


def test_without_anyone_named_ours_itself_is_the_value() -> None:
    (found,) = judged(rows(ours=3.0, fast=2.0), (Target("time", "seconds", (), 4.0, ()),))
    assert (found["against"], found["value"], found["met"]) == (None, 3.0, True)


@pytest.mark.parametrize(
    "measured",
    [
        rows(fast=1.0),
        rows(ours=1.0),
        [{"contender": "ours", "pairs": 8, "skipped": "too large"}, *rows(fast=1.0)],
        [row | {"pairs": 9} for row in rows(ours=1.0, fast=2.0)],
    ],
)
def test_no_verdict_without_both_sides_at_the_size(measured: list[dict[str, Any]]) -> None:
    assert not judged(measured, (Target("time", "seconds", ("fast",), 1.0, (("pairs", 8),)),))


@pytest.mark.parametrize(("ours", "met"), [(0.9, True), (1.0, True), (1.1, False)])
def test_at_least_so_many_times_as_fast(ours: float, met: bool) -> None:
    target = Target("speed", "seconds", ("fast",), 3.0, (), compared=speed_up, at_least=True)
    (found,) = judged(rows(ours=ours, fast=3.0), (target,))
    assert (found["met"], found["at_least"]) == (met, True)
    assert found["value"] == pytest.approx(3.0 / ours)


def test_the_views_are_held_against_the_faster_kornia() -> None:
    seconds = {"ours": 1.0, "kornia-slice": 2.9, "kornia-resample": 4.0, "torchvision": 0.1}
    measured = [{"contender": name, "batch": 256, "seconds": value} for name, value in seconds.items()]
    (found,) = judged(measured, views.TARGETS)
    assert (found["against"], found["value"], found["met"]) == ("kornia-slice", 2.9, False)


def test_the_training_is_held_against_the_faster_lightly() -> None:
    seconds = {"ours": 1.0, "lightly": 4.0, "lightly-one-thread": 1.6}
    measured = [
        {"contender": name, "images": 5000, "batch": 256, "seconds": value} for name, value in seconds.items()
    ]
    (found,) = judged(measured, training.TARGETS)
    assert (found["against"], found["value"], found["met"]) == ("lightly-one-thread", 1.6, True)


def test_the_probe_has_targets_at_the_default_regularisation_alone() -> None:
    def fitted(C: float, ours: float, theirs: float) -> list[dict[str, Any]]:
        pairs = (("ours", 0.1, ours), ("scikit-learn", 2.0, theirs))
        return [
            {"contender": name, "samples": 50_000, "C": C, "seconds": seconds, "accuracy": accuracy}
            for name, seconds, accuracy in pairs
        ]

    assert not judged(fitted(0.1, 0.8, 0.8), probe.TARGETS)
    time, accuracy = judged(fitted(0.1, 0.8, 0.8) + fitted(1.0, 0.803, 0.8), probe.TARGETS)
    assert (time["value"], time["met"]) == (0.05, True)
    assert accuracy["value"] == pytest.approx(0.3)
    assert not accuracy["met"]


def test_contenders_take_turns_to_and_fro() -> None:
    calls: list[str] = []
    found = times({name: partial(calls.append, name) for name in "ab"}, rounds=3)
    assert "".join(calls) == "ab" + "ab" + "ba" + "ab", "a warm-up of each, then three rounds"
    assert {name: one["rounds"] for name, one in found.items()} == {"a": 3, "b": 3}


@pytest.mark.parametrize(("name", "targets"), [("benchmarks", TARGETS), ("cached", cached.TARGETS)])
def test_published_verdicts_are_by_the_targets_of_today(name: str, targets: tuple[Target, ...]) -> None:
    results = json.loads((RESULTS / f"{name}.json").read_text())
    assert results["targets"] == judged(results["rows"], targets)
