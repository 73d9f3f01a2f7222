"""The grid of multiview coding runs what is missing, and its files make the tables."""

import json
from dataclasses import replace
from pathlib import Path
from typing import get_args

from debiased_contrastive.images.presets import PRESETS
from debiased_contrastive.images.settings import CMCSettings
from debiased_contrastive.objectives.checks import OnFloor
from debiased_contrastive.reproduce.runner import choose_rows, fill
from debiased_contrastive.reproduce.table1 import RULES, floors_markdown, make_jobs, markdown, thirds_markdown
from tests.images.test_cmc_runs import two_colours


def tiny(images: Path) -> CMCSettings:
    base = PRESETS["cmc-small"].settings
    assert isinstance(base, CMCSettings)
    return replace(
        base,
        data=replace(base.data, root=images, test_root=images, folder_size=16),
        views=replace(base.views, size=16),
        encoder=replace(base.encoder, width=4, out_dim=8),
        objective=replace(base.objective, bank_negatives=10),
        training=replace(base.training, epochs=2, batch=16, log_every=1),
    )


def test_a_grid_is_filled_and_its_files_make_tables(tmp_path: Path) -> None:
    images = two_colours(tmp_path / "images")
    out = tmp_path / "out"
    jobs = choose_rows(make_jobs(tiny(images), 1), ("biased", "tau-0.01-biased", "epochs"))
    fill(jobs, out, tmp_path / "runs")
    found = json.loads((out / "tau-0.01-biased-seed0.json").read_text())
    assert found["settings"]["objective"]["on_floor"] == "biased"
    assert str(tmp_path) not in json.dumps(found)
    assert [line["step"] for line in found["course"]] == list(range(1, 7))
    lines = markdown(out).splitlines()
    assert len(lines) == 5
    assert lines[4].startswith("| biased, each image once in an epoch | ")
    assert "| 74.60 | 92.08 | 1 |" in lines[3]
    assert "| 73.58 | 92.06 | 1 |" in lines[2]
    floors = floors_markdown(out).splitlines()
    caps = ["tau_cap_median", "tau_cap_low"]
    assert [line.split(": ")[-1].split(" |")[0] for line in floors[2:]] == [*caps, "floored", *caps]


def test_losses_are_told_apart_by_the_third_of_an_epoch(tmp_path: Path) -> None:
    for name, by_third in (("biased", (5.0, 5.0, 5.0)), ("epochs", (3.0, 2.0, 1.0))):
        # Ten epochs of nine steps; before the sixth they do not count.
        course = [
            {"step": step, "loss": by_third[(step - 1) % 9 // 3] if step > 45 else 99} for step in range(1, 91)
        ]
        result = {"settings": {"training": {"epochs": 10}}, "course": course}
        (tmp_path / f"{name}-seed0.json").write_text(json.dumps(result))
    biased, epochs = thirds_markdown(tmp_path).splitlines()[2:]
    assert biased == "| biased | 5.00 | 5.00 | 5.00 | 1 |"
    assert epochs == "| biased, each image once in an epoch | 3.00 | 2.00 | 1.00 | 1 |"


def test_without_the_other_order_there_is_no_table_of_it(tmp_path: Path) -> None:
    (tmp_path / "biased-seed0.json").write_text("{}")
    assert thirds_markdown(tmp_path) == ""


def test_every_rule_is_run_at_both_priors(tmp_path: Path) -> None:
    assert set(RULES) == set(get_args(OnFloor))
    names = [job.name for job in make_jobs(tiny(tmp_path), 2)]
    assert len(names) == len(set(names)) == 2 * (1 + 2 * 4 + 2)
    by_name = {job.name: job.settings for job in make_jobs(tiny(tmp_path), 1)}
    assert by_name["biased-seed0"].objective.correction == 0
    assert by_name["tau-0.005-smooth-seed0"].objective.correction == 0.005
    assert by_name["auto-seed0"].objective.auto
    assert by_name["epochs-seed0"].objective == by_name["biased-seed0"].objective
    assert by_name["epochs-seed0"].data.order == "epochs"
    assert {settings.data.order for name, settings in by_name.items() if name != "epochs-seed0"} == {"drawn"}
