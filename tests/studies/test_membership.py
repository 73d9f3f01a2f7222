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
from debiased_contrastive.images.sources import read_training_images
from debiased_contrastive.membership.labels import from_labels
from debiased_contrastive.membership.training import TrainingKnowledge
from debiased_contrastive.reproduce.controls import WithClassifier
from studies.membership import make_job, make_jobs, measure_before
from studies.membership_controls import Regression, train_regression
from studies.membership_length import markdown as length_markdown
from studies.membership_rows import BASES, ROWS
from studies.membership_sources import draw_groups, repulsion_removed
from studies.membership_tables import force_markdown, markdown, plot


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
    names = [job.name for job in make_jobs(Namespace(seeds=2, runs=tmp_path, data=list(BASES)))]
    assert len(set(names)) == len(names) == 2 * 2 * (len(ROWS) + 1)
    assert names[:2] == ["fashion/biased-seed0", "cifar10/biased-seed0"]
    assert all(name.endswith("-seed0") for name in names[: len(names) // 2])
    assert not list(tmp_path.iterdir())


def test_a_twin_is_a_row_with_the_same_attraction() -> None:
    twins = {name: row.twin for name, row in ROWS.items() if row.twin}
    attracts = {name for name, row in ROWS.items() if row.known.get("attraction")}
    assert attracts == twins.keys() | set(twins.values())
    for name, twin in twins.items():
        for key in ("attraction", "attraction_above", "strength"):
            assert ROWS[name].known.get(key) == ROWS[twin].known.get(key)


@pytest.mark.parametrize(
    "row", ["biased", "classifier-10-attraction", "groups-85", "cross-entropy-10", "regression", "guide-alone"]
)
def test_a_row_is_trained_and_measured(row: str, tmp_path: Path) -> None:
    settings = tiny()
    make_job("biased-seed0", ROWS["biased"], settings, tmp_path).make(tmp_path)
    if row == "classifier-10-attraction":
        settings = replace(settings, training=replace(settings.training, epochs=12))
    found = make_job(f"{row}-seed0", ROWS[row], settings, tmp_path).make(tmp_path)
    assert found["settings"]["encoder"]["width"] == 4
    assert all(0.4 < found["measures"][name] <= 1 for name in ("linear_top1", "knn", "mean_classifier"))
    assert str(tmp_path) not in json.dumps(found)
    if ROWS[row].known:
        assert found["worth"][-1]["force_share"] <= 1


def test_groups_are_right_as_often_as_they_should() -> None:
    settings = replace(tiny(), data=Data("fashion"))
    labels = read_training_images(settings.data).labels
    assert labels is not None
    groups = draw_groups(settings, 0.7)
    assert float((groups == labels).float().mean()) == pytest.approx(0.7, abs=0.04)
    assert torch.equal(groups, draw_groups(settings, 0.7))
    random = draw_groups(settings, "random")
    assert random.bincount().tolist() == [200] * 10
    assert float((random == labels).float().mean()) == pytest.approx(0.1, abs=0.03)
    clusters = draw_groups(settings, "clusters")
    assert len(clusters.unique()) == 10
    # Of the pairs in a cluster, far more than a tenth share a class.
    pairs = clusters.unsqueeze(1) == clusters
    assert float((labels.unsqueeze(1) == labels)[pairs].float().mean()) > 0.3


def test_all_sources_are_measured_on_a_biased_run(tmp_path: Path) -> None:
    settings = replace(tiny(), training=replace(tiny().training, epochs=12))
    with pytest.raises(ValueError, match="biased-seed0 must hold the biased run, for its projector"):
        measure_before(settings, tmp_path)
    make_job("biased-seed0", ROWS["biased"], settings, tmp_path).make(tmp_path)
    found = measure_before(settings, tmp_path)["before"]
    assert found.keys() == {name for name, row in ROWS.items() if row.known and not row.known.get("attraction")}
    assert found["labels-100"]["force_share"] == pytest.approx(1, abs=1e-4)
    assert found["labels-100"]["repulsion_removed"] == pytest.approx(1, abs=1e-4)
    assert found["groups-70"]["repulsion_removed"] < found["groups-85"]["repulsion_removed"] < 1


def test_repulsion_by_a_loop() -> None:
    generator = torch.Generator().manual_seed(0)
    z = F.normalize(torch.randn(6, 3, generator=generator), dim=1)
    labels, q = torch.tensor([0, 0, 1, 1, 1, 2]), torch.rand(6, 6, generator=generator)
    left = all_of_it = 0.0
    for i in range(6):
        e = [float((z[i] @ z[j] / 0.2).exp()) * (i != j) for j in range(6)]
        weighted = [(1 - float(q[i, j])) * e[j] for j in range(6)]
        same = [j for j in range(6) if labels[j] == labels[i]]
        left += sum(weighted[j] for j in same) / sum(weighted)
        all_of_it += sum(e[j] for j in same) / sum(e)
    assert repulsion_removed(z, labels, q, 0.2) == pytest.approx(1 - left / all_of_it, rel=1e-4)


@torch.no_grad()
def test_cross_entropy_counts_the_known_labels_alone() -> None:
    torch.manual_seed(0)
    method = tiny_method()
    control = WithClassifier(method, 2).eval()
    views = torch.randn(2, 5, 1, 28, 28)
    labels = torch.tensor([-1, 0, -1, 1, -1])
    contrast = float(method(views))
    ids = torch.arange(5)
    assert float(control(views, torch.full((5,), -1), ids)) == pytest.approx(contrast)
    logits = control.classifier(method.encoder(views[:, [1, 3]].flatten(0, 1)))
    wanted = float(F.cross_entropy(logits, torch.tensor([0, 1, 0, 1])))
    assert float(control(views, labels, ids)) == pytest.approx(contrast + wanted)
    method.known = TrainingKnowledge()
    method.known.hold(from_labels(torch.tensor([0, 1, 0, 1, 0])))
    known = float(method(views, ids=ids))
    assert known != pytest.approx(contrast)
    assert float(control(views, labels, ids)) == pytest.approx(known + wanted)


def test_regression_compares_both_views_with_the_image(tmp_path: Path) -> None:
    torch.manual_seed(0)
    control = Regression(tiny_method(), 3).eval()
    views, targets = torch.randn(2, 5, 1, 28, 28), torch.randn(5, 3)
    with torch.no_grad():
        wanted = sum(float(F.mse_loss(control.layer(control.encoder(view)), targets)) for view in views) / 2
        assert float(control(views, targets, torch.arange(5))) == pytest.approx(wanted)
    run = train_regression(tiny(), torch.randn(80, 3), tmp_path / "run")
    assert (run.folder / "encoder.safetensors").exists()


def test_gains_and_shares_by_hand(tmp_path: Path) -> None:
    (tmp_path / "fashion").mkdir()
    rows = {
        "biased": (0.70, 0.72),
        "unbiased": (0.74, 0.76),
        "random-graph": (0.70, 0.73),
        "guide-walk-attraction": (0.71, 0.74),
        "regression": (0.72,),
    }
    for row, accuracies in rows.items():
        for seed, linear in enumerate(accuracies):
            measures = {"linear_top1": linear, "knn": 0.6 + 0.1 * (row == "unbiased"), "mean_classifier": 0.5}
            (tmp_path / "fashion" / f"{row}-seed{seed}.json").write_text(json.dumps({"measures": measures}))
    lines = markdown(tmp_path).splitlines()
    assert lines[0] == "Fashion-MNIST, 5,000 images"
    line = next(line for line in lines if line.startswith("| guide, walk, attraction"))
    # Gains of 1 and 2 points: 1.5 ± 12.706 / 2; 1.5 of 4 points of the gap. The mean classifier has no gap.
    gains = "| +1.5 ± 6.4 | +0.0 ± 0.0 | +0.0 ± 0.0 | 38 % / 0 % / nan % "
    twin, rival = "+1.0 ± 0.0 / +0.0 ± 0.0 / +0.0 ± 0.0", "-1.0 / +0.0 / +0.0"
    assert line.endswith(f"{gains}| {twin} | {rival} | 2 |")


def test_the_figure_names_every_row_and_both_ends(tmp_path: Path) -> None:
    (tmp_path / "fashion").mkdir()
    for row, accuracy in {"biased": 0.6, "unbiased": 0.7, "own": 0.65}.items():
        measures = dict.fromkeys(("linear_top1", "knn", "mean_classifier"), accuracy)
        (tmp_path / "fashion" / f"{row}-seed0.json").write_text(json.dumps({"measures": measures}))
    figures = plot(tmp_path)
    assert figures.keys() == {"gap-fashion"}
    for word in ("biased", "unbiased", ROWS["own"].label, "Fashion-MNIST", "kNN", "mean classifier"):
        assert word in figures["gap-fashion"]


def test_worth_beforehand_beside_what_training_closed(tmp_path: Path) -> None:
    (tmp_path / "fashion").mkdir()
    rows = {"biased": 0.6, "unbiased": 0.7, "groups-85": 0.68, "groups-70": 0.64, "own": 0.6, "random-groups": 0.6}
    for row, accuracy in rows.items():
        measures = {"linear_top1": accuracy, "knn": accuracy, "mean_classifier": 1.3 - accuracy}
        (tmp_path / "fashion" / f"{row}-seed0.json").write_text(json.dumps({"measures": measures}))
    before = {
        name: {"force_share": 10 * rows[name] - 6, "repulsion_removed": 6.5 - 10 * rows[name]}
        for name in ("groups-85", "groups-70", "own")
    }
    (tmp_path / "fashion" / "before-seed0.json").write_text(json.dumps({"before": before}))
    assert len(markdown(tmp_path).splitlines()) == 4 + len(rows)
    lines = force_markdown(tmp_path).splitlines()
    assert "| groups, 85 % right | 0.80 | -0.30 | 80 % | 80 % | 80 % | 1 |" in lines
    assert not any("attraction" in line for line in lines)
    for line, word, sign in zip(lines[-2:], ("force share", "repulsion removed"), ("", "-"), strict=True):
        wanted = f"{sign}1.00 linear, {sign}1.00 kNN, {sign}1.00 mean classifier"
        assert line == f"Correlation of {word} and gap closed over 3 sources: {wanted}."


def test_the_tables_of_the_document_are_those_of_the_results() -> None:
    root = Path(__file__).parents[2]
    document, results = (root / "docs/membership-results.md").read_text(), root / "results/membership"
    for table in (length_markdown(root / "results/membership_length"), markdown(results), force_markdown(results)):
        assert table in document
    runs = [json.loads(path.read_text()) for path in results.glob("*/*.json")]
    assert not any(run.get("modified") for run in runs)
    assert {run["settings"]["data"]["root"] for run in runs if "settings" in run} == {None}
