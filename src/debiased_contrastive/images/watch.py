"""What is worth knowing of a training on images while it goes on."""

from dataclasses import asdict
from typing import Any, cast

import torch
from lightning_fabric import Fabric
from torch import Tensor

from debiased_contrastive.evaluation.knn import knn_accuracy
from debiased_contrastive.images.cmc import CMC
from debiased_contrastive.images.features import features_of
from debiased_contrastive.images.folder import FolderImages
from debiased_contrastive.images.images import Images
from debiased_contrastive.images.settings import Settings
from debiased_contrastive.images.simclr import QueueSimCLR, SimCLR, false_negative_rate, false_negative_rate_of_all
from debiased_contrastive.images.sources import batch_of, probe_images


class Watch:
    """The loss's diagnostics, the share of false negatives, and now and then whether neighbours share a class."""

    def __init__(
        self,
        settings: Settings,
        fabric: Fabric,
        method: SimCLR | QueueSimCLR | CMC,
        epoch: int,
        images: Images | FolderImages,
    ) -> None:
        self.settings, self.fabric, self.method, self.epoch = settings, fabric, method, epoch
        self.labels, self.count = images.labels, len(images)
        self.probes: tuple[Images | FolderImages, Images | FolderImages] | None = None

    def is_due(self, step: int) -> bool:
        """Whether neighbours are looked at after this step."""
        every = self.settings.training.knn_every
        return bool(every) and step % (every * self.epoch) == 0

    def measured(self, step: int) -> dict[str, Any]:
        """Values by name; on every process, since some are means over all."""
        values = {"false_negative_rate": self._false_negative_rate(step), **asdict(self.method.loss.diagnostics)}
        # The other diagnostics are quantiles, which have no mean over processes: they are the first one's.
        floored = torch.tensor(values["floored"], device=self.fabric.device)
        values["floored"] = float(cast(Tensor, self.fabric.all_reduce(floored, reduce_op="mean")))
        if self.fabric.is_global_zero and self.is_due(step):
            values["knn"] = self._knn()
        return values

    def _false_negative_rate(self, step: int) -> float | None:
        if self.labels is None:
            return None
        ids = batch_of(self.settings, step - 1, self.count)
        labels = self.labels[ids]
        if bool((self.labels < 0).any()):
            return None
        if isinstance(self.method, CMC):
            return false_negative_rate_of_all(labels, self.labels, exclude_own=self.settings.objective.exclude_own)
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
