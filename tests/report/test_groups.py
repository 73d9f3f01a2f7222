"""Which runs form a row, what it is called, and its numbers, against hand computation."""

import math
from pathlib import Path
from typing import Any

import pytest

from debiased_contrastive.images.domain import IMAGES
from debiased_contrastive.report.groups import Row, labels
from debiased_contrastive.report.numbers import Measure
from debiased_contrastive.runs import Run
from tests.report.folders import evaluation, rows, settings, write_run

WORDS = IMAGES.label_words


@pytest.mark.parametrize(
    ("kind", "objective", "label"),
    [
        ("biased", {}, "biased"),
        ("biased", {"decoupled": True}, "biased, decoupled"),
        ("debiased", {}, "debiased, τ⁺ = 0.1"),
        ("debiased", {"num_positives": 4}, "debiased, τ⁺ = 0.1, M = 4"),
        ("debiased", {"known_labels": 0.1}, "debiased, τ⁺ = 0.1, 10 % of labels known"),
        ("unbiased", {}, "unbiased (all labels)"),
        ("decoupled", {}, "decoupled"),
    ],
)
def test_the_objective_names_the_row(kind: str, objective: dict[str, Any], label: str) -> None:
    assert labels([settings(kind, **objective)], WORDS) == (label,)


def test_what_tells_rows_apart_is_named_and_nothing_else() -> None:
    assert labels(
        [settings("debiased"), settings("debiased", beta=1.0), settings("debiased", negatives="queue")], WORDS
    ) == (
        "debiased, τ⁺ = 0.1",
        "debiased, τ⁺ = 0.1, β = 1",
        "debiased, τ⁺ = 0.1, negatives from the queue",
    )
    plain, other = settings("biased"), settings("biased")
    other["training"] = {**other["training"], "batch": 64, "warm_up": 3}
    # The batch suffices, although the warm-up differs too.
    assert labels([plain, other], WORDS) == ("biased, batch 256", "biased, batch 64")


def test_any_setting_can_be_the_difference() -> None:
    plain, preset, odd = settings("biased"), settings("biased"), settings("biased")
    preset["preset"] = "other"
    assert labels([plain, preset], WORDS) == ("biased, preset demo", "biased, preset other")
    odd["views"] = {**odd["views"], "{blur}": True}
    assert labels([plain, odd], WORDS) == ("biased, views.{blur} not set", "biased, {blur} = yes")


def test_settings_without_an_objective_still_have_a_name() -> None:
    assert labels([{}, {"objective": "debiased"}], WORDS) == (
        "objective not named, objective not set",
        "objective not named, objective = debiased",
    )


def test_runs_that_differ_only_in_their_seed_are_one_row(tmp_path: Path) -> None:
    runs = [
        write_run(tmp_path / f"{kind}{seed}", settings(kind, seed))
        for seed in (10, 9, 0)
        for kind in ("unbiased", "biased")
    ]
    found = rows(runs)
    assert [(row.label, row.seeds) for row in found] == [("biased", 3), ("unbiased (all labels)", 3)]
    assert [record.seed for record in found[0].records] == ["0", "9", "10"]


def test_a_seed_counts_once_and_the_evaluated_run_stands_for_it(tmp_path: Path) -> None:
    runs = [
        write_run(tmp_path / "first", settings("biased", 0)),
        write_run(tmp_path / "second", settings("biased", 0), its_evaluation=evaluation(0.7)),
        write_run(tmp_path / "third", settings("biased", 1), its_evaluation=evaluation(0.8)),
    ]
    (row,) = rows(runs)
    assert row.measures["linear_top1"].n == row.seeds == 2
    assert [record.folder.name for record in row.repeated] == ["first"]


def test_runs_without_a_seed_are_runs_of_their_own(tmp_path: Path) -> None:
    without = {key: value for key, value in settings("biased").items() if key != "seed"}
    (row,) = rows([write_run(tmp_path / name, without) for name in "ab"])
    assert row.seeds == 2


def by_label(runs: list[Run]) -> dict[str, Row]:
    return {row.label: row for row in rows(runs)}


def seeds(folder: Path, kind: str, accuracies: list[float], **objective: Any) -> list[Run]:
    name = "-".join([kind, *(f"{key}{value}" for key, value in objective.items())])
    return [
        write_run(folder / name / str(seed), settings(kind, seed, **objective), its_evaluation=evaluation(accuracy))
        for seed, accuracy in enumerate(accuracies)
    ]


