"""The contenders of the benchmark of views do the same work: each operation alone, certain, gives what ours gives."""

import importlib.util
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from benchmarks import views
from benchmarks.contenders import OURS

LIBRARIES = {"kornia-slice": "kornia", "kornia-resample": "kornia", "torchvision": "torchvision"}
NOTHING: dict[str, Any] = {
    "scale": (1.0, 1.0),
    "ratio": (1.0, 1.0),
    "flip": 0.0,
    "jitter": (0.0, 0.0, 0.0, 0.0),
    "jitter_probability": 0.0,
    "grayscale_probability": 0.0,
    "blur_probability": 0.0,
}
ROUNDING = 3 / 255 / 0.2
"""torchvision keeps bytes until the end, so three roundings, normalised."""
QUANTILES = torch.tensor([0.05, 0.25, 0.5, 0.75, 0.95])

pytestmark = [
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.parametrize("name", [name for name in views.CONTENDERS if name != OURS]),
]


def both(name: str, pixels: Tensor, monkeypatch: pytest.MonkeyPatch, **recipe: Any) -> tuple[Tensor, Tensor]:
    """A peer's views and ours by a recipe that has this alone."""
    if importlib.util.find_spec(LIBRARIES[name]) is None:
        pytest.skip(f"{LIBRARIES[name]} is not installed: it is in the extra `bench`")
    monkeypatch.setattr(views, "RECIPE", replace(views.RECIPE, **recipe))
    torch.manual_seed(0)
    theirs, ours = (views.CONTENDERS[contender].build()(pixels) for contender in (name, OURS))
    assert theirs.shape == ours.shape == (2, len(pixels), 3, 32, 32)
    assert theirs.dtype == ours.dtype == torch.float32
    return theirs, ours


@pytest.mark.parametrize(
    "operation",
    [
        {},
        {"flip": 1.0},
        {"grayscale_probability": 1.0},
        {"blur_probability": 1.0, "blur_sigma": (1.0, 1.0001)},
    ],
)
def test_operations_without_chance(name: str, operation: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    theirs, ours = both(name, views.pixels_of(4), monkeypatch, **(NOTHING | operation))
    torch.testing.assert_close(theirs, ours, rtol=0, atol=ROUNDING)


@pytest.mark.parametrize("kind", range(4))
def test_jitter_has_the_same_spread(name: str, kind: int, monkeypatch: pytest.MonkeyPatch) -> None:
    jitter = tuple(views.RECIPE.jitter[kind] if place == kind else 0.0 for place in range(4))
    pixels = torch.tensor([150, 90, 60], dtype=torch.uint8).view(1, 3, 1, 1).repeat(512, 1, 32, 32)
    pixels[..., 16:] = 100
    recipe = NOTHING | {"jitter": jitter, "jitter_probability": 1.0}
    theirs, ours = (
        made[:, :, 1, 0, 0].flatten().quantile(QUANTILES) for made in both(name, pixels, monkeypatch, **recipe)
    )
    spread = float(ours[-1] - ours[0])
    assert spread > 0.05
    torch.testing.assert_close(theirs, ours, rtol=0, atol=0.1 * spread + ROUNDING / 3)


def test_crops_lie_in_the_same_places(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a ramp the mean of a view tells where its crop lay, and the slope how large it was."""
    pixels = torch.arange(0, 256, 8, dtype=torch.uint8).expand(512, 3, 32, 32)
    crop = {"scale": views.RECIPE.scale, "ratio": views.RECIPE.ratio}
    both_made = both(name, pixels, monkeypatch, **(NOTHING | crop))
    for statistic in (place, slope):
        theirs, ours = (statistic(made).quantile(QUANTILES) for made in both_made)
        torch.testing.assert_close(theirs, ours, rtol=0, atol=0.1 * float(ours[-1] - ours[0]))


def test_every_image_of_every_view_has_its_own_chance(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pixels = views.pixels_of(1).repeat(8, 1, 1, 1)
    theirs, ours = both(name, pixels, monkeypatch)
    for made in (theirs, ours):
        assert len(made.flatten(0, 1).flatten(1).unique(dim=0)) == 16


def place(made: Tensor) -> Tensor:
    return made.mean((-1, -2, -3)).flatten()


def slope(made: Tensor) -> Tensor:
    return made.diff(dim=-1).mean((-1, -2, -3)).flatten()
