"""The frozen encoder of a run on images: pixels in, features out."""

from pathlib import Path

import torch
from torch import Tensor, nn

from debiased_contrastive.images.augment import prepare
from debiased_contrastive.images.encoders import Pair, ResNet, SmallConvNet
from debiased_contrastive.images.networks import make_encoder
from debiased_contrastive.images.settings import ImageSettings, read_settings
from debiased_contrastive.images.timm_encoders import TimmEncoder
from debiased_contrastive.runs import finished_run
from debiased_contrastive.training.weights import load_trained


class ImageEncoder(nn.Module):
    """A network in evaluation mode, without gradients, that prepares its images itself.

    Args:
        network: From prepared images (n, c, size, size) to features.
        settings: Those of its run; `settings.views` says how images are prepared.
    """

    def __init__(self, network: ResNet | SmallConvNet | TimmEncoder | Pair, settings: ImageSettings) -> None:
        super().__init__()
        self.network, self.settings, self.feature_dim = network, settings, network.feature_dim
        self.eval().requires_grad_(False)

    def forward(self, pixels: Tensor) -> Tensor:
        """(n, feature_dim) features of images (n, c, h, w) uint8, which are scaled to the size trained on."""
        channels = len(self.settings.views.mean)
        fits = pixels.dim() == 4 and (pixels.shape[1] == channels or (channels == 1 and pixels.shape[1] == 3))
        if pixels.dtype != torch.uint8 or not fits:
            raise ValueError(
                f"pixels must be uint8 with shape (n, {channels}, h, w); got {pixels.dtype} {tuple(pixels.shape)}: "
                "give the bytes of the images, they are scaled and normalised here"
            )
        features: Tensor = self.network(prepare(self.settings.views, pixels))
        return features


def load_encoder(folder: Path) -> ImageEncoder:
    """Load the encoder of a finished run, on the CPU."""
    run = finished_run(folder)
    settings = read_settings(run.settings)
    network = make_encoder(settings)
    load_trained(run, network)
    return ImageEncoder(network, settings)
