"""What is known about the classes of the images that are trained on: made as the settings say, and measured."""

import sys
from typing import Any

import torch
from lightning_fabric import Fabric
from torch import Tensor, nn
from torch.nn import functional as F

from debiased_contrastive.images.cmc import CMC
from debiased_contrastive.images.evaluate import compute_features, read_batches
from debiased_contrastive.images.images import FolderImages, Images
from debiased_contrastive.images.settings import ImageSettings
from debiased_contrastive.images.simclr import QueueSimCLR, SimCLR
from debiased_contrastive.images.sources import draw_known_labels
from debiased_contrastive.membership.classifier import from_few_labels
from debiased_contrastive.membership.files import Array, read_rows
from debiased_contrastive.membership.force import force_share
from debiased_contrastive.membership.guide import from_guide
from debiased_contrastive.membership.held import pack, unpack
from debiased_contrastive.membership.knowledge import Knowledge
from debiased_contrastive.membership.labels import from_groups, from_labels
from debiased_contrastive.membership.patches import LARGEST_SIDE, patch_features
from debiased_contrastive.membership.quality import pair_figures
from debiased_contrastive.numerics import make_generator
from debiased_contrastive.training.machine import compute_once

MEASURED = 2000
"""Largest number of images by which the worth of the knowledge is measured."""


class Source:
    """Makes the knowledge that a method holds when it is due, and measures what it is worth."""

    def __init__(
        self,
        settings: ImageSettings,
        images: Images | FolderImages,
        fabric: Fabric,
        method: SimCLR | QueueSimCLR | CMC,
        epoch: int,
    ) -> None:
        self.settings, self.images, self.fabric, self.method, self.epoch = settings, images, fabric, method, epoch
        self.rows = read_rows(settings.membership.source, settings.membership.file, len(images))

    def refresh(self, step: int) -> None:
        """Make the knowledge before a step, if it is due there: it is the same on every process."""
        membership = self.settings.membership
        if not self._is_due(step, once=not membership.is_learnt):
            return
        assert self.method.known is not None
        before = self.method.known.knowledge
        # By one process alone: the numbers of clusters must be the same everywhere, to the last rounding.
        knowledge = unpack(compute_once(self.fabric, lambda: pack(self._make())))
        for warning in knowledge.warnings:
            if before is None or warning not in before.warnings:
                self.fabric.print(f"membership: {warning}", file=sys.stderr)
        self.method.known.hold(knowledge)

    def is_measured(self, step: int) -> bool:
        """Tell whether the worth is measured after this step: the first with knowledge, or some epochs later."""
        return self._is_due(step - 1)

    def _is_due(self, step: int, *, once: bool = False) -> bool:
        epoch, place = divmod(step, self.epoch)
        membership = self.settings.membership
        if membership.source == "none" or place or epoch < membership.begin:
            return False
        return epoch == membership.begin if once else (epoch - membership.begin) % membership.refresh == 0

    def _make(self) -> Knowledge:
        membership, seed = self.settings.membership, self.settings.seed
        if membership.reads_labels:
            assert self.images.labels is not None
            known, count = self._known_labels(self.images.labels), len(self.images.class_names)
            if membership.source == "labels":
                return from_labels(known, num_classes=count)
            return from_few_labels(self._features(), known, num_classes=count, seed=seed)
        if membership.source == "groups":
            assert self.rows is not None
            return from_groups(*self.rows.T)
        if membership.source == "own":
            guide: Array | Tensor = self._features()
        else:
            guide = self._patches() if self.rows is None else self.rows
        return from_guide(guide, form=membership.form, num_classes=membership.num_classes, seed=seed)

    def _known_labels(self, labels: Tensor) -> Tensor:
        return draw_known_labels(labels, self.settings.membership.known, self.settings.seed)

    def _features(self) -> Tensor:
        method = self.method
        encoder = method.key_encoder if isinstance(method, QueueSimCLR) else method.encoder
        return compute_features(encoder, self.images, self.settings.views, self.fabric.device)

    def _patches(self) -> Tensor:
        # Shrunk before they are all in memory together.
        pixels = torch.cat([shrink(part) for part in read_batches(self.images)])
        return patch_features(pixels, seed=self.settings.seed)

    def measure(self) -> dict[str, float]:
        """The accuracy of votes by q, and the force share on the embeddings as they are; nothing without labels."""
        known, labels = self.method.known, self.images.labels
        if known is None or known.knowledge is None or labels is None:
            return {}
        chosen = (labels >= 0).nonzero()[:, 0]
        chosen = chosen[torch.randperm(len(chosen), generator=make_generator(0, "worth"))[:MEASURED]]
        sizes = labels[chosen].unique(return_counts=True)[1]
        if len(sizes) < 2 or int(sizes.max()) < 2:
            return {}
        told: dict[str, Any] = {name: rows.cpu() for name, rows in known.of_batch(chosen).items()}
        objective, membership = self.settings.objective, self.settings.membership
        values = {
            "force_share": force_share(
                self._embeddings(chosen),
                labels[chosen],
                **told,
                temperature=objective.temperature,
                strength=membership.strength,
            )
        }
        if membership.source == "classifier":
            # It is judged by the images whose label it did not know.
            labels = torch.where(self._known_labels(labels) < 0, labels, -1)
        figures = pair_figures(unpack(pack(known.knowledge)), labels)
        return values | {"membership_accuracy": figures["vote_accuracy"]} if "vote_accuracy" in figures else values

    def _embeddings(self, chosen: Tensor) -> Tensor:
        method = self.method
        if isinstance(method, CMC):
            # Stored luminances: what a colour is contrasted with.
            bank: Any = method.banks[0]
            stored: Tensor = bank.storage[chosen.to(bank.storage.device)]
            return stored.float().cpu()
        network = nn.Sequential(method.encoder, method.projector)
        return compute_features(network, self.images, self.settings.views, self.fabric.device, chosen=chosen)


def shrink(pixels: Tensor) -> Tensor:
    """Images (n, c, h, w) no larger than the patches of a guide need them."""
    side = min(max(pixels.shape[2:]), LARGEST_SIDE)
    if max(pixels.shape[2:]) == side:
        return pixels
    return F.interpolate(pixels.float(), (side, side), mode="area").round().byte()


def check_knowledge(settings: ImageSettings, images: Images | FolderImages) -> None:
    """Raise where the knowledge cannot be made of these images, or of the file that the settings name."""
    if settings.membership.reads_labels and images.labels is None:
        raise ValueError(
            f"membership.source {settings.membership.source} needs class folders; the images are in one folder: "
            "use groups, guide or own"
        )
    if settings.membership.source == "classifier" and len(images.class_names) < 2:
        raise ValueError(
            "membership.source classifier needs two classes or more; got one: use groups, guide or own"
        )
    read_rows(settings.membership.source, settings.membership.file, len(images))
