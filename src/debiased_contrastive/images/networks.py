"""From settings to modules: the encoder, the loss, the method."""

from torch import nn

from debiased_contrastive.images.cmc import CMC
from debiased_contrastive.images.pair import Pair
from debiased_contrastive.images.projector import projector
from debiased_contrastive.images.resnet import ResNet, resnet18, resnet34, resnet50
from debiased_contrastive.images.settings import Encoder, Objective, Settings
from debiased_contrastive.images.simclr import QueueSimCLR, SimCLR
from debiased_contrastive.images.small import SmallConvNet, small_convnet
from debiased_contrastive.losses.auto import AutoTauPlus
from debiased_contrastive.losses.bank import DebiasedBankLoss
from debiased_contrastive.losses.info_nce import DebiasedInfoNCELoss
from debiased_contrastive.losses.nt_xent import DebiasedNTXentLoss
from debiased_contrastive.negatives.bank import MemoryBank
from debiased_contrastive.numerics import generator_of

_RESNETS = {"resnet18": resnet18, "resnet34": resnet34, "resnet50": resnet50}


def encoder_of(settings: Encoder, channels: int) -> ResNet | SmallConvNet | Pair:
    """A fresh encoder for images of that many channels."""
    if settings.pair:
        first, others = (_one_encoder(settings, count) for count in (1, channels - 1))
        return Pair(first, others, feature_dim=first.feature_dim + others.feature_dim)
    return _one_encoder(settings, channels)


def _one_encoder(settings: Encoder, channels: int) -> ResNet | SmallConvNet:
    if settings.name == "small":
        return small_convnet(in_channels=channels, width=settings.width, feature_dim=8 * settings.width)
    return _RESNETS[settings.name](stem=settings.stem, in_channels=channels, width=settings.width)


def method_of(settings: Settings, *, gather: bool, images: int = 0) -> SimCLR | QueueSimCLR | CMC:
    """A fresh method; gather: whether several processes share a batch; images: how many, for banks of them."""
    objective = settings.objective
    encoder = encoder_of(settings.encoder, len(settings.views.mean))
    if isinstance(encoder, Pair):
        return _cmc(settings, encoder, images, gather)
    head = projector(encoder.feature_dim, settings.encoder.hidden_dim, settings.encoder.out_dim)
    if objective.negatives == "batch":
        return SimCLR(encoder, head, _nt_xent(objective, gather))
    return QueueSimCLR(
        encoder,
        head,
        _info_nce(objective, gather),
        queue_size=objective.queue_size,
        dim=settings.encoder.out_dim,
        momentum=objective.momentum,
    )


def _cmc(settings: Settings, encoder: Pair, images: int, gather: bool) -> CMC:
    objective, dim = settings.objective, settings.encoder.out_dim
    loss = DebiasedBankLoss(
        objective.temperature,
        _tau_plus(objective),
        on_floor=objective.on_floor,
        exclude_own=objective.exclude_own,
        # Every process has the banks and its own queries: nothing to gather but what an automatic tau_plus sees.
        gather_distributed=gather and objective.auto,
    )
    half = encoder.feature_dim // 2
    luminance, colour = (
        MemoryBank(
            images, dim, momentum=objective.bank_momentum, generator=generator_of(settings.seed, "bank", view)
        )
        for view in range(2)
    )
    return CMC(encoder, (nn.Linear(half, dim), nn.Linear(half, dim)), loss, (luminance, colour))


def _tau_plus(objective: Objective) -> float | AutoTauPlus:
    return AutoTauPlus(objective.tau_plus) if objective.auto else objective.correction


def _nt_xent(objective: Objective, gather: bool) -> DebiasedNTXentLoss:
    return DebiasedNTXentLoss(
        objective.temperature,
        _tau_plus(objective),
        on_floor=objective.on_floor,
        beta=objective.beta,
        gather_distributed=gather,
    )


def _info_nce(objective: Objective, gather: bool) -> DebiasedInfoNCELoss:
    # Every process has the whole queue and its own queries: nothing to gather but keys, which the method does, and
    # what an automatic tau_plus sees.
    return DebiasedInfoNCELoss(
        objective.temperature,
        _tau_plus(objective),
        on_floor=objective.on_floor,
        beta=objective.beta,
        gather_distributed=gather and objective.auto,
    )