def test_mean_interval_and_gap_by_hand(tmp_path: Path) -> None:
    found = by_label(
        seeds(tmp_path, "biased", [0.70, 0.71, 0.72])
        + seeds(tmp_path, "debiased", [0.72, 0.73, 0.74])
        + seeds(tmp_path, "unbiased", [0.75, 0.76, 0.77])
    )
    assert list(found) == ["biased", "debiased, τ⁺ = 0.1", "unbiased (all labels)"]
    mean, half_width, n = found["biased"].measures["linear_top1"]
    assert mean == pytest.approx(0.71)
    assert n == 3
    # Student's t for 2 degrees of freedom is 4.3027; the standard error is 0.01 / sqrt 3.
    assert half_width == pytest.approx(4.30265 * 0.01 / math.sqrt(3), rel=1e-5)
    # (0.73 - 0.71) / (0.76 - 0.71)
    assert found["debiased, τ⁺ = 0.1"].gap_closed == pytest.approx(0.4)
    assert found["biased"].gap_closed is None
    assert found["unbiased (all labels)"].gap_closed is None
    assert [row.seeds for row in found.values()] == [3, 3, 3]


def test_no_share_of_a_cost_that_may_be_chance(tmp_path: Path) -> None:
    found = by_label(
        seeds(tmp_path, "biased", [0.70, 0.72, 0.74])
        + seeds(tmp_path, "debiased", [0.72, 0.73, 0.74])
        + seeds(tmp_path, "unbiased", [0.76, 0.72, 0.74])
    )
    assert found["debiased, τ⁺ = 0.1"].gap_closed is None


def test_differences_are_taken_seed_by_seed(tmp_path: Path) -> None:
    found = by_label(
        seeds(tmp_path, "biased", [0.60, 0.70, 0.80]) + seeds(tmp_path, "unbiased", [0.63, 0.72, 0.81])
    )
    difference = found["unbiased (all labels)"].gain_on(found["biased"])
    assert difference.mean == pytest.approx(0.02)
    assert difference.half_width == pytest.approx(4.30265 * 0.01 / math.sqrt(3), rel=1e-5)
    other = by_label(seeds(tmp_path / "fewer", "unbiased", [0.63, 0.72]))["unbiased (all labels)"]
    assert math.isnan(other.gain_on(found["biased"]).half_width)


def test_intervals_that_touch_overlap() -> None:
    assert Measure(0.5, 0.25, 3).overlaps(Measure(1.0, 0.25, 3))
    assert not Measure(0.5, 0.25, 3).overlaps(Measure(1.0, 0.125, 3))


def test_a_single_seed_has_no_interval(tmp_path: Path) -> None:
    (row,) = rows(seeds(tmp_path, "biased", [0.7]))
    mean, half_width, n = row.measures["linear_top1"]
    assert (mean, n) == (0.7, 1)
    assert math.isnan(half_width)


def test_without_a_cost_there_is_no_share_of_it(tmp_path: Path) -> None:
    found = by_label(
        seeds(tmp_path, "biased", [0.76])
        + seeds(tmp_path, "debiased", [0.77])
        + seeds(tmp_path, "unbiased", [0.75])
    )
    assert found["debiased, τ⁺ = 0.1"].gap_closed is None


def test_only_rows_that_agree_in_all_else_are_compared(tmp_path: Path) -> None:
    found = by_label(
        seeds(tmp_path, "biased", [0.70])
        + seeds(tmp_path, "unbiased", [0.80])
        + seeds(tmp_path, "debiased", [0.75])
        + seeds(tmp_path, "debiased", [0.78], temperature=0.2)
        + seeds(tmp_path, "debiased", [0.76], num_positives=4)
    )
    assert found["debiased, τ⁺ = 0.1, t = 0.5"].gap_closed == pytest.approx(0.5)
    assert found["debiased, τ⁺ = 0.1, t = 0.2"].gap_closed is None
    assert found["debiased, τ⁺ = 0.1, M = 4"].gap_closed == pytest.approx(0.6)


def test_of_two_baselines_the_nearer_one_counts(tmp_path: Path) -> None:
    found = by_label(
        seeds(tmp_path, "biased", [0.70])
        + seeds(tmp_path, "biased", [0.74], beta=1.0)
        + seeds(tmp_path, "debiased", [0.77], beta=1.0)
        + seeds(tmp_path, "unbiased", [0.80])
    )
    assert list(found) == ["biased", "biased, β = 1", "debiased, τ⁺ = 0.1", "unbiased (all labels)"]
    assert found["debiased, τ⁺ = 0.1"].gap_closed == pytest.approx(0.5)


