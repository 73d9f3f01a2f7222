"""Crops are Pillow's, where torchvision's would lie; colours are those of independent definitions."""

import colorsys
import math
import random
from collections.abc import Callable

import numpy as np
import pytest
import torch
from PIL import Image, ImageEnhance
from skimage import color
from torch import Tensor

from debiased_contrastive.images import transforms
from debiased_contrastive.images.transforms import crop, draw_crop_boxes, lab, ycbcr


def one_box(height: int, width: int, scale: tuple[float, float], ratio: tuple[float, float]) -> tuple[int, ...]:
    """The published recipe for one image, in plain Python."""
    for _ in range(10):
        area = height * width * random.uniform(*scale)
        aspect = math.exp(random.uniform(math.log(ratio[0]), math.log(ratio[1])))
        w, h = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
        if 0 < w <= width and 0 < h <= height:
            return random.randint(0, height - h), random.randint(0, width - w), h, w
    w, h = width, height
    if width / height < ratio[0]:
        h = round(width / ratio[0])
    elif width / height > ratio[1]:
        w = round(height * ratio[1])
    return (height - h) // 2, (width - w) // 2, h, w


def distance(x: np.ndarray, y: np.ndarray) -> float:
    """The largest difference between two empirical distributions."""
    points = np.sort(np.concatenate([x, y]))
    below = [np.searchsorted(np.sort(values), points, side="right") / len(values) for values in (x, y)]
    return float(np.abs(below[0] - below[1]).max())


@pytest.mark.parametrize(("height", "width"), [(32, 32), (96, 96), (20, 90), (64, 17)])
@pytest.mark.parametrize("scale", [(0.08, 1.0), (0.2, 1.0), (0.9, 1.0)])
def test_boxes_are_distributed_as_the_recipe_says(height: int, width: int, scale: tuple[float, float]) -> None:
    count = 4000
    random.seed(0)
    generator = torch.Generator().manual_seed(0)
    got = draw_crop_boxes(count, height, width, scale=scale, generator=generator).double().numpy()
    want = np.array([one_box(height, width, scale, (3 / 4, 4 / 3)) for _ in range(count)])
    assert (got[:, :2] >= 0).all()
    assert (got[:, 0] + got[:, 2] <= height).all()
    assert (got[:, 1] + got[:, 3] <= width).all()
    # The 0.1 % point of the two-sample Kolmogorov-Smirnov test.
    limit = 1.95 * math.sqrt(2 / count)
    for k in range(4):
        assert distance(got[:, k], want[:, k]) < limit
    assert distance(got[:, 2] * got[:, 3], want[:, 2] * want[:, 3]) < limit
    assert distance(got[:, 2] / got[:, 3], want[:, 2] / want[:, 3]) < limit


@pytest.mark.parametrize(("height", "width", "size"), [(32, 32, 32), (96, 80, 32), (28, 28, 40), (9, 50, 16)])
def test_each_crop_is_pillows(height: int, width: int, size: int) -> None:
    generator = torch.Generator().manual_seed(1)
    pixels = torch.randint(256, (12, 3, height, width), dtype=torch.uint8, generator=generator)
    boxes = draw_crop_boxes(12, height, width, generator=generator)
    flipped = torch.arange(12) % 2 == 1
    got = crop(pixels.float(), boxes, size, flipped)
    for image, box, mirror, result in zip(pixels, boxes.int().tolist(), flipped, got, strict=True):
        top, left, h, w = box
        picture = Image.fromarray(image.permute(1, 2, 0).numpy()).crop((left, top, left + w, top + h))
        picture = picture.resize((size, size), Image.Resampling.BILINEAR)
        if mirror:
            picture = picture.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        want = torch.from_numpy(np.array(picture)).permute(2, 0, 1).float()
        # Pillow rounds to a byte after each of its two passes.
        assert (result - want).abs().max() <= 1.01


def test_the_whole_image_at_its_own_size_is_itself() -> None:
    images = torch.rand(3, 2, 7, 5)
    boxes = torch.tensor([[0.0, 0.0, 7.0, 5.0]]).expand(3, 4)
    square = crop(images[..., :5, :], torch.tensor([[0.0, 0.0, 5.0, 5.0]]).expand(3, 4), 5)
    torch.testing.assert_close(square, images[..., :5, :])
    mirrored = crop(images[..., :5, :], torch.tensor([[0.0, 0.0, 5.0, 5.0]]).expand(3, 4), 5, torch.ones(3) > 0)
    torch.testing.assert_close(mirrored, images[..., :5, :].flip(3))
    constant = crop(torch.full((3, 1, 7, 5), 0.3), boxes, 11)
    torch.testing.assert_close(constant, torch.full((3, 1, 11, 11), 0.3))


