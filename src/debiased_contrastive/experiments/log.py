"""What a training writes down on its way: one line of metrics every few steps."""

import time
from dataclasses import asdict
from typing import Any, cast

import torch
from lightning_fabric import Fabric
from torch import Tensor

from debiased_contrastive.data.folder import FolderImages
from debiased_contrastive.data.images import Images
from debiased_contrastive.evaluation.knn import knn_accuracy
from debiased_contrastive.experiments.features import features_of
from debiased_contrastive.experiments.images import probe_images
from debiased_contrastive.experiments.settings import Settings
from debiased_contrastive.methods.simclr import QueueSimCLR, SimCLR, false_negative_rate
from debiased_contrastive.runs import Run
from debiased_contrastive.training.order import indices_of


class Log:
    """Lines of metrics at their steps, with the time between them."""

    def __init__(
        self,
        settings: Settings,
        run: Run,
        fabric: Fabric,
        method: SimCLR | QueueSimCLR,
        epoch: int,
        images: Images | FolderImages,
        start: int,
        *,
        tensorboard: bool,
    ) -> None:
        self.settings, self.run, self.fabric, self.method, self.epoch = settings, run, fabric, method, epoch
        self.labels = images.labels
        self.probes: tuple[Images | FolderImages, Images | FolderImages] | None = None
        self.count = len(images)
        self.writer: Any = None
        if tensorboard and fabric.is_global_zero:
            from torch.utils.tensorboard import SummaryWriter

            self.writer = SummaryWriter(str(run.folder / "tensorboard"), purge_step=start + 1)
        self.seen, self.time = 0, time.perf_counter()

    def after(self, step: int, loss: Tensor, rate: float) -> None:
        """Log if it is time to."""
        training = self.settings.training
        self.seen += training.batch
        knn = bool(training.knn_every) and step % (training.knn_every * self.epoch) == 0
        if step % training.log_every and not knn and step > 1:
            return
        values = {
            "epoch": step / self.epoch,
            "loss": float(cast(Tensor, self.fabric.all_reduce(loss.float(), reduce_op="mean"))),
            "learning_rate": rate,
            "images_per_second": self.seen / (time.perf_counter() - self.time),
            "false_negative_rate": self._false_negative_rate(step),
            **asdict(self.method.loss.diagnostics),
        }
        # The other diagnostics are quantiles, which have no mean over processes: they are the first one's.
        floored = torch.tensor(values["floored"], device=self.fabric.device)
        values["floored"] = float(cast(Tensor, self.fabric.all_reduce(floored, reduce_op="mean")))
        if self.fabric.is_global_zero:
            if knn:
                values["knn"] = self._knn()
            self.run.log(step, values)
            if self.writer is not None:
                for name, value in values.items():
                    if value is not None:
                        self.writer.add_scalar(name, value, step)
                self.writer.flush()
        self.seen, self.time = 0, time.perf_counter()

    def _false_negative_rate(self, step: int) -> float | None:
        if self.labels is None:
            return None
        ids = indices_of(step - 1, self.count, self.settings.training.batch, self.settings.seed)
        labels = self.labels[ids]
        if bool((self.labels < 0).any()):
            return None
        if not isinstance(self.method, QueueSimCLR):
            return false_negative_rate(labels)
        stored = self.method.queue.ids.cpu()
        return false_negative_rate(labels, self.labels[stored], ids.unsqueeze(1) == stored)

    def _knn(self) -> float:
        device, views = self.fabric.device, self.settings.views
        if self.probes is None:
            self.probes = probe_images(self.settings.data)
        train, test = self.probes
        assert train.labels is not None
        assert test.labels is not None
        sets = [features_of(self.method.encoder, images, views, device) for images in (train, test)]
        return knn_accuracy(sets[0], train.labels, sets[1], test.labels)
