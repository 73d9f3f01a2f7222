"""Curves are means over seeds of means over epochs; the first picture says in words what is in it."""

from pathlib import Path
from typing import Any

import pytest

from debiased_contrastive.report.plots import MAX_POINTS, mean_curve, plot_intervals, strokes, time_axis
from debiased_contrastive.report.records import Record, read_records
from tests.report.folders import evaluation, rows, settings, write_run


def records(folder: Path, *metrics: list[dict[str, Any]]) -> tuple[Record, ...]:
    runs = [write_run(folder / str(i), settings("biased", i), metrics=lines) for i, lines in enumerate(metrics)]
    return read_records(runs)[0]


def line(step: int, epoch: int, loss: float | None) -> dict[str, Any]:
    return {"step": step, "epoch": epoch, "loss": loss}


def test_mean_and_band_by_hand(tmp_path: Path) -> None:
    some = records(
        tmp_path,
        [line(0, 0, 4.0), line(1, 0, 2.0), line(2, 1, 1.0), line(3, 2, 0.5)],
        [line(0, 0, 5.0), line(1, 0, 5.0), line(2, 1, 2.0)],
    )
    assert time_axis(some, "loss") == "epoch"
    found = mean_curve(some, "loss", "epoch")
    assert found is not None
    assert found.x == (0, 1, 2)
    assert found.mean == (4.0, 1.5, 0.5)
    assert found.low == (3.0, 1.0, 0.5)
    assert found.high == (5.0, 2.0, 0.5)


def test_a_single_epoch_is_drawn_by_steps(tmp_path: Path) -> None:
    some = records(tmp_path, [line(0, 0, 4.0), line(1, 0, 2.0)])
    assert time_axis(some, "loss") == "step"
    found = mean_curve(some, "loss", "step")
    assert found is not None
    assert found.mean == (4.0, 2.0)


def test_what_is_no_number_is_no_point(tmp_path: Path) -> None:
    some = records(tmp_path, [line(0, 0, 4.0), line(1, 1, float("nan")), line(2, 2, None), {"step": 3}])
    found = mean_curve(some, "loss", "epoch")
    assert found is not None
    assert found.x == (0,)
    assert mean_curve(some, "knn", "epoch") is None
    assert some[0].faults == (f"{tmp_path / '0'}: the loss was not finite in 1 of 4 lines; they are not drawn",)


def test_long_courses_are_thinned_without_losing_their_mean(tmp_path: Path) -> None:
    some = records(tmp_path, [line(step, 0, float(step)) for step in range(10 * MAX_POINTS)])
    found = mean_curve(some, "loss", "step")
    assert found is not None
    assert len(found.x) == MAX_POINTS + 1
    # The first place stands alone; the last bin ends at the last one.
    assert found.x[-1] == pytest.approx(10 * MAX_POINTS - 1)
    assert found.mean[1] == pytest.approx(5.5, abs=0.6)


def test_parts_of_epochs(tmp_path: Path) -> None:
    parts = [{"step": step, "epoch": step / 4, "loss": float(step)} for step in range(1, 5)]
    assert time_axis(records(tmp_path / "one", parts), "loss") == "step"
    parts += [{"step": step, "epoch": step / 4, "loss": float(step)} for step in range(5, 9)]
    some = records(tmp_path / "two", parts)
    assert time_axis(some, "loss") == "epoch"
    found = mean_curve(some, "loss", "epoch")
    assert found is not None
    assert found.x == (0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0)


@pytest.mark.parametrize(
    ("unbiased", "words"),
    [
        ([0.75], "Each dot is a single run, so small differences may be chance. The band, from biased"),
        ([0.65], "Each dot is a single run, so small differences may be chance."),
        (
            [0.75, 0.76],
            "Dots are means, ticks are seeds, lines are 95 % intervals of the mean. The band, from biased",
        ),
        ([0.65, 0.80], "Dots are means, ticks are seeds, lines are 95 % intervals of the mean."),
    ],
)
def test_the_first_picture_explains_no_more_than_it_shows(
    tmp_path: Path, unbiased: list[float], words: str
) -> None:
    found = rows(
        [
            write_run(tmp_path / f"{kind}{seed}", settings(kind, seed), its_evaluation=evaluation(level))
            for kind, levels in (("biased", [0.70, 0.71]), ("unbiased", unbiased))
            for seed, level in enumerate(levels[: len(unbiased)])
        ]
    )
    svg, said = plot_intervals("one", found, strokes(found))
    assert said.startswith(words)
    assert ("band" in said) == ("band" in words) == ("opacity: 0.45" in svg)
    assert 'aria-label="Accuracy, Linear top-1: biased 70.' in svg