GENERATOR = torch.Generator().manual_seed(0)
PIXELS = torch.randint(256, (6, 3, 9, 7), dtype=torch.uint8, generator=GENERATOR)
IMAGES = PIXELS.float() / 255
FACTORS = torch.tensor([0.6, 0.8, 1.0, 1.2, 1.4, 0.0])


def picture(pixels: Tensor) -> Image.Image:
    return Image.fromarray(pixels.permute(1, 2, 0).numpy())


@pytest.mark.parametrize(
    ("operation", "enhancer"),
    [
        (transforms.brightness_, ImageEnhance.Brightness),
        (transforms.contrast_, ImageEnhance.Contrast),
        (transforms.saturation_, ImageEnhance.Color),
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
    transforms.hue_(got, shifts)
    for image, shift, result in zip(images, shifts.tolist(), got, strict=True):
        for y in range(image.shape[1]):
            for x in range(image.shape[2]):
                h, s, v = colorsys.rgb_to_hsv(*image[:, y, x].tolist())
                want = colorsys.hsv_to_rgb((h + shift) % 1, s, v)
                assert result[:, y, x].tolist() == pytest.approx(want, abs=2e-6)


def test_grayscale_is_the_weighted_sum() -> None:
    want = IMAGES.permute(0, 2, 3, 1).double() @ torch.tensor([0.2989, 0.587, 0.114], dtype=torch.float64)
    torch.testing.assert_close(transforms.grayscale(IMAGES)[:, 0].double(), want, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("kernel", [3, 5])
def test_blur_is_a_reflected_gaussian(kernel: int) -> None:
    sigmas = torch.linspace(0.1, 2, 6)
    got = IMAGES.clone()
    transforms.blur_(got, sigmas, kernel)
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
    for operation in (transforms.saturation_, transforms.hue_):
        got = grey.clone()
        operation(got, FACTORS)
        assert torch.equal(got, grey)
    assert torch.equal(transforms.grayscale(grey), grey)


CORNERS = torch.cartesian_prod(*[torch.tensor([0.0, 0.03, 0.04045, 0.5, 1.0])] * 3).T.reshape(1, 3, 5, 25)


@pytest.fixture(params=["drawn", "corners"])
def images(request: pytest.FixtureRequest) -> torch.Tensor:
    if request.param == "corners":
        return CORNERS
    return torch.rand(4, 3, 6, 5, generator=torch.Generator().manual_seed(0))


def by_scikit_image(images: torch.Tensor, name: str) -> torch.Tensor:
    pixels = images.double().permute(0, 2, 3, 1).numpy()
    found = np.stack([getattr(color, name)(one) for one in pixels])
    return torch.from_numpy(found).permute(0, 3, 1, 2)


def test_lab_is_that_of_scikit_image(images: torch.Tensor) -> None:
    expected = by_scikit_image(images, "rgb2lab")
    assert torch.allclose(lab(images.double()), expected, rtol=0, atol=1e-9)
    assert torch.allclose(lab(images).double(), expected, rtol=0, atol=2e-4)


def test_ycbcr_is_that_of_scikit_image(images: torch.Tensor) -> None:
    expected = by_scikit_image(images, "rgb2ycbcr")
    assert torch.allclose(ycbcr(images.double()), expected, rtol=0, atol=1e-9)
    assert torch.allclose(ycbcr(images).double(), expected, rtol=0, atol=1e-4)


def test_grey_has_no_colour() -> None:
    grey = torch.linspace(0, 1, 11).view(1, 1, 1, 11).expand(1, 3, 1, 11)
    # The white of the standard is given with five digits, so a tenth of a hundredth remains.
    assert lab(grey)[:, 1:].abs().max() < 0.02
    assert torch.allclose(ycbcr(grey)[:, 1:], torch.tensor(128.0), atol=1e-4)
    assert lab(grey)[0, 0, 0].diff().min() > 0
