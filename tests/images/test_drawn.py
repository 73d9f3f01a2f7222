"""What was drawn for a batch can be applied to its parts, wherever they are."""

import pytest
import torch

from debiased_contrastive.images import colour
from debiased_contrastive.images.crop import cropped
from debiased_contrastive.images.views import Drawn, SimCLRViews

VIEWS = SimCLRViews(size=12)


def pixels(b: int, side: int = 16) -> torch.Tensor:
    generator = torch.Generator().manual_seed(b)
    return torch.randint(256, (b, 3, side, side), dtype=torch.uint8, generator=generator)


@pytest.mark.parametrize("count", [1, 2, 4])
def test_parts_of_a_batch_are_views_of_the_whole(count: int) -> None:
    images = pixels(11)
    drawn = VIEWS.drawn(count, 11, 16, 16, torch.Generator().manual_seed(0))
    whole = VIEWS.applied(images, drawn)
    assert whole.shape == (count, 11, 3, 12, 12)
    for part in (slice(0, 4), slice(4, 11), slice(10, 11), slice(0, 11)):
        torch.testing.assert_close(
            VIEWS.applied(images[part], drawn.of(part)), whole[:, part], rtol=1e-6, atol=1e-6
        )
    # The draws of other images would not do.
    other = VIEWS.applied(images[:4], drawn.of(slice(4, 8)))
    assert (other - whole[:, :4]).abs().amax((2, 3, 4)).min() > 0.01


def test_drawing_and_applying_is_calling() -> None:
    images = pixels(6)
    drawn = VIEWS.drawn(2, 6, 16, 16, torch.Generator().manual_seed(3))
    assert torch.equal(VIEWS.applied(images, drawn), VIEWS(images, 2, torch.Generator().manual_seed(3)))


def alone(image: torch.Tensor, drawn: Drawn, view: int, i: int) -> torch.Tensor:
    """One view of one image, its operations one after the other as they were drawn."""
    jitter = (colour.brightness_, colour.contrast_, colour.saturation_, colour.hue_)
    made = cropped(image[None].float() / 255, drawn.boxes[view, i][None], VIEWS.size, drawn.flipped[view, i][None])
    if drawn.jittered[view, i]:
        for kind in drawn.order[view, i].tolist():
            jitter[kind](made, drawn.factors[view, i, kind][None])
    if drawn.gray[view, i]:
        made = colour.grayscale(made).repeat(1, 3, 1, 1)
    if drawn.blurred[view, i]:
        colour.blur_(made, drawn.sigma[view, i][None], VIEWS.blur_kernel)
    return VIEWS.normalised(made)[0]


@pytest.mark.parametrize("b", [1, 3, 70])
def test_a_batch_is_each_of_its_images_alone(b: int) -> None:
    images = pixels(b)
    drawn = VIEWS.drawn(2, b, 16, 16, torch.Generator().manual_seed(b))
    got = VIEWS.applied(images, drawn)
    for view in range(2):
        for i in range(b):
            torch.testing.assert_close(got[view, i], alone(images[i], drawn, view, i), rtol=1e-5, atol=1e-5)


def test_every_entry_is_cut() -> None:
    drawn = VIEWS.drawn(2, 9, 16, 16, torch.Generator().manual_seed(0))
    part = drawn.of(slice(3, 7))
    for name, values in drawn._asdict().items():
        assert values.shape[:2] == (2, 9), name
        assert torch.equal(getattr(part, name), values[:, 3:7]), name


def test_another_number_of_images_is_refused() -> None:
    drawn = VIEWS.drawn(2, 5, 16, 16, torch.Generator().manual_seed(0))
    for part, b in ((slice(0, 5), 4), (slice(0, 2), 5)):
        count = part.stop
        with pytest.raises(ValueError, match=f"for as many images as there are; got {count} for {b}$"):
            VIEWS.applied(pixels(b), drawn.of(part))
