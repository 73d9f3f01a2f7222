"""Operations are those that a person would count from the shapes."""

from dataclasses import replace

import pytest

from debiased_contrastive.images.networks import count_images, forward_operations, training_operations
from debiased_contrastive.images.presets import PRESETS
from debiased_contrastive.images.settings import Data, ImageTraining, SimCLREncoder, SimCLRObjective, SimCLRSettings
from debiased_contrastive.images.views import Views


def convolution(taps: int, channels_in: int, channels_out: int, side: int) -> int:
    """A product and a sum for each tap, input and output channel, at each place of the output."""
    return 2 * taps * channels_in * channels_out * side * side


def resnet50(side: int, channels: int = 3) -> int:
    """With the stem for small images; the stride is in the 3 x 3 convolution of a stage's first block."""
    total, width_in = convolution(9, channels, 64, side), 64
    for stage, depth in enumerate((3, 4, 6, 3)):
        width = 64 * 2**stage
        for block in range(depth):
            out = side // 2 if stage > 0 and block == 0 else side
            total += convolution(1, width_in, width, side)
            total += convolution(9, width, width, out)
            total += convolution(1, width, 4 * width, out)
            if block == 0:
                total += convolution(1, width_in, 4 * width, out)
            side, width_in = out, 4 * width
    return total


def small(side: int, channels: int, width: int) -> int:
    """Four 3 x 3 convolutions, of which three halve the side, rounding up."""
    half, quarter = -(-side // 2), -(-side // 4)
    eighth = -(-side // 8)
    return (
        convolution(9, channels, width, half)
        + convolution(9, width, 2 * width, quarter)
        + convolution(9, 2 * width, 4 * width, eighth)
        + convolution(9, 4 * width, 8 * width, eighth)
    )


@pytest.mark.parametrize("name", ["cifar10", "stl10"])
def test_the_papers_encoder_takes_two_and_a_half_billion(name: str) -> None:
    """1.3 billion products and as many sums, as it is quoted for ResNet-50 on images of 32 pixels."""
    got = forward_operations(PRESETS[name].settings)
    assert got == pytest.approx(2 * 1.3e9, rel=0.05)
    assert got == resnet50(32)


@pytest.mark.parametrize(("side", "channels", "width"), [(32, 3, 32), (28, 1, 32), (17, 2, 5)])
def test_the_small_encoder_by_hand(side: int, channels: int, width: int) -> None:
    views = Views(size=side, mean=(0.5,) * channels, std=(0.5,) * channels)
    settings = SimCLRSettings(views=views, encoder=SimCLREncoder("small", width=width))
    assert forward_operations(settings) == small(side, channels, width)


def test_it_counts_without_memory() -> None:
    """The first 1 x 1 convolution has 2^46 weights, for which no process has the addresses."""
    factor = 2**17
    settings = SimCLRSettings(encoder=SimCLREncoder("resnet50", width=64 * factor))
    stem = convolution(9, 3, 64, 32)
    # The stem grows with the width, all the rest with its square.
    assert forward_operations(settings) == factor**2 * (resnet50(32) - stem) + factor * stem


def test_a_training_is_three_forwards_of_every_view_of_every_whole_batch() -> None:
    settings = SimCLRSettings(
        data=Data("fashion"),
        views=Views(size=28, mean=(0.5,), std=(0.5,)),
        encoder=SimCLREncoder("small", width=8),
        training=ImageTraining(epochs=7, batch=300),
    )
    for m in (1, 3):
        some = replace(settings, objective=SimCLRObjective(num_positives=m))
        assert training_operations(some) == 3 * small(28, 1, 8) * (m + 1) * 1800 * 7
    assert training_operations(PRESETS["cifar10"].settings) == 3 * resnet50(32) * 2 * (50_000 - 50_000 % 256) * 400


def test_images_are_those_that_the_settings_choose() -> None:
    for data, count in (
        (Data("fashion"), 2_000),
        (Data("fashion-mnist"), 60_000),
        (Data("fashion-mnist", classes=(1, 2)), 12_000),
        (Data("cifar10", classes=(0, 4)), 10_000),
        (Data("cifar10"), 50_000),
        (Data("stl10"), 105_000),
        (Data("cifar10", classes=(0, 4), per_class=1000), 2_000),
        (Data("cifar10", per_class=30), 300),
        (Data("folder"), None),
        (Data("folder", per_class=3), None),
    ):
        assert count_images(SimCLRSettings(data=data)) == count, data
    assert training_operations(PRESETS["folder"].settings) == 0
