"""What knowledge is worth: every row runs on tiny data, and the table holds what was worked out by hand."""

import json
from argparse import Namespace
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch.nn import functional as F

from debiased_contrastive.images.networks import make_method
from debiased_contrastive.images.settings import Data, SimCLRSettings
from debiased_contrastive.images.simclr import SimCLR
from studies.membership import BASES, LABELS, make_job, make_jobs, markdown
from studies.membership_controls import Regression, WithClassifier, train_regression


def tiny() -> SimCLRSettings:
    base = BASES["fashion"].settings()
    return replace(
        base,
        data=Data("fashion", classes=(0, 1), per_class=40),
        encoder=replace(base.encoder, width=4, hidden_dim=8, out_dim=8),
        training=replace(base.training, epochs=2, batch=20, knn_every=1),
    )


def tiny_method() -> SimCLR:
    method = make_method(tiny(), gather=False)
    assert isinstance(method, SimCLR)
    return method


def test_all_rows_of_a_seed_come_first(tmp_path: Path) -> None:
    names = [job.name for job in make_jobs(Namespace(seeds=2, runs=tmp_path))]
    assert len(set(names)) == len(names) == 2 * 2 * len(LABELS)
    assert names[:2] == ["fashion/biased-seed0", "cifar10/biased-seed0"]
    assert all(name.endswith("-seed0") for name in names[: len(names) // 2])


@pytest.mark.parametrize("row", LABELS)
def test_a_row_is_trained_and_measured(row: str, tmp_path: Path) -> None:
    found = make_job("fashion", row, tiny(), tmp_path).make(tmp_path)
    assert found["settings"]["encoder"]["width"] == 4
    assert all(0.4 < found["measures"][name] <= 1 for name in ("linear_top1", "knn", "mean_classifier"))


@torch.no_grad()
def test_cross_entropy_counts_the_known_labels_alone() -> None:
    torch.manual_seed(0)
    method = tiny_method()
    control = WithClassifier(method, 2).eval()
    views = torch.randn(2, 5, 1, 28, 28)
    labels = torch.tensor([-1, 0, -1, 1, -1])
    contrast = float(method(views))
    assert float(control(views, torch.full((5,), -1))) == pytest.approx(contrast)
    logits = control.classifier(method.encoder(views[:, [1, 3]].flatten(0, 1)))
    wanted = float(F.cross_entropy(logits, torch.tensor([0, 1, 0, 1])))
    assert float(control(views, labels)) == pytest.approx(contrast + wanted)


def test_regression_compares_both_views_with_the_image(tmp_path: Path) -> None:
    torch.manual_seed(0)
    control = Regression(tiny_method(), 3).eval()
    views, targets = torch.randn(2, 5, 1, 28, 28), torch.randn(5, 3)
    with torch.no_grad():
        wanted = sum(float(F.mse_loss(control.layer(control.encoder(view)), targets)) for view in views) / 2
        assert float(control(views, targets)) == pytest.approx(wanted)
    run = train_regression(tiny(), torch.randn(80, 3), tmp_path / "run")
    assert (run.folder / "encoder.safetensors").exists()


def test_gains_and_shares_by_hand(tmp_path: Path) -> None:
    (tmp_path / "fashion").mkdir()
    rows = {"biased": (0.70, 0.72), "unbiased": (0.74, 0.76), "cross-entropy-0.1": (0.71, 0.74)}
    for row, accuracies in rows.items():
        for seed, linear in enumerate(accuracies):
            measures = {"linear_top1": linear, "knn": 0.6 + 0.1 * (row == "unbiased"), "mean_classifier": 0.5}
            (tmp_path / "fashion" / f"{row}-seed{seed}.json").write_text(json.dumps({"measures": measures}))
    lines = markdown(tmp_path).splitlines()
    assert lines[0] == "Fashion-MNIST, 5,000 images"
    # Gains of 1 and 2 points: 1.5 ± 12.706 / 2; 1.5 of 4 points of the gap. The mean classifier has no gap.
    assert lines[-1].endswith("| +1.5 ± 6.4 | +0.0 ± 0.0 | +0.0 ± 0.0 | 38 %, 0 %, nan % | 2 |")
