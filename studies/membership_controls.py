"""Controls of the study of memberships: other ways to use the same knowledge, trained beside the package's own.

Cross-entropy on the known labels beside the biased loss, and regression on the features of a guide without any
contrast. Encoder, start, order, views, optimiser and length are those of the other rows.
"""

from collections.abc import Callable, Generator
from functools import partial
from pathlib import Path

from torch import Tensor, nn
from torch.nn import functional as F

from debiased_contrastive.images.settings import SimCLRSettings
from debiased_contrastive.images.simclr import SimCLR
from debiased_contrastive.images.sources import read_training_images
from debiased_contrastive.reproduce import controls
from debiased_contrastive.runs import Run, open_run
from debiased_contrastive.training.loop import Update
from debiased_contrastive.training.machine import start_fabric
from debiased_contrastive.training.settings import as_json


class Regression(nn.Module):
    """A linear layer on the features of views learns the features of a guide of the whole images."""

    def __init__(self, method: SimCLR, dim: int) -> None:
        super().__init__()
        self.encoder = method.encoder
        self.layer = nn.Linear(method.encoder.feature_dim, dim)  # type: ignore[arg-type]

    def forward(self, views: Tensor, targets: Tensor, ids: Tensor) -> Tensor:
        """Mean squared error between views (2, b, ...) and targets (b, dim)."""
        del ids
        return F.mse_loss(self.layer(self.encoder(views.flatten(0, 1))), targets.repeat(len(views), 1))


def train_with_classifier(settings: SimCLRSettings, share: float, folder: Path) -> Run:
    """Train the loss of the settings beside cross-entropy on the share of labels that a membership would read."""
    return _train(settings, folder, partial(controls.train_with_classifier, share=share))


def train_regression(settings: SimCLRSettings, guide: Tensor, folder: Path) -> Run:
    """Train the encoder to tell the features (n, d) of a guide, each of mean 0 and variance 1."""
    targets = (guide - guide.mean(0)) / guide.std(0).clamp(min=1e-6)
    extend = partial(Regression, dim=guide.shape[1])
    return _train(settings, folder, partial(controls.train_control, targets=targets, extend=extend))


def _train(settings: SimCLRSettings, folder: Path, train: Callable[..., Generator[Update, None, None]]) -> Run:
    fabric = start_fabric(settings.training.accelerator, settings.training.precision)
    run, images = open_run(folder, as_json(settings), "images"), read_training_images(settings.data)
    for _ in train(settings, run, fabric, images):
        pass
    return run