def test_every_number_is_found_where_the_run_keeps_it(tmp_path: Path) -> None:
    lines: list[dict[str, Any]] = [
        {"step": 0, "epoch": 0, "floored": 0.9, "false_negative_rate": 0.1, "images_per_second": 10},
        {"step": 1, "epoch": 1, "floored": 0.2, "false_negative_rate": 0.2, "images_per_second": 30},
        {"step": 2, "epoch": 1, "floored": 0.4, "false_negative_rate": None, "images_per_second": 20},
        {"step": 3, "epoch": 1, "knn": 0.5},
    ]
    official = {"last_top1": 0.8, "last_top5": 0.9, "best_top1": 0.85, "best_top5": 0.95}
    run = write_run(
        tmp_path / "run",
        settings("debiased"),
        its_evaluation=evaluation(0.7, linear={"top1": 0.7, "top5": 0.99}, official=official),
        metrics=lines,
    )
    (row,) = rows([run])
    means = {key: measure.mean for key, measure in row.measures.items()}
    assert means == pytest.approx({
        "linear_top1": 0.7, "linear_top5": 0.99, "official_last_top1": 0.8, "official_last_top5": 0.9,
        "official_best_top1": 0.85,
        "knn": 0.68, "mean_classifier": 0.65, "alignment": 0.3, "uniformity": -2.5, "within": 0.6, "between": 0.01,
        "floored": 0.3, "false_negative_rate": 0.15, "images_per_second": 20,
    })  # fmt: skip


@pytest.mark.parametrize(
    ("epochs", "expected"), [((0, 1, 2, 2), 0.35), ((0.5, 1.0, 1.5, 2.0), 0.35), ((None, None, None, None), 0.4)]
)
def test_the_floored_share_is_that_of_the_last_epoch(
    tmp_path: Path, epochs: tuple[float | None, ...], expected: float
) -> None:
    lines = [{"step": step, "epoch": epoch, "floored": (step + 1) / 10} for step, epoch in enumerate(epochs)]
    (row,) = rows([write_run(tmp_path / "run", settings("debiased"), metrics=lines)])
    assert row.measures["floored"].mean == pytest.approx(expected)


@pytest.mark.parametrize("written", [0.6, {"top1": 0.6}, {"accuracy": 0.6, "loss": 1.0}])
def test_an_accuracy_may_stand_alone_or_under_a_name(tmp_path: Path, written: object) -> None:
    run = write_run(tmp_path / "run", settings("biased"), its_evaluation=evaluation(0.7, mean_classifier=written))
    assert rows([run])[0].measures["mean_classifier"].mean == 0.6


def test_numbers_that_are_none_are_left_out_and_counted(tmp_path: Path) -> None:
    runs = seeds(tmp_path, "biased", [0.7, math.nan, 0.8])
    runs.append(write_run(tmp_path / "unfinished", settings("biased", 3)))
    (row,) = rows(runs)
    assert row.seeds == 4
    assert row.measures["linear_top1"].mean == pytest.approx(0.75)
    assert row.measures["linear_top1"].n == 2
    assert "linear_top5" not in row.measures


def test_the_published_number_stands_beside_its_own_objective_alone(tmp_path: Path) -> None:
    runs = []
    choices: tuple[tuple[str, dict[str, Any]], ...] = (
        ("biased", {}), ("debiased", {}), ("debiased", {"num_positives": 4}), ("debiased", {"beta": 1.0}),
        ("debiased", {"known_labels": 0.1}), ("debiased", {"negatives": "queue"}), ("unbiased", {}),
    )  # fmt: skip
    for place, (kind, objective) in enumerate(choices):
        its_settings = settings(kind, **objective) | {"data": {"name": "stl10"}}
        runs.append(write_run(tmp_path / str(place), its_settings))
    paper = {row.label: row.paper for row in rows(runs) if row.paper is not None}
    assert paper == {"biased": 80.15, "debiased, τ⁺ = 0.1": 84.26}


@pytest.mark.parametrize(
    ("membership", "label"),
    [
        ({"source": "labels", "known": 0.1}, "membership from 10 % of the labels"),
        ({"source": "classifier", "known": 0.02}, "membership from a classifier on 2 % of the labels"),
        ({"source": "groups", "strength": 0.5}, "membership from groups, strength 0.5"),
        ({"source": "guide", "form": "walk", "attraction": 0.4}, "membership from a guide, walk, attraction 0.4"),
        ({"source": "own", "form": "random", "strength": 1.0}, "membership from own features, random"),
        ({"source": "none"}, "debiased, τ⁺ = 0.1"),
    ],
)
def test_a_membership_names_the_row(membership: dict[str, Any], label: str) -> None:
    assert labels([{**settings("debiased"), "membership": membership}], WORDS) == (label,)


def test_a_membership_is_compared_with_the_biased_run_without_one(tmp_path: Path) -> None:
    known = {**settings("debiased"), "membership": {"source": "guide", "form": "walk", "file": "guide.npy"}}
    content = {"biased": settings("biased"), "known": known, "unbiased": settings("unbiased")}
    runs = [
        write_run(
            tmp_path / f"{name}{seed}",
            {**each, "seed": seed},
            its_evaluation=evaluation(0.6 + 0.1 * place + seed / 1000),
        )
        for place, (name, each) in enumerate(content.items())
        for seed in range(1, 3)
    ]
    row = next(row for row in rows(runs) if row.label == "membership from a guide, walk")
    assert len({one.frame for one in rows(runs)}) == 1
    assert row.gap_closed == pytest.approx(0.5)
    assert row.paper is None
