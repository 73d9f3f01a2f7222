"""Colour spaces of whole batches are scikit-image's, and their normalisation is what it says."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from skimage import color

from debiased_contrastive.images.colour_space import MOMENTS, Space, lab, ycbcr
from debiased_contrastive.images.views import SimCLRViews

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


@pytest.mark.parametrize("space", ["lab", "ycbcr"])
def test_views_are_in_their_space(space: Space) -> None:
    pixels = torch.randint(256, (3, 3, 8, 8), dtype=torch.uint8)
    views = SimCLRViews(
        size=6, jitter_probability=0, grayscale_probability=0, blur_probability=0, blur_kernel=1, space=space
    )
    rgb = replace(views, space="rgb", mean=(0.0,) * 3, std=(1.0,) * 3)
    drawn = rgb.drawn(2, 3, 8, 8, torch.Generator().manual_seed(0))
    seen = rgb.applied(pixels, drawn)
    mean, std = (torch.tensor(values).view(3, 1, 1) for values in MOMENTS[space])
    expected = ((lab if space == "lab" else ycbcr)(seen.flatten(0, 1)) - mean) / std
    assert torch.allclose(views.applied(pixels, drawn), expected.view_as(seen), atol=1e-5)
    assert torch.allclose(views.normalised(seen[0]), expected[:3], atol=1e-5)


def test_gray_images_have_no_colour_space() -> None:
    with pytest.raises(ValueError, match="space=lab is of three channels"):
        SimCLRViews(space="lab", mean=(0.5,), std=(0.5,))
    with pytest.raises(ValueError, match="space must be one of rgb, lab, ycbcr; got 'hsv'"):
        SimCLRViews(space="hsv")  # type: ignore[arg-type]
