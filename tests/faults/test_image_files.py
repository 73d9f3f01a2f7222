"""Files that claim to be images: only the promised formats are decode_images, and every fault is one line."""

import os
import struct
import threading
import warnings
import zlib
from collections.abc import Callable
from pathlib import Path
from queue import Queue
from typing import Any

import numpy as np
import pytest
import torch
from PIL import EpsImagePlugin, Image, PngImagePlugin

from debiased_contrastive.images.image_files import EXTENSIONS, decode_images
from debiased_contrastive.images.images import FolderImages, read_image_folder

PROMISED = {"JPEG", "PNG", "WEBP", "BMP", "GIF", "TIFF", "PPM"}
LIMIT = 89_478_485


def save(path: Path, form: str) -> None:
    """A picture in that format, in a mode that it takes."""
    mode = {"MSP": "1", "XBM": "1", "PALM": "P", "BLP": "P", "SPIDER": "F"}.get(form, "RGB")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        Image.new(mode, (16, 16), 1).save(path, form)


def refusal(path: Path) -> str:
    """The one line that names the file."""
    with pytest.raises(ValueError, match="cannot be read: ") as caught:
        decode_images([str(path)], 4)
    line = str(caught.value)
    assert line.startswith(f"{path} cannot be read: ")
    assert line.endswith("; replace or remove it")
    assert line.isprintable()
    return line


@pytest.mark.parametrize("name", ["holiday.jpg", "holiday.png", "holiday.tif"])
def test_no_file_starts_another_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    started = tmp_path / "started"
    for program in ("gs", "djpeg"):
        (tmp_path / program).write_text(f"#!/bin/sh\ntouch {started}\n")
        (tmp_path / program).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr(EpsImagePlugin, "gs_binary", None)
    save(tmp_path / name, "EPS")
    assert "not a JPEG, PNG, WebP, BMP, GIF, TIFF or PPM image" in refusal(tmp_path / name)
    assert not started.exists()


def others() -> list[str]:
    """What else Pillow writes by itself; MPO holds several JPEG pictures and is read as one."""
    Image.init()
    return sorted(set(Image.SAVE) - PROMISED - {"MPO", "BUFR", "GRIB", "HDF5", "WMF"})


@pytest.mark.parametrize("form", others())
def test_a_format_that_is_not_promised_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    # Whoever saves SPIDER under a name makes that ending one of SPIDER's.
    monkeypatch.setattr(Image, "EXTENSION", dict(Image.EXTENSION))
    path = tmp_path / "x.png"
    save(path, form)
    assert "not a JPEG, PNG, WebP, BMP, GIF, TIFF or PPM image" in refusal(path)


@pytest.mark.parametrize("form", sorted(PROMISED | {"MPO"}))
def test_a_promised_format_is_read_under_any_name(tmp_path: Path, form: str) -> None:
    Image.new("RGB", (9, 7), (200, 100, 50)).save(tmp_path / "x.jfif", form)
    [pixels] = decode_images([str(tmp_path / "x.jfif")], 4)
    assert np.abs(pixels.astype(int).transpose(1, 2, 0) - (200, 100, 50)).max() <= 5


@pytest.mark.parametrize("compression", ["jpeg", "tiff_lzw", "tiff_adobe_deflate", "packbits"])
def test_a_tiff_may_be_compressed(tmp_path: Path, compression: str) -> None:
    Image.new("RGB", (9, 7), (200, 100, 50)).save(tmp_path / "x.tif", compression=compression)
    [pixels] = decode_images([str(tmp_path / "x.tif")], 4)
    assert np.abs(pixels.astype(int).transpose(1, 2, 0) - (200, 100, 50)).max() <= 5


def test_every_ending_belongs_to_a_promised_format() -> None:
    forms = Image.registered_extensions()
    assert {forms[ending] for ending in EXTENSIONS} == PROMISED
    assert {".jpeg", ".jfif", ".tif", ".tiff", ".pbm", ".pgm", ".ppm"} <= EXTENSIONS


