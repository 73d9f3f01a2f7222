"""The grid runs what is missing, keeps what is there, and its table holds what was worked out by hand."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from debiased_contrastive.images.presets import PRESETS
from debiased_contrastive.images.settings import SimCLRSettings
from debiased_contrastive.reproduce.runner import choose_rows, fill, settings_without_places
from debiased_contrastive.reproduce.simclr_measures import load_method
from debiased_contrastive.runs import new_run
from debiased_contrastive.training.settings import as_json
from studies.gap import make_jobs, markdown


def tiny() -> SimCLRSettings:
    base = PRESETS["demo"].settings
    assert isinstance(base, SimCLRSettings)
    return replace(
        base,
        data=replace(base.data, classes=(0, 1), per_class=40),
        encoder=replace(base.encoder, width=4, hidden_dim=8, out_dim=8),
        objective=replace(base.objective, tau_plus=0.5),
        training=replace(base.training, epochs=1, batch=20, knn_every=1),
    )


def write(folder: Path, name: str, linear: float, knn: float, floored: float = 0.0) -> None:
    measures = {
        "linear_top1": linear,
        "knn": knn,
        "mean_classifier": 0.5,
        "floored": floored,
        "tau_effective": 0.03,
    }
    (folder / f"{name}.json").write_text(json.dumps({"measures": measures}))


def test_a_grid_is_filled_once_and_its_files_make_a_table(tmp_path: Path) -> None:
    rows = ("biased", "unbiased", "views-2", "labels-0.1")
    jobs = choose_rows(make_jobs(tiny(), 1), rows)
    assert len(jobs) == len(rows)
    kept = {
        "settings": settings_without_places(jobs[0].settings),
        "measures": {"linear_top1": 0.5, "knn": 0.5, "mean_classifier": 0.5, "floored": 0, "tau_effective": 0.1},
    }
    (tmp_path / "biased-seed0.json").write_text(json.dumps(kept))
    fill(jobs, tmp_path, tmp_path / "runs")
    assert {path.stem for path in tmp_path.glob("*.json")} == {f"{name}-seed0" for name in rows}
    assert json.loads((tmp_path / "biased-seed0.json").read_text()) == kept
    assert not (tmp_path / "runs" / "biased-seed0").exists()
    found = json.loads((tmp_path / "unbiased-seed0.json").read_text())
    assert found["settings"]["objective"]["kind"] == "unbiased"
    assert found["knn"] == {"4": found["measures"]["knn"]}
    assert -1 < found["measures"]["tau_effective"] < 1
    assert len(markdown(tmp_path).splitlines()) == 6


def test_the_objectives_follow_the_true_prior() -> None:
    taus = {job.name: job.settings.objective.tau_plus for job in make_jobs(tiny(), 1)}
    assert (taus["tau-0.125-seed0"], taus["tau-0.25-seed0"], taus["tau-0.5-seed0"]) == (0.125, 0.25, 0.5)
    assert taus["views-4-seed0"] == taus["labels-0.01-seed0"] == 0.5


def test_a_run_without_a_projector_is_refused_in_one_line(tmp_path: Path) -> None:
    settings = tiny()
    with pytest.raises(ValueError, match="must hold a checkpoint of SimCLR"):
        load_method(settings, new_run(tmp_path / "run", as_json(settings)))


def test_means_gains_and_the_gap(tmp_path: Path) -> None:
    for seed, (biased, debiased, unbiased) in enumerate([(0.70, 0.71, 0.74), (0.72, 0.74, 0.76)]):
        write(tmp_path / "", f"biased-seed{seed}", biased, 0.6)
        write(tmp_path / "", f"tau-0.1-seed{seed}", debiased, 0.62, floored=0.1 * seed)
        write(tmp_path / "", f"unbiased-seed{seed}", unbiased, 0.64)
    header, _, biased_row, debiased_row, unbiased_row = markdown(tmp_path).splitlines()
    assert header.startswith("| objective | linear | kNN")
    # Two seeds: t = 12.706 with one degree of freedom, so 12.706 * 1.414 / 1.414 for 70 and 72.
    assert biased_row.startswith("| biased | 71.0 ± 12.7 | 60.0 ± 0.0 |")
    # Gains of 1 and 2 points: 1.5 ± 12.706 / 2; half of 1.5 / 4 and 2 / 4 of the gaps.
    assert "| +1.5 ± 6.4 | +2.0 ± 0.0 | 38 %, 50 % | 5.0 % | 0.030 | 2 |" in debiased_row
    assert debiased_row.startswith("| debiased, M = 1, tau_plus 0.1 |")
    assert "| 100 %, 100 % |" in unbiased_row


def test_without_both_ends_there_is_no_gap(tmp_path: Path) -> None:
    write(tmp_path, "biased-seed0", 0.7, 0.6)
    with pytest.raises(ValueError, match="must hold biased and unbiased runs"):
        markdown(tmp_path)


def test_the_grid_names_every_run_once_and_the_table_knows_them(tmp_path: Path) -> None:
    names = [job.name for job in make_jobs(PRESETS["cifar10-small"].settings, 3)]
    assert len(set(names)) == len(names) == 33
    for name in names:
        write(tmp_path, name, 0.7 + 0.01 * ("unbiased" in name), 0.6 + 0.01 * ("unbiased" in name))
    assert len(markdown(tmp_path).splitlines()) == 13
