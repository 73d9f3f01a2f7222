"""Each operation on a batch equals an independent one on each image or pixel."""

import colorsys
import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from PIL import Image, ImageEnhance
from torch import Tensor

from debiased_contrastive.images import colour

GENERATOR = torch.Generator().manual_seed(0)
PIXELS = torch.randint(256, (6, 3, 9, 7), dtype=torch.uint8, generator=GENERATOR)
IMAGES = PIXELS.float() / 255
FACTORS = torch.tensor([0.6, 0.8, 1.0, 1.2, 1.4, 0.0])


def picture(pixels: Tensor) -> Image.Image:
    return Image.fromarray(pixels.permute(1, 2, 0).numpy())


@pytest.mark.parametrize(
    ("operation", "enhancer"),
    [
        (colour.brightness_, ImageEnhance.Brightness),
        (colour.contrast_, ImageEnhance.Contrast),
        (colour.saturation_, ImageEnhance.Color),
    ],
)
def test_enhancements_are_pillows(operation: Callable[[Tensor, Tensor], None], enhancer: type) -> None:
    got = IMAGES.clone()
    operation(got, FACTORS)
    for pixels, factor, result in zip(PIXELS, FACTORS.tolist(), got, strict=True):
        want = torch.from_numpy(np.array(enhancer(picture(pixels)).enhance(factor))).permute(2, 0, 1)
        # Pillow rounds the grey values and the result to bytes.
        assert (255 * result - want).abs().max() <= 1.6


def test_hue_is_that_of_the_standard_library() -> None:
    shifts = torch.tensor([-0.1, -0.03, 0.0, 0.05, 0.1, 0.5])
    images = IMAGES.clone()
    images[0, :, 0, :3] = torch.tensor([[0.5, 1.0, 0.0]])  # grey, white, black
    images[0, :, 1, 0] = torch.tensor([0.7, 0.7, 0.2])  # two channels equal
    got = images.clone()
    colour.hue_(got, shifts)
    for image, shift, result in zip(images, shifts.tolist(), got, strict=True):
        for y in range(image.shape[1]):
            for x in range(image.shape[2]):
                h, s, v = colorsys.rgb_to_hsv(*image[:, y, x].tolist())
                want = colorsys.hsv_to_rgb((h + shift) % 1, s, v)
                assert result[:, y, x].tolist() == pytest.approx(want, abs=2e-6)


def test_grayscale_is_the_weighted_sum() -> None:
    want = IMAGES.permute(0, 2, 3, 1).double() @ torch.tensor([0.2989, 0.587, 0.114], dtype=torch.float64)
    torch.testing.assert_close(colour.grayscale(IMAGES)[:, 0].double(), want, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("kernel", [3, 5])
def test_blur_is_a_reflected_gaussian(kernel: int) -> None:
    sigmas = torch.linspace(0.1, 2, 6)
    got = IMAGES.clone()
    colour.blur_(got, sigmas, kernel)
    half = kernel // 2
    for image, sigma, result in zip(IMAGES.double().numpy(), sigmas.tolist(), got, strict=True):
        taps = [math.exp(-0.5 * (k / sigma) ** 2) for k in range(-half, half + 1)]
        weights = np.outer(taps, taps) / sum(taps) ** 2
        padded = np.pad(image, ((0, 0), (half, half), (half, half)), mode="reflect")
        want = np.zeros_like(image)
        for i in range(kernel):
            for j in range(kernel):
                want += weights[i, j] * padded[:, i : i + image.shape[1], j : j + image.shape[2]]
        torch.testing.assert_close(result.double(), torch.from_numpy(want), rtol=1e-5, atol=1e-6)


def test_one_channel_has_no_colour_to_change() -> None:
    grey = IMAGES[:, :1]
    for operation in (colour.saturation_, colour.hue_):
        got = grey.clone()
        operation(got, FACTORS)
        assert torch.equal(got, grey)
    assert torch.equal(colour.grayscale(grey), grey)
