"""Make the modules that the settings describe, encoder, loss and method, and estimate what training costs."""

from typing import Any

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from debiased_contrastive.images.cmc import CMC
from debiased_contrastive.images.encoders import (
    Pair,
    ResNet,
    SmallConvNet,
    projector,
    resnet18,
    resnet34,
    resnet50,
    small_convnet,
)
from debiased_contrastive.images.settings import CMCSettings, Encoder, ImageSettings
from debiased_contrastive.images.simclr import QueueSimCLR, SimCLR
from debiased_contrastive.images.timm_encoders import PREFIX, TimmEncoder
from debiased_contrastive.losses.auto import AutoTauPlus
from debiased_contrastive.losses.bank import DebiasedBankLoss
from debiased_contrastive.losses.info_nce import DebiasedInfoNCELoss
from debiased_contrastive.losses.nt_xent import DebiasedNTXentLoss
from debiased_contrastive.membership.training import TrainingKnowledge
from debiased_contrastive.negatives.bank import MemoryBank
from debiased_contrastive.numerics import make_generator

_RESNETS = {"resnet18": resnet18, "resnet34": resnet34, "resnet50": resnet50}


def make_encoder(settings: ImageSettings) -> ResNet | SmallConvNet | TimmEncoder | Pair:
    """Make a fresh encoder for the views of these settings, or two of them for luminance and colour."""
    channels = len(settings.views.mean)
    if isinstance(settings, CMCSettings):
        return _make_pair(settings.encoder, channels, settings.views.size)
    return _make_encoder(settings.encoder, channels, settings.views.size)


def _make_pair(settings: Encoder, channels: int, size: int) -> Pair:
    first, others = (_make_encoder(settings, count, size) for count in (1, channels - 1))
    return Pair(first, others, feature_dim=first.feature_dim + others.feature_dim)


def _make_encoder(settings: Encoder, channels: int, size: int) -> ResNet | SmallConvNet | TimmEncoder:
    if settings.name.startswith(PREFIX):
        return TimmEncoder(settings.name.removeprefix(PREFIX), in_channels=channels, size=size)
    if settings.name == "small":
        return small_convnet(in_channels=channels, width=settings.width, feature_dim=8 * settings.width)
    return _RESNETS[settings.name](stem=settings.stem, in_channels=channels, width=settings.width)


def make_method(settings: ImageSettings, *, gather: bool, images: int = 0) -> SimCLR | QueueSimCLR | CMC:
    """Make a fresh method; `gather` if several processes share a batch; `images` is the size of memory banks."""
    if isinstance(settings, CMCSettings):
        return _make_cmc(settings, images, gather)
    objective = settings.objective
    encoder = _make_encoder(settings.encoder, len(settings.views.mean), settings.views.size)
    head = projector(encoder.feature_dim, settings.encoder.hidden_dim, settings.encoder.out_dim)
    given: dict[str, Any] = {**_correction(settings), "beta": objective.beta, "decoupled": objective.decoupled}
    known = None if settings.membership.source == "none" else TrainingKnowledge()
    if objective.negatives == "batch":
        loss = DebiasedNTXentLoss(objective.temperature, **given, gather_distributed=gather)
        return SimCLR(encoder, head, loss, known, every_positive=objective.kind == "biased")
    # Every process has the whole queue and its own queries: nothing to gather but keys, which the method does, and
    # what an automatic tau_plus sees.
    gather = gather and objective.auto
    queue_loss = DebiasedInfoNCELoss(objective.temperature, **given, gather_distributed=gather)
    size, dim = objective.queue_size, settings.encoder.out_dim
    return QueueSimCLR(
        encoder, head, queue_loss, queue_size=size, dim=dim, momentum=objective.momentum, known=known
    )


def _make_cmc(settings: CMCSettings, images: int, gather: bool) -> CMC:
    objective, dim = settings.objective, settings.encoder.out_dim
    encoder = _make_pair(settings.encoder, len(settings.views.mean), settings.views.size)
    loss = DebiasedBankLoss(
        objective.temperature,
        **_correction(settings),
        exclude_own=objective.exclude_own,
        # Every process has the banks and its own queries: nothing to gather but what an automatic tau_plus sees.
        gather_distributed=gather and objective.auto,
    )
    half = encoder.feature_dim // 2
    luminance, colour = (
        MemoryBank(
            images, dim, momentum=objective.bank_momentum, generator=make_generator(settings.seed, "bank", view)
        )
        for view in range(2)
    )
    known = None if settings.membership.source == "none" else TrainingKnowledge()
    return CMC(encoder, (nn.Linear(half, dim), nn.Linear(half, dim)), loss, (luminance, colour), known)


def _correction(settings: ImageSettings) -> dict[str, Any]:
    """The options of a loss that say how it corrects the unlabeled samples."""
    objective, membership = settings.objective, settings.membership
    if membership.source != "none":
        # Before the membership begins, the loss is the biased one.
        return {
            "tau_plus": 0.0,
            "strength": membership.given_strength,
            "attraction": membership.attraction,
            "attraction_above": membership.attraction_above,
        }
    tau_plus = AutoTauPlus(objective.tau_plus) if objective.auto else objective.correction
    return {"tau_plus": tau_plus, "on_floor": objective.on_floor}


OPERATIONS_PER_SECOND = 10e12
"""Sustained speed of one GPU that the estimates assume: a fifth to a tenth of what is printed on it."""
_TRAINING_IMAGES = {"fashion": 2_000, "fashion-mnist": 60_000, "cifar10": 50_000, "stl10": 105_000}
_PER_CLASS = {"fashion": 200, "fashion-mnist": 6_000, "cifar10": 5_000, "stl10": 500}


def training_operations(settings: ImageSettings) -> float:
    """Floating-point operations of a training: a backward costs two forwards; views and loss are left out."""
    passes = 3
    if not isinstance(settings, CMCSettings):
        # Keys of a queue have no backward.
        more = settings.objective.num_positives
        passes += more if settings.objective.negatives == "queue" else 3 * more
    images = count_images(settings) or 0
    images -= images % settings.training.batch
    return passes * forward_operations(settings) * images * settings.training.epochs


def forward_operations(settings: ImageSettings) -> int:
    channels, size = len(settings.views.mean), settings.views.size
    with torch.device("meta"), FlopCounterMode(display=False) as counter:
        make_encoder(settings).eval()(torch.empty(1, channels, size, size))
    return int(counter.get_total_flops())


def count_images(settings: ImageSettings) -> int | None:
    """Count the training images; None where they would have to be read for it."""
    data = settings.data
    if data.name not in _TRAINING_IMAGES:
        return None
    if isinstance(data.per_class, tuple):
        return sum(data.per_class)
    if data.classes or data.per_class is not None:
        return (data.per_class or _PER_CLASS[data.name]) * (len(data.classes) or 10)
    return _TRAINING_IMAGES[data.name]


def describe_cost(settings: ImageSettings) -> tuple[str, str, str, str]:
    """Describe the images, epochs, operations and time on a GPU of a training."""
    count, cost = count_images(settings), training_operations(settings)
    seconds = cost / OPERATIONS_PER_SECOND
    return (
        "?" if count is None else f"{count:,}",
        str(settings.training.epochs),
        f"{cost:.1e}" if cost else "depends on the folder",
        (f"{seconds / 3600:.1f} h" if seconds > 3600 else f"{seconds:.0f} s") if cost else "?",
    )
