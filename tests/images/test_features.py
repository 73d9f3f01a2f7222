"""Features are those of whole images in evaluation mode, however they are cut into batches."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn

from debiased_contrastive.images import evaluate as module
from debiased_contrastive.images.augment import normalise, prepare
from debiased_contrastive.images.encoders import small_convnet
from debiased_contrastive.images.evaluate import compute_features
from debiased_contrastive.images.images import FolderImages, Images, read_image_folder
from debiased_contrastive.images.views import Views

CPU = torch.device("cpu")
VIEWS = Views(size=12)


def pixels(b: int, height: int = 12, width: int = 12) -> Tensor:
    generator = torch.Generator().manual_seed(b)
    return torch.randint(256, (b, 3, height, width), dtype=torch.uint8, generator=generator)


def images(b: int, height: int = 12, width: int = 12) -> Images:
    return Images(pixels(b, height, width), None, ())


def encoder() -> nn.Module:
    """With batch statistics that are not those of any batch."""
    torch.manual_seed(0)
    result = small_convnet(width=4, feature_dim=6)
    result(torch.randn(20, 3, 12, 12))
    return result


def test_images_of_the_size_are_only_normalised() -> None:
    x = pixels(5)
    got = prepare(VIEWS, x)
    mean, std = (torch.tensor(values).view(3, 1, 1) for values in (VIEWS.mean, VIEWS.std))
    torch.testing.assert_close(got, (x / 255 - mean) / std)
    assert torch.equal(got, normalise(VIEWS, x.float() / 255))


@pytest.mark.parametrize(("height", "width"), [(32, 32), (20, 12), (9, 31), (12, 40)])
def test_other_images_are_resized_as_pillow_does(height: int, width: int) -> None:
    x = pixels(6, height, width)
    mean, std = (torch.tensor(values).view(3, 1, 1) for values in (VIEWS.mean, VIEWS.std))
    got = (prepare(VIEWS, x) * std + mean) * 255
    assert got.shape == (6, 3, 12, 12)
    for image, result in zip(x, got, strict=True):
        picture = Image.fromarray(image.permute(1, 2, 0).numpy()).resize((12, 12), Image.Resampling.BILINEAR)
        want = torch.from_numpy(np.array(picture)).permute(2, 0, 1).float()
        # Pillow rounds to a byte after each of its two passes.
        assert (result - want).abs().max() <= 1.01


def test_colour_images_are_gray_for_a_gray_encoder() -> None:
    views = Views(size=12, mean=(0.3,), std=(0.5,))
    x = pixels(4)
    for image, result in zip(x, prepare(views, x), strict=True):
        gray = Image.fromarray(image.permute(1, 2, 0).numpy()).convert("L")
        want = (torch.from_numpy(np.array(gray)).float() / 255 - 0.3) / 0.5
        # Pillow rounds to a byte.
        torch.testing.assert_close(result, want.unsqueeze(0), rtol=0, atol=0.6 / 255 / 0.5)
    gray_already = x[:, :1]
    assert torch.equal(prepare(views, gray_already), normalise(views, gray_already.float() / 255))


@pytest.mark.parametrize("training", [True, False])
def test_the_mode_comes_back_and_statistics_stay(training: bool) -> None:
    network = encoder().train(training)
    before = {name: value.clone() for name, value in network.state_dict().items()}
    got = compute_features(network, images(7), VIEWS, CPU)
    assert all(part.training is training for part in network.modules())
    for name, value in network.state_dict().items():
        assert torch.equal(value, before[name]), name
    assert not got.requires_grad
    with torch.no_grad():
        torch.testing.assert_close(got, network.eval()(prepare(VIEWS, pixels(7))))
        assert not torch.allclose(got, network.train()(prepare(VIEWS, pixels(7))), atol=1e-3)


@pytest.mark.parametrize("batch", [1, 3, 7, 100])
def test_the_size_of_the_batches_does_not_matter(batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    network = encoder()
    want = compute_features(network, images(7, 20, 15), VIEWS, CPU)
    monkeypatch.setattr(module, "BATCH", batch)
    seen: list[tuple[int, int]] = []
    got = compute_features(network, images(7, 20, 15), VIEWS, CPU, lambda *numbers: seen.append(numbers))
    torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-6)
    assert got.shape == (7, 6)
    assert seen == [(min(7, done), 7) for done in range(batch, 7 + batch, batch)]


def test_a_folder_has_the_features_of_its_images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BATCH", 2)
    for number, image in enumerate(pixels(5, 12, 16)):
        Image.fromarray(image.permute(1, 2, 0).numpy()).save(tmp_path / f"{number}.png")
    lazy = read_image_folder(tmp_path, 12, in_memory_bytes=0, workers=0)
    assert isinstance(lazy, FolderImages)
    centred = Images(pixels(5, 12, 16)[..., 2:14].clone(), None, ())
    network = encoder()
    assert torch.equal(compute_features(network, lazy, VIEWS, CPU), compute_features(network, centred, VIEWS, CPU))


def test_features_are_floats_whatever_the_encoder_gives() -> None:
    class Half(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.flatten(1)[:, :5].bfloat16()

    assert compute_features(Half(), images(3), VIEWS, CPU).dtype == torch.float32
