"""The whole recipe: shapes, probabilities, independence, repeatability."""

from dataclasses import replace

import pytest
import torch

from debiased_contrastive.images.views import SimCLRViews

NOTHING = SimCLRViews(
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
    views = NOTHING(images, 3, generator())
    assert views.shape == (3, 5, 3, 12, 12)
    for view in views:
        torch.testing.assert_close(view, images.float() / 255)
    normal = replace(NOTHING, mean=(0.4, 0.5, 0.6), std=(0.2, 0.3, 0.4))(images, 1, generator())[0]
    torch.testing.assert_close(normal[:, 1], (images[:, 1].float() / 255 - 0.5) / 0.3)


def test_the_same_generator_gives_the_same_views_and_another_others() -> None:
    views = SimCLRViews(size=12)
    first, again, other = (views(pixels(), 2, generator(seed)) for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_views_and_images_have_parameters_of_their_own() -> None:
    same = pixels(1).expand(6, -1, -1, -1)
    views = SimCLRViews(size=12)(same, 2, generator()).flatten(0, 1)
    for i in range(12):
        for j in range(i):
            assert (views[i] - views[j]).abs().max() > 0.01


@pytest.mark.parametrize(
    ("name", "probability"),
    [("flip", 0.5), ("jitter_probability", 0.8), ("grayscale_probability", 0.2), ("blur_probability", 0.5)],
)
def test_each_operation_happens_as_often_as_asked(name: str, probability: float) -> None:
    images = pixels(1).expand(4000, -1, -1, -1)
    views = replace(NOTHING, **{name: probability})(images, 1, generator())[0]  # type: ignore[arg-type]
    changed = ((views - images.float() / 255).abs().amax((1, 2, 3)) > 1e-4).float().mean().item()
    assert changed == pytest.approx(probability, abs=0.03)  # four standard errors


def test_jitter_comes_in_every_order_with_factors_in_range() -> None:
    """Brightness alone: the largest factor met is 1.4, the smallest 0.6, uniform between."""
    images = torch.full((4000, 3, 4, 4), 128, dtype=torch.uint8)
    views = replace(NOTHING, size=4, jitter=(0.4, 0.0, 0.0, 0.0), jitter_probability=1.0)(images, 1, generator())[0]
    factors = (views.mean((1, 2, 3)) * 255 / 128).sort().values
    assert 0.6 - 1e-4 < factors[0] < 0.61
    assert 1.39 < factors[-1] < 1.4 + 1e-4
    torch.testing.assert_close(factors, torch.linspace(0.6, 1.4, 4000), rtol=0, atol=0.03)
    # Brightness and contrast do not commute: two orders, two images per pair of factors.
    full = replace(NOTHING, jitter_probability=1.0)
    assert full(pixels(), 1, generator()).isfinite().all()


def test_greyscale_images() -> None:
    views = SimCLRViews(size=10, mean=(0.286,), std=(0.353,))(pixels(4, 1), 2, generator())
    assert views.shape == (2, 4, 1, 10, 10)
    with pytest.raises(ValueError, match="images must have 3 channels, as mean and std have; got 1"):
        SimCLRViews()(pixels(4, 1), 2, generator())


def test_settings_are_checked() -> None:
    with pytest.raises(ValueError, match=r"flip must lie in \[0, 1\]; got 2"):
        SimCLRViews(flip=2)
    with pytest.raises(ValueError, match="blur_kernel odd; got size=32, blur_kernel=4"):
        SimCLRViews(blur_kernel=4)
    with pytest.raises(ValueError, match="one value per channel"):
        SimCLRViews(mean=(0.5,))
