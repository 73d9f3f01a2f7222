"""The encoders: torchvision's ResNets by names, shapes and function, the small one, and the projector."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from debiased_contrastive.images.encoders import (
    ResNet,
    Stem,
    load_torchvision_weights,
    projector,
    resnet18,
    resnet34,
    resnet50,
    small_convnet,
)

DEPTHS = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3)}
MAKE: dict[int, Callable[..., ResNet]] = {18: resnet18, 34: resnet34, 50: resnet50}
SIZES = {18: 11_176_512, 34: 21_284_672, 50: 23_508_032}
"""torchvision's parameters without the classifier."""


def norm(name: str, channels: int) -> dict[str, tuple[int, ...]]:
    vectors = {f"{name}.{part}": (channels,) for part in ("weight", "bias", "running_mean", "running_var")}
    return {**vectors, f"{name}.num_batches_tracked": ()}


def architecture(number: int) -> dict[str, tuple[int, ...]]:
    """Names and shapes of torchvision's state dict without `fc`, from the tables of the ResNet paper."""
    shapes = {"conv1.weight": (64, 3, 7, 7), **norm("bn1", 64)}
    into = 64
    for stage, depth in enumerate(DEPTHS[number]):
        c = 64 << stage
        out = 4 * c if number == 50 else c
        for block in range(depth):
            name = f"layer{stage + 1}.{block}"
            kernels = [(c, into, 1), (c, c, 3), (out, c, 1)] if number == 50 else [(c, into, 3), (c, c, 3)]
            for i, (channels, previous, size) in enumerate(kernels, start=1):
                shapes[f"{name}.conv{i}.weight"] = (channels, previous, size, size)
                shapes |= norm(f"{name}.bn{i}", channels)
            if block == 0 and into != out:
                shapes[f"{name}.downsample.0.weight"] = (out, into, 1, 1)
                shapes |= norm(f"{name}.downsample.1", out)
            into = out
    return shapes


