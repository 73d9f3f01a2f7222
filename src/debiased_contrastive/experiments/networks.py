"""From settings to modules: the encoder, the loss, the method."""

from debiased_contrastive.encoders.projector import projector
from debiased_contrastive.encoders.resnet import ResNet, resnet18, resnet34, resnet50
from debiased_contrastive.encoders.small import SmallConvNet, small_convnet
from debiased_contrastive.experiments.settings import Encoder, Objective, Settings
from debiased_contrastive.methods.simclr import QueueSimCLR, SimCLR
from debiased_contrastive.modules.auto import AutoTauPlus
from debiased_contrastive.modules.info_nce import DebiasedInfoNCELoss
from debiased_contrastive.modules.nt_xent import DebiasedNTXentLoss

_RESNETS = {"resnet18": resnet18, "resnet34": resnet34, "resnet50": resnet50}


def encoder_of(settings: Encoder, channels: int) -> ResNet | SmallConvNet:
    """A fresh encoder for images of that many channels."""
    if settings.name == "small":
        return small_convnet(in_channels=channels, width=settings.width, feature_dim=8 * settings.width)
    return _RESNETS[settings.name](stem=settings.stem, in_channels=channels, width=settings.width)


def method_of(settings: Settings, *, gather: bool) -> SimCLR | QueueSimCLR:
    """A fresh method; gather: whether several processes share a batch."""
    objective = settings.objective
    encoder = encoder_of(settings.encoder, len(settings.views.mean))
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
