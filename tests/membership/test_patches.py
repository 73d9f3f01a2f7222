import math
import time
from typing import Any

import pytest
import torch
from torch import Tensor

from debiased_contrastive.evaluation.geometry import knn_accuracy
from debiased_contrastive.images.datasets import read_fashion_mnist
from debiased_contrastive.membership.patches import Dictionary, encode, patch_features


def images(n: int, c: int = 3, h: int = 10, w: int = 9, seed: int = 0) -> Tensor:
    return torch.randint(256, (n, c, h, w), generator=torch.Generator().manual_seed(seed), dtype=torch.uint8)


def slow_codes(image: Tensor, dictionary: Dictionary) -> list[float]:
    """Patch by patch, from the definition."""
    k, (_, h, w) = len(dictionary.centres), image.shape
    rows, columns = h - 5, w - 5
    codes = [0.0] * (4 * k)
    for y in range(rows):
        for x in range(columns):
            patch = image[:, y : y + 6, x : x + 6].double().flatten()
            patch = (patch - patch.mean()) / math.sqrt(float(patch.var(correction=0)) + 10)
            white = dictionary.whitening.double() @ (patch - dictionary.mean.double())
            distances = [float((white - centre.double()).norm()) for centre in dictionary.centres]
            quarter = 2 * (y >= rows // 2) + (x >= columns // 2)
            for number, distance in enumerate(distances):
                codes[quarter * k + number] += max(0.0, sum(distances) / k - distance)
    return codes


@pytest.mark.parametrize("channels", [1, 3])
def test_codes_are_those_of_a_loop_over_patches(channels: int) -> None:
    generator = torch.Generator().manual_seed(1)
    p = channels * 36
    root = torch.randn(p, p, generator=generator) / p**0.5
    dictionary = Dictionary(
        torch.randn(p, generator=generator), root + root.T, torch.randn(5, p, generator=generator)
    )
    batch = images(2, channels)
    expected = torch.tensor([slow_codes(image, dictionary) for image in batch])
    torch.testing.assert_close(encode(batch, dictionary), expected, rtol=1e-3, atol=1e-2)


def test_features_are_white_and_the_same_for_the_same_seed() -> None:
    batch = images(300)
    features = patch_features(batch, centres=20, width=16)
    assert features.shape == (300, 16)
    assert features.dtype == torch.float32
    torch.testing.assert_close(features.mean(0), torch.zeros(16), atol=1e-3, rtol=0)
    torch.testing.assert_close(features.T.cov(correction=0), torch.eye(16), atol=1e-2, rtol=0)
    assert torch.equal(patch_features(batch, centres=20, width=16), features)
    assert not torch.equal(patch_features(batch, centres=20, width=16, seed=1), features)


def test_large_images_are_shrunk_and_few_or_flat_ones_are_no_error() -> None:
    assert patch_features(images(6, 3, 70, 50), centres=8).shape[0] == 6
    assert patch_features(images(2), centres=8).shape == (2, 1)
    assert patch_features(torch.zeros(5, 1, 8, 8, dtype=torch.uint8)).eq(0).all()


def test_they_tell_clothes_apart_better_than_pixels() -> None:
    clothes = read_fashion_mnist("train")
    assert clothes.labels is not None
    pixels, labels = clothes.pixels[:1000], clothes.labels[:1000].long()
    start = time.perf_counter()
    features = patch_features(pixels)
    assert time.perf_counter() - start < 30
    raw = pixels.flatten(1).float() / 255
    ours, theirs = (knn_accuracy(x[:700], labels[:700], x[700:], labels[700:], k=20) for x in (features, raw))
    assert ours > 0.78
    assert ours > theirs + 0.02


@pytest.mark.parametrize(
    ("batch", "settings", "message"),
    [
        (images(3).float(), {}, "images must be uint8"),
        (images(3)[0], {}, "images must be uint8"),
        (images(1), {}, "n at least 2"),
        (images(3, 3, 7, 20), {}, "h and w at least 8"),
        (images(3), {"centres": 0}, "centres and width must be at least 1"),
    ],
)
def test_bad_input_is_refused_in_one_line(batch: Tensor, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        patch_features(batch, **settings)