def slow_forward(state: dict[str, Tensor], number: int, stem: Stem, images: Tensor) -> Tensor:
    """The network as a list of operations on named weights."""

    def layer(conv: str, bn: str, x: Tensor, stride: int = 1) -> Tensor:
        weight = state[f"{conv}.weight"]
        x = F.conv2d(x, weight, stride=stride, padding=weight.shape[-1] // 2)
        mean, variance, scale, shift = (
            state[f"{bn}.{part}"][:, None, None] for part in ("running_mean", "running_var", "weight", "bias")
        )
        return (x - mean) / (variance + 1e-5).sqrt() * scale + shift

    x = layer("conv1", "bn1", images, 2 if stem == "imagenet" else 1).relu()
    if stem == "imagenet":
        x = F.max_pool2d(x, 3, 2, 1)
    strided = 2 if number == 50 else 1
    for stage, depth in enumerate(DEPTHS[number]):
        for block in range(depth):
            name, stride = f"layer{stage + 1}.{block}", 2 if stage and block == 0 else 1
            out = x
            for i in (1, 2, 3) if number == 50 else (1, 2):
                out = layer(f"{name}.conv{i}", f"{name}.bn{i}", out.relu(), stride if i == strided else 1)
            if f"{name}.downsample.0.weight" in state:
                x = layer(f"{name}.downsample.0", f"{name}.downsample.1", x, stride)
            x = (out + x).relu()
    return x.mean((2, 3))


def disturbed(model: ResNet) -> ResNet:
    """Batch norms away from their start, where a forgotten one would not be seen."""
    generator = torch.Generator().manual_seed(1)
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            for value in (module.weight, module.running_var):
                assert value is not None
                nn.init.uniform_(value, 0.5, 1.5, generator)
            for value in (module.bias, module.running_mean):
                assert value is not None
                nn.init.uniform_(value, -0.5, 0.5, generator)
    return model.eval()


@pytest.mark.parametrize("number", MAKE)
def test_names_shapes_and_size_are_those_of_torchvision(number: int) -> None:
    with torch.device("meta"):
        model = MAKE[number]()
    state = {name: tuple(value.shape) for name, value in model.state_dict().items()}
    assert list(state) == list(architecture(number))
    assert state == architecture(number)
    assert sum(value.numel() for value in model.parameters()) == SIZES[number]


@pytest.mark.parametrize("number", MAKE)
@pytest.mark.parametrize("stem", ["imagenet", "cifar"])
def test_it_computes_what_the_names_say(number: int, stem: Stem) -> None:
    torch.manual_seed(0)
    model = disturbed(MAKE[number](stem=stem, width=8, in_channels=2)).double()
    images = torch.randn(2, 2, 13, 18, dtype=torch.float64)
    with torch.no_grad():
        features = model(images)
        assert features.shape == (2, model.feature_dim) == (2, 8 * 8 * (4 if number == 50 else 1))
        torch.testing.assert_close(features, slow_forward(model.state_dict(), number, stem, images))


def test_the_papers_encoder_has_2048_features_and_a_full_resolution_stem() -> None:
    with torch.device("meta"):
        model = resnet50(stem="cifar")
        assert model.conv1(torch.empty(1, 3, 32, 32)).shape == (1, 64, 32, 32)
        assert model(torch.empty(2, 3, 32, 32)).shape == (2, 2048)
        assert resnet18()(torch.empty(2, 3, 64, 48)).shape == (2, 512)
        assert resnet34(width=16)(torch.empty(2, 3, 33, 33)).shape == (2, 128)
    assert model.feature_dim == 2048


def test_it_starts_as_torchvision_does_and_every_weight_learns() -> None:
    torch.manual_seed(0)
    model = resnet50(stem="cifar", width=16)
    # A 1 x 1 convolution from 64 to 256 channels: the fans differ, and it is the outgoing one that counts.
    weight = model.layer3[0].get_parameter("conv3.weight")
    assert weight.shape == (256, 64, 1, 1)
    assert weight.std().item() == pytest.approx((2 / 256) ** 0.5, rel=0.03)
    assert model.layer1[0].get_parameter("bn3.weight").eq(1).all()
    model(torch.randn(4, 3, 8, 8)).square().sum().backward()
    for name, value in model.named_parameters():
        assert value.grad is not None, name
        assert value.grad.abs().sum() > 0, name


def test_torchvision_weights_are_taken_without_the_classifier() -> None:
    torch.manual_seed(0)
    model, other = resnet18(width=8), disturbed(resnet18(width=8))
    classifier = {"fc.weight": torch.zeros(1000, 64), "fc.bias": torch.zeros(1000)}
    load_torchvision_weights(model, {**other.state_dict(), **classifier})
    for name, value in model.state_dict().items():
        assert torch.equal(value, other.state_dict()[name]), name
    # As in torchvision's first files.
    bare = {name: value for name, value in other.state_dict().items() if "num_batches" not in name}
    load_torchvision_weights(resnet18(width=8), {**bare, **classifier})


def test_weights_that_do_not_fit_are_named_and_change_nothing() -> None:
    model = resnet18(width=8, stem="cifar")
    before = {name: value.clone() for name, value in model.state_dict().items()}
    other = resnet18(width=8)
    with pytest.raises(
        ValueError, match=r'other shapes: conv1.weight \(8, 3, 7, 7\) instead of \(8, 3, 3, 3\): .*"imagenet"'
    ):
        load_torchvision_weights(model, other.state_dict())
    with pytest.raises(ValueError, match=r"missing: conv1.weight, .* and \d+ more; unexpected: state_dict: "):
        load_torchvision_weights(model, {"state_dict": torch.zeros(1)})
    with pytest.raises(ValueError, match=r"unexpected: layer1.2.conv1.weight, .* and \d+ more: ") as error:
        load_torchvision_weights(model, resnet34(width=8, stem="cifar").state_dict())
    assert "\n" not in str(error.value)
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name]), name


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"stem": "stl"}, r'stem must be "imagenet", or "cifar" .*; got \'stl\''),
        ({"width": 0}, "width must be an integer of at least 1; got 0"),
        ({"in_channels": 1.0}, r"in_channels must be .*; got 1\.0"),
    ],
)
def test_bad_settings_are_refused(arguments: dict[str, object], message: str) -> None:
    make: Callable[..., ResNet] = resnet18
    with pytest.raises(ValueError, match=message):
        make(**arguments)


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
