"""Trainings that the package has no settings for: modules around SimCLR with targets of their own.

Encoder, start, order, views, optimiser and length are those of other runs with the same settings.
"""

from collections.abc import Callable, Generator, Iterator
from typing import Any

import torch
from lightning_fabric import Fabric
from torch import Tensor, nn
from torch.nn import functional as F

from debiased_contrastive.images.knowledge import Source
from debiased_contrastive.images.networks import make_method
from debiased_contrastive.images.run import make_inputs
from debiased_contrastive.images.settings import SimCLRSettings
from debiased_contrastive.images.simclr import SimCLR
from debiased_contrastive.images.sources import batch_indices, draw_known_labels
from debiased_contrastive.numerics import derive_seed
from debiased_contrastive.runs import Run
from debiased_contrastive.training.gradient import GradientLearner, steps_per_epoch
from debiased_contrastive.training.loop import Identity, Update, fit
from debiased_contrastive.training.settings import as_json
from debiased_contrastive.training.weights import save_encoder


class WithClassifier(nn.Module):
    """SimCLR with a linear classifier on its features, which learns the known labels at the same time."""

    def __init__(self, method: SimCLR, classes: int) -> None:
        super().__init__()
        self.method, self.encoder = method, method.encoder
        self.classifier = nn.Linear(method.encoder.feature_dim, classes)  # type: ignore[arg-type]

    def forward(self, views: Tensor, targets: Tensor, ids: Tensor) -> Tensor:
        """The loss between views (2, b, ...) of images `ids`, and the cross-entropy with labels (b,), -1 = unknown.

        What the method knows about classes of the images is told to its loss.
        """
        features = self.encoder(views.flatten(0, 1))
        z = self.method.projector(features).unflatten(0, views.shape[:2])
        known = {} if self.method.known is None else self.method.known.of_batch(ids)
        labels = targets.repeat(len(views))
        wrong = F.cross_entropy(self.classifier(features), labels, ignore_index=-1, reduction="sum")
        loss: Tensor = self.method.loss(*z, **known) + wrong / (labels >= 0).sum().clamp(min=1)
        return loss


class WithPriors(nn.Module):
    """SimCLR whose correction has a tau_plus of its own for each anchor."""

    def __init__(self, method: SimCLR) -> None:
        super().__init__()
        self.method, self.encoder = method, method.encoder

    def forward(self, views: Tensor, targets: Tensor, ids: Tensor) -> Tensor:
        """The loss between views (2, b, ...), with the tau_plus (b,) of each input."""
        del ids
        z = self.method.projector(self.encoder(views.flatten(0, 1))).unflatten(0, views.shape[:2])
        loss: Tensor = self.method.loss(*z, tau_plus=targets)
        return loss


def train_with_classifier(
    settings: SimCLRSettings, run: Run, fabric: Fabric, images: Any, *, share: float
) -> Generator[Update, None, None]:
    """The loss of the settings beside cross-entropy on a share of the labels, those that a membership reads."""
    known = draw_known_labels(images.labels, share, settings.seed)
    classes = len(images.class_names)
    return train_control(settings, run, fabric, images, known, lambda method: WithClassifier(method, classes))


def train_with_priors(
    settings: SimCLRSettings, run: Run, fabric: Fabric, images: Any
) -> Generator[Update, None, None]:
    """The share of an anchor's own class as its tau_plus, for which the labels of the anchors are read."""
    shares = images.labels.bincount().float() / len(images)
    return train_control(settings, run, fabric, images, shares[images.labels], WithPriors)


def train_control(
    settings: SimCLRSettings,
    run: Run,
    fabric: Fabric,
    images: Any,
    targets: Tensor,
    extend: Callable[[SimCLR], nn.Module],
) -> Generator[Update, None, None]:
    """Train what `extend` makes of a fresh SimCLR, on views and the targets of their images, as `fit` does."""
    epoch = steps_per_epoch(len(images), settings.training.batch)
    torch.manual_seed(derive_seed(settings.seed, "weights"))
    method = make_method(settings, gather=False)
    assert isinstance(method, SimCLR)

    source = Source(settings, images, fabric, method, epoch)

    def inputs(wanted: range) -> Iterator[dict[str, Any]]:
        views = make_inputs(settings, images, fabric, wanted, prepare=source.refresh)
        for step, given in zip(wanted, views, strict=True):
            ids = batch_indices(settings, step, len(images))
            own = {"targets": targets[ids], "ids": ids}
            yield {"views": given["views"], **{name: part.to(fabric.device) for name, part in own.items()}}

    learner = GradientLearner(
        extend(method),
        settings.training,
        fabric,
        seed=settings.seed,
        epoch=epoch,
        unit="images",
        inputs=inputs,
        measure=lambda _step: {},
        is_due=lambda _step: False,
    )
    yield from fit(learner, run, fabric, Identity(as_json(settings), len(images), images.digest))
    save_encoder(run.folder, method.encoder, as_json(settings))
