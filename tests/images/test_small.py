"""The small encoder and the projector: shapes, formats, gradients, refusals."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from debiased_contrastive.images.projector import projector
from debiased_contrastive.images.small import small_convnet


@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 28, 28), (3, 17, 40), (2, 1, 1)])
def test_images_of_any_size_become_features(shape: tuple[int, int, int]) -> None:
    encoder = small_convnet(in_channels=shape[0], width=4, feature_dim=24)
    assert encoder(torch.randn(5, *shape)).shape == (5, 24)
    assert encoder.feature_dim == 24
    assert small_convnet().feature_dim == 256


def test_it_computes_four_stages_at_a_half_a_quarter_and_an_eighth() -> None:
    torch.manual_seed(0)
    encoder = small_convnet(width=4, feature_dim=24).double()
    images = torch.randn(3, 3, 32, 32, dtype=torch.float64)
    x = images
    weights = [module.weight for module in encoder.modules() if isinstance(module, nn.Conv2d)]
    for weight, stride, side, channels in zip(weights, (2, 2, 2, 1), (16, 8, 4, 4), (4, 8, 16, 24), strict=True):
        x = F.conv2d(x, weight, stride=stride, padding=1)
        assert x.shape == (3, channels, side, side)
        mean, variance = x.mean((0, 2, 3), keepdim=True), x.var((0, 2, 3), unbiased=False, keepdim=True)
        x = ((x - mean) / (variance + 1e-5).sqrt()).relu()
    torch.testing.assert_close(encoder(images), x.mean((2, 3)))


def test_the_memory_format_of_the_images_does_not_matter() -> None:
    torch.manual_seed(0)
    encoder = small_convnet(width=8, feature_dim=16).double()
    images = torch.randn(4, 3, 16, 16, dtype=torch.float64)
    features = encoder(images)
    torch.testing.assert_close(encoder(images.contiguous(memory_format=torch.channels_last)), features)
    # The weights decide, so that images in either format are computed in the fast one.
    first = next(module for module in encoder.modules() if isinstance(module, nn.Conv2d))
    assert first(images).is_contiguous(memory_format=torch.channels_last)


def test_features_are_means_over_the_image_and_every_weight_learns() -> None:
    torch.manual_seed(0)
    encoder = small_convnet(width=4, feature_dim=8)
    features = encoder(torch.randn(6, 3, 32, 32))
    assert (features >= 0).all()
    features.square().sum().backward()
    for name, value in encoder.named_parameters():
        assert value.grad is not None, name
        assert value.grad.abs().sum() > 0, name


def test_the_projector_is_that_of_the_protocol() -> None:
    torch.manual_seed(0)
    head = projector(2048)
    assert sum(value.numel() for value in head.parameters()) == 2048 * 512 + 2 * 512 + 512 * 128 + 128
    features = torch.randn(16, 2048)
    hidden = features @ head.get_parameter("0.weight").T
    hidden = (hidden - hidden.mean(0)) / (hidden.var(0, unbiased=False) + 1e-5).sqrt()
    expected = hidden.relu() @ head.get_parameter("3.weight").T + head.get_parameter("3.bias")
    torch.testing.assert_close(head(features), expected, rtol=1e-4, atol=1e-5)
    assert projector(6, 5, 4)(torch.randn(3, 6)).shape == (3, 4)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: small_convnet(width=0), "width must be an integer of at least 1; got 0"),
        (lambda: small_convnet(in_channels=-1), "in_channels must be an integer of at least 1; got -1"),
        (lambda: small_convnet(feature_dim=0), "feature_dim must be an integer of at least 1; got 0"),
        (lambda: projector(0), "in_dim must be an integer of at least 1; got 0"),
        (lambda: projector(8, out_dim=0), "out_dim must be an integer of at least 1; got 0"),
    ],
)
def test_bad_sizes_are_refused(make: Callable[[], nn.Module], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()