def test_an_ending_that_is_not_promised_is_passed_over(tmp_path: Path) -> None:
    for name in ("a.png", "b.avif", "c.jp2", "d.tga", "e.eps", "f.gif"):
        Image.new("L", (4, 4)).save(tmp_path / name, "PNG")
    assert len(read_image_folder(tmp_path, 4)) == 2


def chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def png(width: int, height: int, *chunks: bytes) -> bytes:
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
    return b"".join([b"\x89PNG\r\n\x1a\n", header, *chunks, chunk(b"IEND", b"")])


def patched(path: Path, form: str, place: bytes, offset: int, size: bytes) -> bytes:
    """A small file of that format which claims another size, `offset` bytes behind `place`."""
    Image.new("L", (16, 16)).save(path, form)
    content = bytearray(path.read_bytes())
    start = content.index(place) + offset
    content[start : start + len(size)] = size
    return bytes(content)


def bomb(path: Path, form: str, width: int, height: int) -> bytes:
    if form == "PNG":
        return png(width, height, chunk(b"IDAT", zlib.compress(bytes(1000))))
    if form == "PPM":
        return f"P6 {width} {height} 255\n".encode()
    if form == "JPEG":
        return patched(path, form, b"\xff\xc0", 5, struct.pack(">HH", height, width))
    if form == "GIF":
        return patched(path, form, b"GIF", 6, struct.pack("<HH", width, height))
    if form == "BMP":
        return patched(path, form, b"BM", 18, struct.pack("<ii", width, height))
    tags = {256: width, 257: height, 258: 8, 259: 1, 262: 1, 273: 8, 277: 1, 278: height, 279: width * height}
    entries = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in tags.items())
    return b"II*\0" + struct.pack("<IH", 8, len(tags)) + entries + bytes(4)


@pytest.mark.parametrize("form", ["PNG", "PPM", "JPEG", "GIF", "BMP", "TIFF"])
@pytest.mark.parametrize(
    ("width", "height"), [(10_000, 10_000), (20_000, 30_000)], ids=["Pillow warns", "Pillow refuses"]
)
@pytest.mark.parametrize("action", ["default", "ignore", "error"])
def test_a_bomb_is_refused_with_its_size(tmp_path: Path, form: str, width: int, height: int, action: str) -> None:
    path = tmp_path / "image.bin"
    path.write_bytes(bomb(path, form, width, height))
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter(action)  # type: ignore[arg-type]
        line = refusal(path)
    assert f" {width * height:,} pixels exceed the limit of {LIMIT:,}, " in line
    assert seen == []


def test_the_filter_of_warnings_stays_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "bomb.png").write_bytes(bomb(tmp_path, "PNG", 10_000, 10_000))
    before = list(warnings.filters)
    refusal(tmp_path / "bomb.png")
    assert list(warnings.filters) == before


@pytest.mark.parametrize("form", sorted(PROMISED))
def test_the_limit_itself_is_allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    Image.new("L", (10, 10)).save(tmp_path / "x.png", form)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)
    assert decode_images([str(tmp_path / "x.png")], 4).shape == (1, 3, 4, 4)
    for limit in (99, 50, 49):
        monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", limit)
        assert f": 100 pixels exceed the limit of {limit}, " in refusal(tmp_path / "x.png")


@pytest.mark.parametrize("kind", [b"zTXt", b"iTXt", b"iCCP"])
def test_a_huge_text_is_refused(tmp_path: Path, kind: bytes) -> None:
    packed = zlib.compress(bytes(PngImagePlugin.MAX_TEXT_CHUNK + 1))
    start = b"key\0\1\0\0\0" if kind == b"iTXt" else b"key\0\0"
    path = tmp_path / "x.png"
    path.write_bytes(png(1, 1, chunk(kind, start + packed), chunk(b"IDAT", zlib.compress(bytes(2)))))
    assert "too large" in refusal(path)


