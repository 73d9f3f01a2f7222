"""Views of whole batches: shapes, probabilities, repeatability, and each image as it would be alone."""

from dataclasses import replace
from typing import Literal

import pytest
import torch

from debiased_contrastive.images import transforms
from debiased_contrastive.images.augment import ViewParameters, apply_views, draw_views, make_views, normalise
from debiased_contrastive.images.transforms import MOMENTS, lab, ycbcr
from debiased_contrastive.images.views import ColourViews, Views

NOTHING = Views(
    size=12, scale=(1.0, 1.0), ratio=(1.0, 1.0), flip=0.0, jitter_probability=0.0, grayscale_probability=0.0,
    blur_probability=0.0, mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0),
)  # fmt: skip


def pixels(b: int = 5, channels: int = 3, side: int = 12) -> torch.Tensor:
    return torch.randint(
        256, (b, channels, side, side), dtype=torch.uint8, generator=torch.Generator().manual_seed(0)
    )


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_without_any_change_a_view_is_the_image() -> None:
    images = pixels()
    views = make_views(NOTHING, images, 3, generator())
    assert views.shape == (3, 5, 3, 12, 12)
    for view in views:
        torch.testing.assert_close(view, images.float() / 255)
    normal = make_views(replace(NOTHING, mean=(0.4, 0.5, 0.6), std=(0.2, 0.3, 0.4)), images, 1, generator())[0]
    torch.testing.assert_close(normal[:, 1], (images[:, 1].float() / 255 - 0.5) / 0.3)


