"""The table of the grid against numbers worked out by hand."""

import json
from pathlib import Path

import pytest

from debiased_contrastive.images.presets import PRESETS
from debiased_contrastive.reproduce.figure4 import grid
from debiased_contrastive.reproduce.figure4_table import markdown


def write(folder: Path, name: str, linear: float, knn: float, floored: float = 0.0) -> None:
    measures = {
        "linear_top1": linear,
        "knn": knn,
        "mean_classifier": 0.5,
        "floored": floored,
        "tau_effective": 0.03,
    }
    (folder / f"{name}.json").write_text(json.dumps({"measures": measures}))


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
    names = [name for name, _ in grid(PRESETS["cifar10-small"].settings, 3)]
    assert len(set(names)) == len(names) == 33
    for name in names:
        write(tmp_path, name, 0.7 + 0.01 * ("unbiased" in name), 0.6 + 0.01 * ("unbiased" in name))
    assert len(markdown(tmp_path).splitlines()) == 13
