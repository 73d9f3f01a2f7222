"""What is done with points."""

import json
from collections.abc import Generator, Iterator, Sequence
from typing import Any

import torch
from lightning_fabric import Fabric
from torch import Tensor, nn

from debiased_contrastive import DebiasedNTXentLoss
from debiased_contrastive.domain import Bar, Progress
from debiased_contrastive.evaluation.geometry import knn_accuracy
from debiased_contrastive.files import write_atomically
from debiased_contrastive.numerics import derive_seed, make_generator
from debiased_contrastive.runs import EVALUATION, Run, finished_run
from debiased_contrastive.training.gradient import GradientLearner
from debiased_contrastive.training.loggers import LogName
from debiased_contrastive.training.loop import Identity, Update, fit
from debiased_contrastive.training.settings import as_json, from_json
from debiased_contrastive.training.weights import load_trained, save_encoder
from tests.toy.domain import PointSettings


class Method(nn.Module):
    """An encoder of points, and the loss between its copies."""

    def __init__(self, settings: PointSettings) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 8))
        self.loss = DebiasedNTXentLoss(0.5, settings.objective.correction)

    def forward(self, views: Tensor) -> Tensor:
        loss: Tensor = self.loss(*map(self.encoder, views))
        return loss


def draw_points(settings: PointSettings, name: str) -> tuple[Tensor, Tensor]:
    labels = torch.arange(3).repeat_interleave(settings.count)
    angle = 2 * torch.pi * labels / 3
    centres = torch.stack([angle.cos(), angle.sin()], 1)
    return centres + 0.3 * torch.randn(len(labels), 2, generator=make_generator(0, name)), labels


def open_points(settings: PointSettings, _fabric: Fabric, _flags: Any, _progress: Progress) -> Tensor:
    if settings.training.batch > 3 * settings.count:
        raise ValueError(f"batch must be at most {3 * settings.count}; got {settings.training.batch}")
    return draw_points(settings, "train")[0]


def train(
    settings: PointSettings, run: Run, fabric: Fabric, points: Tensor, *, log: Sequence[LogName] = ()
) -> Generator[Update, None, None]:
    torch.manual_seed(derive_seed(settings.seed, "weights"))
    method, batch = Method(settings), settings.training.batch

    def inputs(steps: range) -> Iterator[dict[str, Tensor]]:
        for step in steps:
            generator = make_generator(settings.seed, "views", step)
            chosen = points[torch.randperm(len(points), generator=generator)[:batch]]
            yield {"views": chosen + 0.05 * torch.randn(2, *chosen.shape, generator=generator)}

    learner = GradientLearner(
        method, settings.training, fabric, seed=settings.seed, epoch=len(points) // batch, unit="points",
        inputs=inputs, measure=lambda _step: {"floored": method.loss.diagnostics.floored},
    )  # fmt: skip
    yield from fit(learner, run, fabric, Identity(as_json(settings), len(points)), log=log)
    save_encoder(run.folder, method.encoder, as_json(settings))


def evaluate(run: Run, _bar: Bar) -> None:
    settings = from_json(PointSettings, finished_run(run.folder).settings)
    encoder = Method(settings).encoder
    load_trained(run, encoder)
    with torch.no_grad():
        known, test = ((encoder(x), y) for x, y in (draw_points(settings, name) for name in ("train", "test")))
    write_atomically(run.folder / EVALUATION, json.dumps({"knn": knn_accuracy(*known, *test, k=5)}) + "\n")