def test_the_same_generator_gives_the_same_views_and_another_others() -> None:
    views = Views(size=12)
    first, again, other = (make_views(views, pixels(), 2, generator(seed)) for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_views_and_images_have_parameters_of_their_own() -> None:
    same = pixels(1).expand(6, -1, -1, -1)
    views = make_views(Views(size=12), same, 2, generator()).flatten(0, 1)
    for i in range(12):
        for j in range(i):
            assert (views[i] - views[j]).abs().max() > 0.01


@pytest.mark.parametrize(
    ("name", "probability"),
    [("flip", 0.5), ("jitter_probability", 0.8), ("grayscale_probability", 0.2), ("blur_probability", 0.5)],
)
def test_each_operation_happens_as_often_as_asked(name: str, probability: float) -> None:
    images = pixels(1).expand(4000, -1, -1, -1)
    views = make_views(replace(NOTHING, **{name: probability}), images, 1, generator())[0]  # type: ignore[arg-type]
    changed = ((views - images.float() / 255).abs().amax((1, 2, 3)) > 1e-4).float().mean().item()
    assert changed == pytest.approx(probability, abs=0.03)  # four standard errors


def test_jitter_comes_in_every_order_with_factors_in_range() -> None:
    """Brightness alone: the largest factor met is 1.4, the smallest 0.6, uniform between."""
    images = torch.full((4000, 3, 4, 4), 128, dtype=torch.uint8)
    bright = replace(NOTHING, size=4, jitter=(0.4, 0.0, 0.0, 0.0), jitter_probability=1.0)
    views = make_views(bright, images, 1, generator())[0]
    factors = (views.mean((1, 2, 3)) * 255 / 128).sort().values
    assert 0.6 - 1e-4 < factors[0] < 0.61
    assert 1.39 < factors[-1] < 1.4 + 1e-4
    torch.testing.assert_close(factors, torch.linspace(0.6, 1.4, 4000), rtol=0, atol=0.03)
    # Brightness and contrast do not commute: two orders, two images per pair of factors.
    full = replace(NOTHING, jitter_probability=1.0)
    assert make_views(full, pixels(), 1, generator()).isfinite().all()


def test_greyscale_images() -> None:
    views = make_views(Views(size=10, mean=(0.286,), std=(0.353,)), pixels(4, 1), 2, generator())
    assert views.shape == (2, 4, 1, 10, 10)
    with pytest.raises(ValueError, match="images must have 3 channels, as mean and std have; got 1"):
        make_views(Views(), pixels(4, 1), 2, generator())


def test_settings_are_checked() -> None:
    with pytest.raises(ValueError, match=r"flip must lie in \[0, 1\]; got 2"):
        Views(flip=2)
    with pytest.raises(ValueError, match="blur_kernel odd; got size=32, blur_kernel=4"):
        Views(blur_kernel=4)
    with pytest.raises(ValueError, match="one value per channel"):
        Views(mean=(0.5,))


VIEWS = Views(size=12)


def photos(b: int, side: int = 16) -> torch.Tensor:
    generator = torch.Generator().manual_seed(b)
    return torch.randint(256, (b, 3, side, side), dtype=torch.uint8, generator=generator)


@pytest.mark.parametrize("count", [1, 2, 4])
def test_parts_of_a_batch_are_views_of_the_whole(count: int) -> None:
    images = photos(11)
    drawn = draw_views(VIEWS, count, 11, 16, 16, torch.Generator().manual_seed(0))
    whole = apply_views(VIEWS, images, drawn)
    assert whole.shape == (count, 11, 3, 12, 12)
    for part in (slice(0, 4), slice(4, 11), slice(10, 11), slice(0, 11)):
        torch.testing.assert_close(
            apply_views(VIEWS, images[part], drawn.select(part)), whole[:, part], rtol=1e-6, atol=1e-6
        )
    # The draws of other images would not do.
    other = apply_views(VIEWS, images[:4], drawn.select(slice(4, 8)))
    assert (other - whole[:, :4]).abs().amax((2, 3, 4)).min() > 0.01


def test_drawing_and_applying_is_calling() -> None:
    images = photos(6)
    drawn = draw_views(VIEWS, 2, 6, 16, 16, torch.Generator().manual_seed(3))
    assert torch.equal(
        apply_views(VIEWS, images, drawn), make_views(VIEWS, images, 2, torch.Generator().manual_seed(3))
    )


def alone(image: torch.Tensor, drawn: ViewParameters, view: int, i: int) -> torch.Tensor:
    """One view of one image, its operations one after the other as they were drawn."""
    jitter = (transforms.brightness_, transforms.contrast_, transforms.saturation_, transforms.hue_)
    made = transforms.crop(
        image[None].float() / 255, drawn.boxes[view, i][None], VIEWS.size, drawn.flipped[view, i][None]
    )
    if drawn.jittered[view, i]:
        for kind in drawn.order[view, i].tolist():
            jitter[kind](made, drawn.factors[view, i, kind][None])
    if drawn.gray[view, i]:
        made = transforms.grayscale(made).repeat(1, 3, 1, 1)
    if drawn.blurred[view, i]:
        transforms.blur_(made, drawn.sigma[view, i][None], VIEWS.blur_kernel)
    return normalise(VIEWS, made)[0]


@pytest.mark.parametrize("b", [1, 3, 70])
def test_a_batch_is_each_of_its_images_alone(b: int) -> None:
    images = photos(b)
    drawn = draw_views(VIEWS, 2, b, 16, 16, torch.Generator().manual_seed(b))
    got = apply_views(VIEWS, images, drawn)
    for view in range(2):
        for i in range(b):
            torch.testing.assert_close(got[view, i], alone(images[i], drawn, view, i), rtol=1e-5, atol=1e-5)


def test_every_entry_is_cut() -> None:
    drawn = draw_views(VIEWS, 2, 9, 16, 16, torch.Generator().manual_seed(0))
    part = drawn.select(slice(3, 7))
    for name, values in drawn._asdict().items():
        assert values.shape[:2] == (2, 9), name
        assert torch.equal(getattr(part, name), values[:, 3:7]), name


def test_another_number_of_images_is_refused() -> None:
    drawn = draw_views(VIEWS, 2, 5, 16, 16, torch.Generator().manual_seed(0))
    for part, b in ((slice(0, 5), 4), (slice(0, 2), 5)):
        count = part.stop
        with pytest.raises(ValueError, match=f"for as many images as there are; got {count} for {b}$"):
            apply_views(VIEWS, photos(b), drawn.select(part))


@pytest.mark.parametrize("space", ["lab", "ycbcr"])
def test_views_are_in_their_space(space: Literal["lab", "ycbcr"]) -> None:
    images = torch.randint(256, (3, 3, 8, 8), dtype=torch.uint8)
    plain = {
        "size": 6,
        "jitter_probability": 0,
        "grayscale_probability": 0,
        "blur_probability": 0,
        "blur_kernel": 1,
    }
    views = ColourViews(**plain, space=space)  # type: ignore[arg-type]
    rgb = Views(**plain, mean=(0.0,) * 3, std=(1.0,) * 3)  # type: ignore[arg-type]
    drawn = draw_views(rgb, 2, 3, 8, 8, torch.Generator().manual_seed(0))
    seen = apply_views(rgb, images, drawn)
    mean, std = (torch.tensor(values).view(3, 1, 1) for values in MOMENTS[space])
    expected = ((lab if space == "lab" else ycbcr)(seen.flatten(0, 1)) - mean) / std
    assert torch.allclose(apply_views(views, images, drawn), expected.view_as(seen), atol=1e-5)
    assert torch.allclose(normalise(views, seen[0]), expected[:3], atol=1e-5)


def test_gray_images_have_no_colour_space() -> None:
    with pytest.raises(ValueError, match="space=lab is of three channels"):
        ColourViews(space="lab", mean=(0.5,), std=(0.5,))
    with pytest.raises(ValueError, match="space must be one of lab, ycbcr; got 'hsv'"):
        ColourViews(space="hsv")  # type: ignore[arg-type]
