"""Every kind of image file becomes the same square of RGB pixels that Pillow's plain steps give."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from debiased_contrastive.images.image_files import decode_images


def photo(width: int, height: int) -> Image.Image:
    """A smooth picture, so that scaling by different roads differs little."""
    x, y = np.meshgrid(np.linspace(0, 1, width), np.linspace(0, 1, height))
    waves = np.stack([np.sin(5 * x), np.cos(4 * y), np.sin(3 * (x + y))], -1)
    return Image.fromarray((127.5 + 127.5 * waves).astype(np.uint8))


def two_steps(image: Image.Image, size: int) -> Any:
    """Resize the short side, then crop the centre: the definition, in whole pixels."""
    scale = size / min(image.size)
    width, height = (max(size, round(length * scale)) for length in image.size)
    resized = image.resize((width, height), Image.Resampling.BILINEAR)
    left, top = (width - size) // 2, (height - size) // 2
    return np.asarray(resized.crop((left, top, left + size, top + size))).transpose(2, 0, 1)


@pytest.mark.parametrize("shape", [(64, 64), (97, 60), (60, 131), (20, 33), (3, 200), (1, 1)])
@pytest.mark.parametrize("size", [1, 32, 64])
def test_the_short_side_is_scaled_and_the_centre_kept(tmp_path: Path, shape: tuple[int, int], size: int) -> None:
    image = photo(*shape)
    image.save(tmp_path / "image.png")
    [pixels] = decode_images([str(tmp_path / "image.png")], size)
    assert pixels.shape == (3, size, size)
    if shape == (size, size):
        np.testing.assert_array_equal(pixels, np.asarray(image).transpose(2, 0, 1))
    # Half a pixel of shift is what rounding to whole pixels may cost.
    slope = np.abs(np.diff(np.asarray(image, int), axis=0)).max(initial=0) + 8
    assert np.abs(pixels.astype(int) - two_steps(image, size)).max() <= slope * max(1, min(shape) / size)


def test_it_is_not_mirrored_or_turned(tmp_path: Path) -> None:
    corners = np.zeros((40, 40, 3), np.uint8)
    corners[:20, 20:] = (250, 10, 20)
    Image.fromarray(corners).save(tmp_path / "corners.png")
    [pixels] = decode_images([str(tmp_path / "corners.png")], 8)
    assert pixels[:, 1, 6].tolist() == [250, 10, 20]
    assert pixels[:, 6, 1].tolist() == pixels[:, 1, 1].tolist() == pixels[:, 6, 6].tolist() == [0, 0, 0]


def flat(colour: Any, mode: str = "RGB") -> Image.Image:
    return Image.new(mode, (10, 12), colour)


def palette_with_alpha() -> Image.Image:
    image = flat(1, "P")
    image.putpalette([9, 9, 9, 200, 100, 50])
    image.info["transparency"] = bytes([255, 128])
    return image


@pytest.mark.parametrize(
    ("name", "image", "expected"),
    [
        ("grey.png", flat(77, "L"), (77, 77, 77)),
        ("grey.jpg", flat(77, "L"), (77, 77, 77)),
        ("bits.png", flat(1, "1"), (255, 255, 255)),
        ("deep.png", Image.fromarray(np.full((10, 12), 77 * 256 + 9, np.uint16)), (77, 77, 77)),
        ("deep.tif", Image.fromarray(np.full((10, 12), 77 * 256 + 9, np.uint16)), (77, 77, 77)),
        ("palette.gif", flat((200, 100, 50)).convert("P", palette=Image.Palette.ADAPTIVE), (200, 100, 50)),
        ("palette.png", palette_with_alpha(), (227, 177, 152)),
        ("alpha.png", flat((200, 100, 50, 255), "RGBA"), (200, 100, 50)),
        ("glass.png", flat((200, 100, 50, 0), "RGBA"), (255, 255, 255)),
        ("grey_alpha.png", flat((40, 255), "LA"), (40, 40, 40)),
        ("ink.jpg", flat((0, 0, 0, 0), "CMYK"), (255, 255, 255)),
        ("colour.JPEG", flat((200, 100, 50)), (200, 100, 50)),
        ("colour.webp", flat((200, 100, 50)), (200, 100, 50)),
        ("colour.bmp", flat((200, 100, 50)), (200, 100, 50)),
    ],
)
def test_every_mode_becomes_rgb(tmp_path: Path, name: str, image: Image.Image, expected: Any) -> None:
    image.save(tmp_path / name)
    [pixels] = decode_images([str(tmp_path / name)], 4)
    assert np.abs(pixels.astype(int).transpose(1, 2, 0) - expected).max() <= 2


def test_a_large_jpeg_decoded_in_part_looks_the_same(tmp_path: Path) -> None:
    image = photo(1200, 900)
    image.save(tmp_path / "large.jpg", quality=95)
    [pixels] = decode_images([str(tmp_path / "large.jpg")], 48)
    assert np.abs(pixels.astype(int) - two_steps(image, 48)).mean() < 1.5


@pytest.mark.parametrize("name", ["cut.jpg", "cut.png", "cut.webp", "cut.bmp", "cut.tif"])
@pytest.mark.parametrize("share", [0.0, 0.02, 0.6])
def test_a_cut_file_is_named(tmp_path: Path, name: str, share: float) -> None:
    path = tmp_path / name
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (64, 64, 3), np.uint8)).save(path)
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(ValueError, match=r"cannot be read: .+; replace or remove it") as caught:
        decode_images([str(path)], 8)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("values", "message"),
    [(np.zeros((4, 4), np.float32), "floating-point"), (np.full((4, 4), 1 << 20, np.int32), "16 bits")],
)
def test_pixels_without_a_known_range_are_refused(tmp_path: Path, values: Any, message: str) -> None:
    Image.fromarray(values).save(tmp_path / "image.tif")
    with pytest.raises(ValueError, match=rf"image.tif cannot be read: .*{message}"):
        decode_images([str(tmp_path / "image.tif")], 4)


def test_a_picture_that_would_fill_the_memory_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flat((1, 2, 3)).save(tmp_path / "bomb.png")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 50)
    with pytest.raises(ValueError, match=r"bomb.png cannot be read: .*decompression bomb"):
        decode_images([str(tmp_path / "bomb.png")], 4)