@pytest.mark.parametrize("form", sorted(PROMISED))
@pytest.mark.parametrize("share", [0.0, 0.01, 0.3])
def test_a_truncated_file_is_one_line(tmp_path: Path, form: str, share: float) -> None:
    path = tmp_path / "x.jpg"
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (64, 64, 3), np.uint8)).save(path, form)
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    refusal(path)


@pytest.mark.parametrize("words", ["", "Unable to allocate\n3. GiB"])
def test_too_little_memory_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str) -> None:
    def convert(*_: object) -> None:
        raise MemoryError(words)

    Image.new("L", (4, 4)).save(tmp_path / "x.png")
    monkeypatch.setattr(Image.Image, "convert", convert)
    assert "memory does not suffice" in refusal(tmp_path / "x.png")


def within_two_seconds(look: Callable[[], list[str]]) -> list[str]:
    """What `look` finds; a pipe without a writer would hold it up forever."""
    found: Queue[list[str]] = Queue()
    threading.Thread(target=lambda: found.put(look()), daemon=True).start()
    return found.get(timeout=2)


def listed(root: Path) -> list[str]:
    """The files that a folder counts, after each has been read."""
    images = read_image_folder(root, 4, in_memory_bytes=-1, workers=0)
    assert isinstance(images, FolderImages)
    images.batch(torch.arange(len(images)))
    return [os.path.relpath(path, root) for path in images.paths]


def picture(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("L", (4, 4)).save(path)


def test_only_regular_files_and_links_to_them_count(tmp_path: Path) -> None:
    elsewhere, root = tmp_path / "elsewhere", tmp_path / "root"
    ant = root / "ant"
    for path in (
        elsewhere / "far.png",
        ant / "b.png",
        ant / "a.png",
        ant / "deep.png/c.png",
        ant / ".hidden/d.png",
    ):
        picture(path)
    os.mkfifo(ant / "x.jpg")
    os.mkfifo(ant / "deep.png" / "x.jpg")
    (ant / "link.png").symlink_to(elsewhere / "far.png")
    (ant / "folder.png").symlink_to(elsewhere)
    (ant / "pipe.png").symlink_to(ant / "x.jpg")
    (ant / "nowhere.png").symlink_to(root / "nothing.png")
    (ant / "circle.png").symlink_to(ant / "circle.png")
    (root / "linked").symlink_to(elsewhere)
    below = [".hidden/d.png", "a.png", "b.png", "deep.png/c.png", "link.png"]
    assert within_two_seconds(lambda: listed(root)) == [*(f"ant/{name}" for name in below), "linked/far.png"]


def test_a_class_folder_of_pipes_holds_no_images(tmp_path: Path) -> None:
    (tmp_path / "ant").mkdir()
    os.mkfifo(tmp_path / "ant" / "x.jpg")

    def refused() -> list[str]:
        with pytest.raises(ValueError, match="ant holds no images; add some or remove it"):
            listed(tmp_path)
        return ["refused"]

    assert within_two_seconds(refused) == ["refused"]


def test_a_pipe_beside_flat_images_is_passed_over(tmp_path: Path) -> None:
    picture(tmp_path / "a.png")
    os.mkfifo(tmp_path / "x.jpg")
    assert within_two_seconds(lambda: listed(tmp_path)) == ["a.png"]


def test_regular_files_are_listed_without_a_look_at_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    picture(tmp_path / "ant" / "a.png")
    looked: list[str] = []
    stat = os.stat

    def recorded(path: Any, **options: Any) -> os.stat_result:
        looked.append(str(path))
        return stat(path, **options)

    with monkeypatch.context() as patch:
        patch.setattr(os, "stat", recorded)
        images = read_image_folder(tmp_path, 4, in_memory_bytes=-1, workers=0)
    assert len(images) == 1
    assert not any(path.endswith(".png") for path in looked)
