"""Lengths of training: both objectives run at every setting, and the table says what a run still gained."""

import json
from argparse import Namespace
from dataclasses import replace
from pathlib import Path

import pytest

from debiased_contrastive.images.settings import Data
from studies.membership_length import SETTINGS, gain_in_last_third, make_jobs, markdown


def test_every_setting_has_both_objectives_and_ten_places_of_measurement() -> None:
    jobs = list(make_jobs(Namespace(seeds=2)))
    assert len({job.name for job in jobs}) == len(jobs) == 2 * 2 * len(SETTINGS)
    for job in jobs:
        assert job.settings.objective.kind in job.name
        assert job.settings.training.epochs == 10 * job.settings.training.knn_every
        assert len(job.settings.data.classes or range(10)) * job.settings.data.per_class == 5000


def test_a_small_run_is_measured(tmp_path: Path) -> None:
    job = next(job for job in make_jobs(Namespace(seeds=1)) if job.name.startswith("fashion"))
    small = replace(
        job.settings,
        data=Data("fashion", classes=(0, 1), per_class=40),
        encoder=replace(job.settings.encoder, width=4, hidden_dim=8, out_dim=8),
        training=replace(job.settings.training, epochs=2, batch=20, knn_every=1),
    )
    found = replace(job, settings=small).make(tmp_path)
    assert found["knn"].keys() == {"4", "8"}
    assert found["knn"]["8"] == found["measures"]["knn"]
    assert all(0.4 < found["measures"][name] <= 1 for name in ("linear_top1", "knn", "mean_classifier"))


def test_the_gain_of_the_last_third() -> None:
    knn = {str(step): step / 1000 for step in range(10, 100, 10)}
    assert gain_in_last_third({"knn": knn}) == pytest.approx(3.0)


def test_a_row_by_hand(tmp_path: Path) -> None:
    for kind, linear in (("biased", 0.6), ("unbiased", 0.65)):
        measures = {"linear_top1": linear, "knn": 0.5, "mean_classifier": 0.4}
        content = {"measures": measures, "knn": {"20": 0.498, "30": 0.5}}
        (tmp_path / f"{SETTINGS[0].name}-{kind}-seed0.json").write_text(json.dumps(content))
    line = markdown(tmp_path).splitlines()[2]
    assert line.endswith("| 60.0 | 50.0 | 40.0 | +0.2 | +5.0 | +0.0 | +0.0 | 1 |")
