"""Crops lie where torchvision's would, and are what Pillow makes of them."""

import math
import random

import numpy as np
import pytest
import torch
from PIL import Image

from debiased_contrastive.images.crop import crop_boxes, cropped


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
    got = crop_boxes(count, height, width, scale=scale, generator=generator).double().numpy()
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
    boxes = crop_boxes(12, height, width, generator=generator)
    flipped = torch.arange(12) % 2 == 1
    got = cropped(pixels.float(), boxes, size, flipped)
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
    square = cropped(images[..., :5, :], torch.tensor([[0.0, 0.0, 5.0, 5.0]]).expand(3, 4), 5)
    torch.testing.assert_close(square, images[..., :5, :])
    mirrored = cropped(images[..., :5, :], torch.tensor([[0.0, 0.0, 5.0, 5.0]]).expand(3, 4), 5, torch.ones(3) > 0)
    torch.testing.assert_close(mirrored, images[..., :5, :].flip(3))
    constant = cropped(torch.full((3, 1, 7, 5), 0.3), boxes, 11)
    torch.testing.assert_close(constant, torch.full((3, 1, 11, 11), 0.3))
