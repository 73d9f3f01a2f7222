"""Which runs form a row, and what it is called."""

from pathlib import Path
from typing import Any

import pytest

from debiased_contrastive.report.label import labels
from debiased_contrastive.report.table import rows
from tests.report.folders import evaluation, settings, write_run


@pytest.mark.parametrize(
    ("kind", "objective", "label"),
    [
        ("biased", {}, "biased"),
        ("debiased", {}, "debiased, τ⁺ = 0.1"),
        ("debiased", {"num_positives": 4}, "debiased, τ⁺ = 0.1, M = 4"),
        ("debiased", {"known_labels": 0.1}, "debiased, τ⁺ = 0.1, 10 % of labels known"),
        ("unbiased", {}, "unbiased (all labels)"),
        ("decoupled", {}, "decoupled"),
    ],
)
def test_the_objective_names_the_row(kind: str, objective: dict[str, Any], label: str) -> None:
    assert labels([settings(kind, **objective)]) == (label,)


def test_what_tells_rows_apart_is_named_and_nothing_else() -> None:
    assert labels(
        [settings("debiased"), settings("debiased", beta=1.0), settings("debiased", negatives="queue")]
    ) == (
        "debiased, τ⁺ = 0.1",
        "debiased, τ⁺ = 0.1, β = 1",
        "debiased, τ⁺ = 0.1, negatives from the queue",
    )
    plain, other = settings("biased"), settings("biased")
    other["training"] = {**other["training"], "batch": 64, "warm_up": 3}
    # The batch suffices, although the warm-up differs too.
    assert labels([plain, other]) == ("biased, batch 256", "biased, batch 64")


def test_any_setting_can_be_the_difference() -> None:
    plain, preset, odd = settings("biased"), settings("biased"), settings("biased")
    preset["preset"] = "other"
    assert labels([plain, preset]) == ("biased, preset demo", "biased, preset other")
    odd["views"] = {**odd["views"], "{blur}": True}
    assert labels([plain, odd]) == ("biased, views.{blur} not set", "biased, {blur} = yes")


def test_settings_without_an_objective_still_have_a_name() -> None:
    assert labels([{}, {"objective": "debiased"}]) == (
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
    assert [record.seed for record in found[0].group.records] == ["0", "9", "10"]


def test_a_seed_counts_once_and_the_evaluated_run_stands_for_it(tmp_path: Path) -> None:
    runs = [
        write_run(tmp_path / "first", settings("biased", 0)),
        write_run(tmp_path / "second", settings("biased", 0), its_evaluation=evaluation(0.7)),
        write_run(tmp_path / "third", settings("biased", 1), its_evaluation=evaluation(0.8)),
    ]
    (row,) = rows(runs)
    assert row.measures["linear_top1"].n == row.seeds == 2
    assert [record.folder.name for record in row.group.repeated] == ["first"]


def test_runs_without_a_seed_are_runs_of_their_own(tmp_path: Path) -> None:
    without = {key: value for key, value in settings("biased").items() if key != "seed"}
    (row,) = rows([write_run(tmp_path / name, without) for name in "ab"])
    assert row.seeds == 2
