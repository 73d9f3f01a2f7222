"""The grid runs what is missing, keeps what is there, and measures what its table shows."""

import json
from dataclasses import replace
from functools import partial
from pathlib import Path

from debiased_contrastive.images.presets import PRESETS
from debiased_contrastive.images.settings import Settings
from debiased_contrastive.reproduce.figure4 import grid, result_of
from debiased_contrastive.reproduce.figure4_table import markdown
from debiased_contrastive.reproduce.runner import fill


def tiny() -> Settings:
    base = PRESETS["demo"].settings
    return replace(
        base,
        data=replace(base.data, classes=(0, 1), per_class=40),
        encoder=replace(base.encoder, width=4, hidden_dim=8, out_dim=8),
        objective=replace(base.objective, tau_plus=0.5),
        training=replace(base.training, epochs=1, batch=20, knn_every=1),
    )


def test_a_grid_is_filled_once_and_its_files_make_a_table(tmp_path: Path) -> None:
    wanted = ("biased-seed0", "unbiased-seed0", "views-2-seed0", "labels-0.1-seed0")
    items = [(name, settings) for name, settings in grid(tiny(), 1) if name in wanted]
    assert len(items) == len(wanted)
    kept = {
        "measures": {"linear_top1": 0.5, "knn": 0.5, "mean_classifier": 0.5, "floored": 0, "tau_effective": 0.1}
    }
    (tmp_path / "biased-seed0.json").write_text(json.dumps(kept))
    fill(((name, partial(result_of, settings, tmp_path / "runs" / name)) for name, settings in items), tmp_path)
    assert sorted(path.stem for path in tmp_path.glob("*.json")) == sorted(wanted)
    assert json.loads((tmp_path / "biased-seed0.json").read_text()) == kept
    assert not (tmp_path / "runs" / "biased-seed0").exists()
    found = json.loads((tmp_path / "unbiased-seed0.json").read_text())
    assert found["settings"]["objective"]["kind"] == "unbiased"
    assert found["knn"] == {"4": found["measures"]["knn"]}
    assert -1 < found["measures"]["tau_effective"] < 1
    assert len(markdown(tmp_path).splitlines()) == 6


def test_the_objectives_follow_the_true_prior() -> None:
    taus = {name: settings.objective.tau_plus for name, settings in grid(tiny(), 1)}
    assert (taus["tau-0.125-seed0"], taus["tau-0.25-seed0"], taus["tau-0.5-seed0"]) == (0.125, 0.25, 0.5)
    assert taus["views-4-seed0"] == taus["labels-0.01-seed0"] == 0.5
