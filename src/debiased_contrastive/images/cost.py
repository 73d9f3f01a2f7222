"""What a preset costs, counted on tensors without memory."""

import torch
from torch.utils.flop_counter import FlopCounterMode

from debiased_contrastive.images.networks import encoder_of
from debiased_contrastive.images.settings import Settings

SUSTAINED = 10e12
"""Operations a second of one GPU that the estimates assume: a fifth to a tenth of what is printed on it."""
_IMAGES = {"fashion": 2_000, "cifar10": 50_000, "stl10": 105_000}
_PER_CLASS = {"fashion": 200, "cifar10": 5_000, "stl10": 500}


def operations(settings: Settings) -> float:
    """Floating-point operations of a training: a backward costs two forwards; views and loss are left out."""
    views = settings.objective.num_positives + 1
    # Keys of a queue have no backward; with banks one crop is seen once.
    passes = {"batch": 3 * views, "queue": 3 + (views - 1), "bank": 3}[settings.objective.negatives]
    images = image_count(settings) or 0
    images -= images % settings.training.batch
    return passes * forward_operations(settings) * images * settings.training.epochs


def forward_operations(settings: Settings) -> int:
    """Of the encoder on one image."""
    channels, size = len(settings.views.mean), settings.views.size
    with torch.device("meta"), FlopCounterMode(display=False) as counter:
        encoder_of(settings.encoder, channels).eval()(torch.empty(1, channels, size, size))
    return int(counter.get_total_flops())


def image_count(settings: Settings) -> int | None:
    """Number of training images; None for a folder, which is not looked at."""
    data = settings.data
    if data.name == "folder":
        return None
    if data.classes or data.per_class is not None:
        return (data.per_class or _PER_CLASS[data.name]) * (len(data.classes) or 10)
    return _IMAGES[data.name]
