"""How long must biased training be until it stops improving, at which temperature, and what is the gap there?

    python -m studies.membership_length --out results/membership_length
    python -m studies.membership_length --tables results/membership_length

Whatever speeds training up looks like a gain while biased training still improves, so gains are measured where it
no longer does. The environment variable DEBIASED_DATA names the folder of the images, of both sets.
"""

from argparse import Namespace
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any, Literal

import torch
from torch import Tensor

from debiased_contrastive.evaluation.geometry import knn_accuracy, mean_classifier
from debiased_contrastive.evaluation.linear import linear_probe
from debiased_contrastive.images.evaluate import compute_features
from debiased_contrastive.images.frozen import load_encoder
from debiased_contrastive.images.images import ImageSet
from debiased_contrastive.images.presets import SIMCLR_PRESETS
from debiased_contrastive.images.settings import SimCLRSettings
from debiased_contrastive.images.sources import read_probe_images
from debiased_contrastive.report.numbers import markdown_table, mean_cell, paired_differences
from debiased_contrastive.reproduce.results import read_percent, read_results
from debiased_contrastive.reproduce.runner import Job, grid
from debiased_contrastive.runs import Run
from studies.command import Study, main

PROBES = {"linear": "linear_top1", "kNN": "knn", "mean classifier": "mean_classifier"}
KINDS: tuple[Literal["biased", "unbiased"], ...] = ("biased", "unbiased")


@dataclass(frozen=True)
class Setting:
    """What is varied until biased training is done."""

    data: str
    width: int
    batch: int
    temperature: float
    epochs: int

    @property
    def name(self) -> str:
        """The name of its rows, without the objective."""
        return f"{self.data}-width{self.width}-batch{self.batch}-t{self.temperature}-epochs{self.epochs}"

    def settings(self) -> SimCLRSettings:
        """Settings of biased training; Adam at 2e-3 with a cosine, so that the end of a run is at rest."""
        base = SIMCLR_PRESETS["cifar10-small" if self.data == "cifar10" else "demo"].settings
        data = base.data
        if self.data == "fashion":
            data = replace(data, name="fashion-mnist", per_class=500)
        training = replace(
            base.training,
            epochs=self.epochs,
            batch=self.batch,
            learning_rate=2e-3,
            schedule="cosine",
            # The kNN accuracy at ten places of each run.
            knn_every=max(1, self.epochs // 10),
            checkpoint_every=10**6,
        )
        objective = replace(base.objective, kind="biased", temperature=self.temperature)
        encoder = replace(base.encoder, width=self.width)
        return replace(base, data=data, encoder=encoder, objective=objective, training=training)


SETTINGS = (
    *(Setting("fashion", 16, 128, t, 30) for t in (0.5, 0.2, 0.1)),
    Setting("fashion", 16, 128, 0.2, 60),
    Setting("fashion", 16, 128, 0.2, 120),
    Setting("fashion", 32, 128, 0.2, 30),
    *(Setting("cifar10", 16, 128, t, 60) for t in (0.5, 0.2, 0.1)),
    Setting("cifar10", 16, 128, 0.2, 120),
    Setting("cifar10", 16, 64, 0.2, 60),
)


def make_jobs(flags: Namespace) -> Iterator[Job]:
    """Both objectives at every setting."""
    rows = {}
    for setting in SETTINGS:
        base = setting.settings()
        for kind in KINDS:
            rows[f"{setting.name}-{kind}"] = replace(base, objective=replace(base.objective, kind=kind))
    return grid(rows, flags.seeds, "images", measure)


def measure(settings: Any, run: Run, images: Any) -> dict[str, Any]:
    """The three probes at the end, and the accuracy of neighbours on the way."""
    del images
    return {"measures": probe(settings, run), "knn": read_course(run)}


def probe(settings: Any, run: Run) -> dict[str, float]:
    """Accuracies of the frozen encoder; no map and no geometry, which cost more than they do."""
    encoder = load_encoder(run.folder).network
    train, test = read_probe_images(settings.data)
    device = torch.device("cpu")
    x, y = (compute_features(encoder, part, settings.views, device) for part in (train, test))
    return probe_features(x, train, y, test)


def probe_features(x: Tensor, train: ImageSet, y: Tensor, test: ImageSet) -> dict[str, float]:
    """Accuracies of features x (n, d) of training images and y (m, d) of test images."""
    assert train.labels is not None
    assert test.labels is not None
    labelled = (x, train.labels, y, test.labels)
    return {
        "linear_top1": linear_probe(*labelled).top1,
        "knn": knn_accuracy(*labelled),
        "mean_classifier": mean_classifier(*labelled).accuracy,
    }


def read_course(run: Run) -> dict[str, float]:
    """The accuracy of neighbours on the way, by step."""
    return {str(line["step"]): line["knn"] for line in run.metrics() if "knn" in line}


def markdown(folder: Path) -> str:
    """One row for each setting: biased accuracies, what kNN gained in the last third, and the gap to unbiased."""
    results = read_results(folder)
    lines = []
    for setting in SETTINGS:
        biased, unbiased = (results.get(f"{setting.name}-{kind}", {}) for kind in KINDS)
        if not biased:
            continue
        gaps = [
            mean_cell(paired_differences(read_percent(unbiased, key), read_percent(biased, key)), "+")
            for key in PROBES.values()
        ]
        lines.append([
            "CIFAR10, five classes" if setting.data == "cifar10" else "Fashion-MNIST, 5,000",
            *map(str, (setting.width, setting.batch, setting.temperature, setting.epochs)),
            *(mean_cell(list(read_percent(biased, key).values())) for key in PROBES.values()),
            mean_cell([fmean(map(gain_in_last_third, biased.values()))], "+"),
            *gaps,
            str(len(biased)),
        ])  # fmt: skip
    head = [
        "data",
        "width",
        "batch",
        "t",
        "epochs",
        *PROBES,
        "kNN, last third",
        *(f"gap, {name}" for name in PROBES),
    ]
    return markdown_table([*head, "seeds"], lines)


def gain_in_last_third(result: dict[str, Any]) -> float:
    """How much the kNN accuracy rose from two thirds of the training to its end, in points."""
    course: dict[int, float] = {int(step): 100 * value for step, value in result["knn"].items()}
    at = min(course, key=lambda step: abs(step - max(course) * 2 / 3))
    return course[max(course)] - course[at]


STUDY = Study(make_jobs, (markdown,), seeds=1)

if __name__ == "__main__":
    main("studies.membership_length")
