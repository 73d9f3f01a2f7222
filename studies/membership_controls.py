"""Controls of the study of memberships: other ways to use the same knowledge, trained beside the package's own.

Cross-entropy on the known labels beside the biased loss, and regression on the features of a guide without any
contrast. Encoder, start, order, views, optimiser and length are those of the other rows.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from debiased_contrastive.images.networks import make_method
from debiased_contrastive.images.run import make_inputs
from debiased_contrastive.images.settings import SimCLRSettings
from debiased_contrastive.images.simclr import SimCLR
from debiased_contrastive.images.sources import batch_indices, draw_known_labels, read_training_images
from debiased_contrastive.numerics import derive_seed
from debiased_contrastive.runs import Run, open_run
from debiased_contrastive.training.gradient import GradientLearner, steps_per_epoch
from debiased_contrastive.training.loop import Identity, fit
from debiased_contrastive.training.machine import start_fabric
from debiased_contrastive.training.settings import as_json
from debiased_contrastive.training.weights import save_encoder


class WithClassifier(nn.Module):
    """SimCLR with a linear classifier on its features, which learns the known labels at the same time."""

    def __init__(self, method: SimCLR, classes: int) -> None:
        super().__init__()
        self.method, self.encoder = method, method.encoder
        self.classifier = nn.Linear(method.encoder.feature_dim, classes)  # type: ignore[arg-type]

    def forward(self, views: Tensor, targets: Tensor) -> Tensor:
        """The loss between views (2, b, ...), and the cross-entropy with labels (b,), -1 where unknown."""
        features = self.encoder(views.flatten(0, 1))
        z = self.method.projector(features).unflatten(0, views.shape[:2])
        labels = targets.repeat(len(views))
        wrong = F.cross_entropy(self.classifier(features), labels, ignore_index=-1, reduction="sum")
        loss: Tensor = self.method.loss(*z) + wrong / (labels >= 0).sum().clamp(min=1)
        return loss


class Regression(nn.Module):
    """A linear layer on the features of views learns the features of a guide of the whole images."""

    def __init__(self, method: SimCLR, dim: int) -> None:
        super().__init__()
        self.encoder = method.encoder
        self.layer = nn.Linear(method.encoder.feature_dim, dim)  # type: ignore[arg-type]

    def forward(self, views: Tensor, targets: Tensor) -> Tensor:
        """Mean squared error between views (2, b, ...) and targets (b, dim)."""
        return F.mse_loss(self.layer(self.encoder(views.flatten(0, 1))), targets.repeat(len(views), 1))


def train_with_classifier(settings: SimCLRSettings, share: float, folder: Path) -> Run:
    """Train the biased loss beside cross-entropy on a share of the labels, those that a membership would read."""
    images = read_training_images(settings.data)
    assert images.labels is not None
    known = draw_known_labels(images.labels, share, settings.seed)
    return _train(settings, folder, images, known, lambda method: WithClassifier(method, len(images.class_names)))


def train_regression(settings: SimCLRSettings, guide: Tensor, folder: Path) -> Run:
    """Train the encoder to tell the features (n, d) of a guide, each of mean 0 and variance 1."""
    targets = (guide - guide.mean(0)) / guide.std(0).clamp(min=1e-6)
    images = read_training_images(settings.data)
    return _train(settings, folder, images, targets, lambda method: Regression(method, guide.shape[1]))


def _train(settings: SimCLRSettings, folder: Path, images: Any, targets: Tensor, extend: Any) -> Run:
    fabric = start_fabric(settings.training.accelerator, settings.training.precision)
    run = open_run(folder, as_json(settings), "images")
    epoch = steps_per_epoch(len(images), settings.training.batch)
    torch.manual_seed(derive_seed(settings.seed, "weights"))
    module = extend(make_method(settings, gather=False))

    def inputs(wanted: range) -> Iterator[dict[str, Any]]:
        for step, given in zip(wanted, make_inputs(settings, images, fabric, wanted), strict=True):
            yield {"views": given["views"], "targets": targets[batch_indices(settings, step, len(images))]}

    learner = GradientLearner(
        module,
        settings.training,
        fabric,
        seed=settings.seed,
        epoch=epoch,
        unit="images",
        inputs=inputs,
        measure=lambda _step: {},
        is_due=lambda _step: False,
    )
    for _ in fit(learner, run, fabric, Identity(as_json(settings), len(images), images.digest)):
        pass
    save_encoder(run.folder, module.encoder, as_json(settings))
    return run
