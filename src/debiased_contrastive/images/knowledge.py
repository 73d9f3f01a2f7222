"""What is known about the classes of the images that are trained on: made as the settings say, and measured."""

import sys
from dataclasses import replace
from typing import Any

import torch
from lightning_fabric import Fabric
from torch import Tensor, nn
from torch.nn import functional as F

from debiased_contrastive.images.cmc import CMC
from debiased_contrastive.images.evaluate import compute_features, read_batches
from debiased_contrastive.images.images import ImageSet
from debiased_contrastive.images.settings import ImageSettings
from debiased_contrastive.images.simclr import QueueSimCLR, SimCLR
from debiased_contrastive.images.sources import draw_known_labels
from debiased_contrastive.membership.classifier import from_few_labels
from debiased_contrastive.membership.files import Array, read_rows
from debiased_contrastive.membership.force import NoBiasError, force_share
from debiased_contrastive.membership.guide import from_guide
from debiased_contrastive.membership.knowledge import Knowledge
from debiased_contrastive.membership.labels import from_groups, from_labels
from debiased_contrastive.membership.patches import LARGEST_SIDE, patch_features
from debiased_contrastive.membership.quality import pair_figures
from debiased_contrastive.membership.strength import choose_strength
from debiased_contrastive.membership.training import pack, unpack
from debiased_contrastive.numerics import make_generator
from debiased_contrastive.training.machine import compute_once
from debiased_contrastive.training.membership import describe_tau_plus

DOUBTFUL = 0.1
"""A strength below which labels speak against the knowledge."""
MEASURED = 2000
"""Largest number of images by which the worth of the knowledge is measured."""


class Source:
    """Makes the knowledge that a method holds when it is due, and measures what it is worth."""

    def __init__(
        self,
        settings: ImageSettings,
        images: ImageSet,
        fabric: Fabric,
        method: SimCLR | QueueSimCLR | CMC,
        epoch: int,
    ) -> None:
        self.settings, self.images, self.fabric, self.method, self.epoch = settings, images, fabric, method, epoch
        self.rows = read_rows(settings.membership.source, settings.membership.file, len(images))

    def refresh(self, step: int) -> None:
        """Make the knowledge before a step, if it is due there: it is the same on every process."""
        membership = self.settings.membership
        if not self._is_due(step, once=not (membership.is_learnt or membership.is_auto)):
            return
        assert self.method.known is not None
        before = self.method.known.knowledge
        # By one process alone: the numbers of clusters must be the same everywhere, to the last rounding.
        knowledge = unpack(compute_once(self.fabric, lambda: pack(self._make(before))))
        said = () if before is None else self._remarks(before)
        for words in self._remarks(knowledge, first=before is None):
            if words not in said:
                self.fabric.print(f"membership: {words}", file=sys.stderr)
        self.method.known.hold(knowledge)

    def _remarks(self, knowledge: Knowledge, *, first: bool = False) -> tuple[str, ...]:
        """What a user is told of the knowledge, each once; what it replaces, and the reason, at first alone."""
        remarks, attraction = knowledge.warnings, self.settings.membership.attraction
        if first:
            remarks = (describe_tau_plus(self.settings.objective.tau_plus), *remarks, knowledge.reason)
        if attraction and knowledge.strength is not None:
            remarks += (_on_attraction(attraction, knowledge.strength),)
        return tuple(words for words in remarks if words)

    def is_measured(self, step: int) -> bool:
        """Tell whether the worth is measured after this step: the first with knowledge, or some epochs later."""
        return self._is_due(step - 1)

    def _is_due(self, step: int, *, once: bool = False) -> bool:
        epoch, place = divmod(step, self.epoch)
        membership = self.settings.membership
        if membership.source == "none" or place or epoch < membership.begin:
            return False
        return epoch == membership.begin if once else (epoch - membership.begin) % membership.refresh == 0

    def _make(self, before: Knowledge | None) -> Knowledge:
        """The knowledge from now on: what is not learnt is made once, and only its strength is chosen anew."""
        membership = self.settings.membership
        if membership.reads_labels:
            return self._from_labels()
        knowledge = self._without_labels() if before is None or membership.is_learnt else before
        return self._with_strength(knowledge) if membership.is_auto else knowledge

    def _from_labels(self) -> Knowledge:
        membership, count = self.settings.membership, len(self.images.class_names)
        assert self.images.labels is not None
        known = self._known_labels(self.images.labels)
        facts = from_labels(known, num_classes=count)
        if membership.source == "labels":
            return (
                replace(facts, strength=1.0, reason="Strength 1: labels are facts.")
                if membership.is_auto
                else facts
            )
        fitted = from_few_labels(
            self._features(),
            known,
            num_classes=count,
            # Judged by labels that it was given, every classifier is right.
            labelled="cross-fitted" if membership.is_auto else "given",
            seed=self.settings.seed,
        )
        if not membership.is_auto:
            return fitted
        assert facts.membership is not None
        assert fitted.membership is not None
        given = torch.where((known >= 0).unsqueeze(1), facts.membership, fitted.membership)
        return replace(self._with_strength(fitted), membership=given)

    def _with_strength(self, knowledge: Knowledge) -> Knowledge:
        """The same with the strength that a share of the labels tells on the embeddings as they are, if any may."""
        labels = self.images.labels
        if labels is None or not self.settings.membership.known or not bool((labels >= 0).any()):
            return choose_strength(knowledge)
        known = self._known_labels(labels)
        chosen = draw_labelled(known)
        temperature = self.settings.objective.temperature
        z = self._embeddings(chosen)
        return choose_strength(knowledge, z, known[chosen], rows=chosen, temperature=temperature)

    def _without_labels(self) -> Knowledge:
        membership, seed = self.settings.membership, self.settings.seed
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
        """The strength that was chosen, and where labels tell, accuracy of votes by q and force share now."""
        known = None if self.method.known is None else self.method.known.knowledge
        if known is None:
            return {}
        values = {} if known.strength is None else {"membership_strength": known.strength}
        labels = self.images.labels
        return values if labels is None else values | self._worth(known, labels)

    def _worth(self, known: Knowledge, labels: Tensor) -> dict[str, float]:
        chosen, membership = draw_labelled(labels), self.settings.membership
        if not len(chosen):
            return {}
        try:
            share = force_share(
                self._embeddings(chosen),
                labels[chosen],
                knowledge=known.of(chosen),
                temperature=self.settings.objective.temperature,
                strength=known.trust.get("strength", membership.given_strength),
            )
        except NoBiasError:
            return {}
        if membership.reads_labels:
            # It is judged by the images whose label it did not know.
            labels = torch.where(self._known_labels(labels) < 0, labels, -1)
        figures = pair_figures(known, labels)
        votes = {"membership_accuracy": figures["vote_accuracy"]} if "vote_accuracy" in figures else {}
        return {"force_share": share} | votes

    def _embeddings(self, chosen: Tensor) -> Tensor:
        method = self.method
        if isinstance(method, CMC):
            # Stored luminances: what a colour is contrasted with.
            bank: Any = method.banks[0]
            stored: Tensor = bank.storage[chosen.to(bank.storage.device)]
            return stored.float().cpu()
        network = nn.Sequential(method.encoder, method.projector)
        return compute_features(network, self.images, self.settings.views, self.fabric.device, chosen=chosen)


