"""Encoders by their timm names, with random weights: `--encoder.name timm:NAME`."""

from typing import Any

import torch
from torch import Tensor, nn

PREFIX = "timm:"
"""Begins the names of these encoders."""


class TimmEncoder(nn.Module):
    """A timm model without its classifier.

    Args:
        name: As timm calls it, such as resnet18 or vit_tiny_patch16_224.
        in_channels: Channels of the images.
        size: Side of the images in pixels; Vision Transformers are made for it.
    """

    def __init__(self, name: str, *, in_channels: int, size: int) -> None:
        super().__init__()
        timm = _import_timm(name)
        if not timm.is_model(name):
            near = timm.list_models(f"*{name.split('_')[0]}*")[:3]
            raise ValueError(f"timm has no model {name!r}{', but ' + ', '.join(near) if near else ''}")
        config = timm.models.get_pretrained_cfg(name)
        sized = {"img_size": size} if config is not None and config.fixed_input_size else {}
        try:
            self.network = timm.create_model(name, pretrained=False, num_classes=0, in_chans=in_channels, **sized)
            self.feature_dim = self._count_features(in_channels, size)
        # Models check their input each in its own way.
        except (AssertionError, RuntimeError, TypeError, ValueError) as error:
            reason = " ".join(str(error).split()) or type(error).__name__
            raise ValueError(
                f"timm:{name} takes no images of {size} x {size} pixels with {in_channels} channels ({reason}): "
                "set --views.size to what it takes, or choose another"
            ) from None

    def forward(self, images: Tensor) -> Tensor:
        """(b, feature_dim) features of images (b, in_channels, size, size)."""
        features: Tensor = self.network(images)
        return features

    @torch.no_grad()
    def _count_features(self, channels: int, size: int) -> int:
        # Asked, not read: num_features is not what every model gives.
        training, device = self.network.training, next(self.network.parameters()).device
        features = self.network.eval()(torch.zeros(1, channels, size, size, device=device))
        self.network.train(training)
        if features.dim() != 2:
            raise ValueError(f"it gives features of shape {tuple(features.shape)}, not (images, features)")
        return int(features.shape[1])


def _import_timm(name: str) -> Any:
    try:
        import timm
    # Beside a torch of another build, torchvision, which timm needs, raises RuntimeError.
    except (ImportError, RuntimeError) as error:
        raise ValueError(
            f"the encoder timm:{name} needs timm, which does not load ({error}): pip install "
            "'debiased-contrastive[timm]'"
        ) from None
    return timm
