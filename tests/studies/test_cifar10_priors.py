"""The estimators on images: pairs are what they are called, files are made once, and the table shows them."""

import json
from functools import partial
from pathlib import Path

import pytest
import torch
from torch.nn import functional as F

from debiased_contrastive.prior import mixture
from debiased_contrastive.reproduce.runner import Job, fill
from studies import cifar10_priors
from studies.cifar10_priors import Sample, class_pairs, compare, markdown, random_pairs
from studies.gap import make_jobs
from studies.priors import METHODS
from tests.studies.test_gap import tiny


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def write(folder: Path, representation: str, positives: str, auc: float, warnings: list[str]) -> None:
    estimates = [
        {"method": method, "value": 0.1, "low": 0.05, "high": 0.2, "warnings": warnings} for method in METHODS
    ]
    record = {"representation": representation, "positives": positives, "auc": auc, "estimates": estimates}
    (folder / f"{representation}-{positives}.json").write_text(json.dumps(record))


def test_the_table_has_class_pairs_first_and_stars_for_warnings(tmp_path: Path) -> None:
    write(tmp_path, "pixels", "view", 0.75, ["hardly told apart"])
    write(tmp_path, "projections", "class", 0.625, [])
    write(tmp_path, "pixels", "class", 0.5, [])
    header, rule, *rows = markdown(tmp_path).splitlines()
    assert header == f"| representation | positives | AUC | {' | '.join(METHODS)} |"
    assert rule.count("|") == header.count("|")
    plain = " | ".join(["0.1000 (0.050 to 0.200)"] * len(METHODS))
    assert rows == [
        f"| pixels | class | 0.500 | {plain} |",
        f"| projections | class | 0.625 | {plain} |",
        f"| pixels | view | 0.750 | {plain.replace('0.1000', '0.1000*')} |",
    ]


def test_random_pairs_are_of_two_images_and_all_of_them_occur() -> None:
    pairs = random_pairs(5, 2000, generator())
    assert pairs.shape == (2000, 2)
    assert (pairs[:, 0] != pairs[:, 1]).all()
    counts = (pairs[:, 0] * 5 + pairs[:, 1]).bincount(minlength=25).view(5, 5)
    # 2,000 draws of 20 pairs: 100 each, with a standard deviation of 10.
    assert ((counts - 100).abs() < 50)[~torch.eye(5, dtype=torch.bool)].all()


def test_class_pairs_share_their_label_and_are_of_two_images() -> None:
    labels = torch.tensor([0, 1, 2] * 20 + [3])
    pairs = class_pairs(labels, 300, generator())
    assert pairs.shape == (300, 2)
    assert (labels[pairs[:, 0]] == labels[pairs[:, 1]]).all()
    assert (pairs[:, 0] != pairs[:, 1]).all()
    assert len(pairs.sort(1).values.unique(dim=0)) == 300
    assert set(labels[pairs].unique().tolist()) == {0, 1, 2}


def test_principal_components_are_centred_and_not_whitened() -> None:
    scale = torch.linspace(1, 9, 12).view(3, 2, 2)
    images = 5 + scale * torch.randn(400, 3, 2, 2, generator=generator())
    pixels, components = cifar10_priors.fit_pixels(images)
    # All twelve dimensions fit: a rotation, which a whitened one would not be.
    torch.testing.assert_close(_cosines(pixels(images)), _cosines(components(images)), atol=1e-4, rtol=0)
    torch.testing.assert_close(components(images).mean(0), torch.zeros(12), atol=1e-3, rtol=0)


def test_principal_components_are_the_first_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cifar10_priors, "PCA_DIMENSIONS", 1)
    images = torch.randn(400, 3, 2, 2, generator=generator()) * torch.tensor([1.0, 9.0, 1.0]).view(3, 1, 1)
    images[:, 1] = images[:, 1, :1, :1]
    _, components = cifar10_priors.fit_pixels(images)
    assert components(images).square().sum() > 0.9 * images.square().sum()


def test_every_kind_is_compared_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    quick = {name: (function, 2) for name, (function, _) in mixture._ESTIMATORS.items()}
    monkeypatch.setattr(mixture, "_ESTIMATORS", quick)
    monkeypatch.setattr(cifar10_priors, "PAIRS", (200, 1000))
    labels = torch.arange(100) % 2
    images = labels.view(-1, 1, 1, 1) * 4 + torch.randn(100, 3, 2, 2, generator=generator())
    views = images + 0.01 * torch.randn(2, 100, 3, 2, 2, generator=generator())
    sample = Sample(images, labels, views, truth=0.5)
    kept = tmp_path / "pixels-class.json"
    kept.write_text("kept")
    monkeypatch.setattr(cifar10_priors, "load", lambda _run: (sample, {"pixels": lambda x: (x - 2).flatten(1)}))
    monkeypatch.setattr(cifar10_priors, "finished_run", Path)
    monkeypatch.setattr(cifar10_priors, "describe_run", lambda _run: {"revision": "abc"})
    jobs = [Job(f"pixels-{kind}", partial(compare, tmp_path, "pixels", kind)) for kind in ("class", "view")]
    fill(jobs, tmp_path, tmp_path)
    assert kept.read_text() == "kept"
    kept.unlink()
    fill(jobs, tmp_path, tmp_path)
    of_class, of_view = (json.loads((tmp_path / f"pixels-{kind}.json").read_text()) for kind in ("class", "view"))
    assert [estimate["method"] for estimate in of_class["estimates"]] == list(METHODS)
    assert (of_class["truth"], of_class["revision"], of_class["positives"]) == (0.5, "abc", "class")
    assert of_class["estimates"][METHODS.index("best-bin")]["value"] == pytest.approx(0.5, abs=0.1)
    # Two classes: a positive is above the half of the random pairs that are of two, and ties the other half.
    assert of_class["auc"] == pytest.approx(0.75, abs=0.05)
    assert of_view["auc"] > 0.99
    assert len(markdown(tmp_path).splitlines()) == 4


def test_every_representation_of_a_run_gives_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = next(iter(make_jobs(tiny(), 1)))
    with pytest.raises(FileNotFoundError, match="holds no run"):
        cifar10_priors.load(tmp_path / job.name)
    job.make(tmp_path)
    with pytest.raises(ValueError, match="must be of cifar10; got fashion"):
        cifar10_priors.load(tmp_path / job.name)
    images = torch.randn(100, 1, 28, 28, generator=generator())
    sample = Sample(images, torch.arange(100) % 2, images.expand(2, -1, -1, -1, -1), truth=0.5)
    monkeypatch.setattr(cifar10_priors, "draw_sample", lambda _settings: sample)
    _, representations = cifar10_priors.load(tmp_path / job.name)
    shapes = {name: represent(images).shape for name, represent in representations.items()}
    assert shapes == {"pixels": (100, 784), "PCA": (100, 64), "features": (100, 32), "projections": (100, 8)}


def _cosines(rows: torch.Tensor) -> torch.Tensor:
    return F.normalize(rows) @ F.normalize(rows).T