def _on_attraction(attraction: float, strength: float) -> str:
    """What a strength auto does to attraction: nothing, which matters most where it trusts the knowledge least."""
    if strength < DOUBTFUL:
        return (
            f"a strength of {strength:.2f} hardly trusts the knowledge, but attraction {attraction:g} still pulls "
            "its pairs together: set --membership.attraction 0"
        )
    return f"attraction stays at {attraction:g}: auto chooses the strength alone"


def draw_labelled(labels: Tensor) -> Tensor:
    """Draw places of images whose label is known, so many that all their pairs can be looked at."""
    places = (labels >= 0).nonzero()[:, 0]
    return places[torch.randperm(len(places), generator=make_generator(0, "worth"))[:MEASURED]]


def shrink(pixels: Tensor) -> Tensor:
    """Images (n, c, h, w) no larger than the patches of a guide need them."""
    side = min(max(pixels.shape[2:]), LARGEST_SIDE)
    if max(pixels.shape[2:]) == side:
        return pixels
    return F.interpolate(pixels.float(), (side, side), mode="area").round().byte()


def check_knowledge(settings: ImageSettings, images: ImageSet) -> None:
    """Raise where the knowledge cannot be made of these images, or of the file that the settings name."""
    if settings.membership.reads_labels and images.labels is None:
        raise ValueError(
            f"membership.source {settings.membership.source} needs labels, such as class folders; these have none: "
            "use groups, guide or own"
        )
    if settings.membership.source == "classifier" and len(images.class_names) < 2:
        raise ValueError(
            "membership.source classifier needs two classes or more; got one: use groups, guide or own"
        )
    read_rows(settings.membership.source, settings.membership.file, len(images))
