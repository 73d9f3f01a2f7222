"""Sets of images: in memory, or in a folder and decoded when asked for."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from debiased_contrastive.images.images import FolderImages, Images, read_image_folder


def numbered(labels: list[int] | None, n: int = 6, classes: int = 3) -> Images:
    pixels = torch.arange(n, dtype=torch.uint8)[:, None, None, None].expand(n, 1, 2, 2)
    return Images(
        pixels, None if labels is None else torch.tensor(labels), tuple(f"class {c}" for c in range(classes))
    )


def test_a_batch_is_the_images_asked_for_in_that_order() -> None:
    images = numbered(None)
    batch = images.batch(torch.tensor([4, 0, 4]))
    assert batch[:, 0, 0, 0].tolist() == [4, 0, 4]
    assert batch.shape == (3, 1, 2, 2)
    assert batch.dtype == torch.uint8
    assert batch.is_contiguous()
    assert len(images) == 6


@given(
    labels=st.lists(st.integers(-1, 3), min_size=1, max_size=30),
    classes=st.permutations(range(4)).flatmap(lambda p: st.integers(1, 4).map(lambda k: p[:k])),
)
def test_only_is_a_filter_that_keeps_the_order(labels: list[int], classes: list[int]) -> None:
    images = numbered(labels, len(labels), 4)
    chosen = images.only(classes)
    expected = [(i, classes.index(label)) for i, label in enumerate(labels) if label in classes]
    assert chosen.pixels[:, 0, 0, 0].tolist() == [i for i, _ in expected]
    assert chosen.labels is not None
    assert chosen.labels.tolist() == [label for _, label in expected]
    assert chosen.class_names == tuple(f"class {c}" for c in classes)
    if all(labels.count(c) for c in classes):
        one = images.only(classes, 1)
        assert sorted(one.pixels[:, 0, 0, 0].tolist()) == sorted(labels.index(c) for c in classes)


@pytest.mark.parametrize(
    ("classes", "per_class", "message"),
    [
        ([], None, "at least one and all different; got \\[\\]"),
        ([1, 1], None, "all different"),
        ([3], None, "must lie in 0..2; got \\[3\\]"),
        ([-1], None, "must lie in 0..2"),
        ([0], 0, "per_class must be at least 1; got 0"),
        ([0, 2], 2, "at most 1, all images of class 'class 2'; got 2"),
    ],
)
def test_bad_choices_are_refused(classes: list[int], per_class: int | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        numbered([0, 0, 1, 1, 2, -1]).only(classes, per_class)


def test_nothing_can_be_chosen_without_labels() -> None:
    with pytest.raises(ValueError, match="this set has none"):
        numbered(None).only([0])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"pixels": torch.zeros(2, 2, 2, dtype=torch.uint8)},
            r"shape \(n, c, h, w\); got torch.uint8 \(2, 2, 2\)",
        ),
        ({"pixels": torch.zeros(2, 1, 2, 2)}, "must be uint8"),
        ({"labels": torch.zeros(3, dtype=torch.int64)}, "one for each of the 2 images"),
        ({"labels": torch.zeros(2)}, "must be int64"),
        ({"labels": torch.tensor([0, 1])}, r"lie in -1..0, one for each class name; got 0..1"),
        ({"labels": torch.tensor([0, -2])}, "got -2..0"),
    ],
)
def test_a_set_that_contradicts_itself_is_refused(changes: dict[str, Any], message: str) -> None:
    good = {"pixels": torch.zeros(2, 1, 2, 2, dtype=torch.uint8), "labels": None, "class_names": ("one",)}
    with pytest.raises(ValueError, match=message):
        Images(**{**good, **changes})


def test_a_mask_is_not_taken_for_indices() -> None:
    for indices in (torch.tensor([True, False]), torch.tensor(1), torch.tensor([0.0])):
        with pytest.raises(ValueError, match="must be integers of shape"):
            numbered(None).batch(indices)


def save(path: Path, red: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (6, 5), (red, 0, 0)).save(path)


def reds(pixels: torch.Tensor) -> list[int]:
    return pixels[:, 0, 0, 0].tolist()


@pytest.fixture
def classes(tmp_path: Path) -> Path:
    root = tmp_path / "classes"
    for red in range(12):
        save(root / ("zebra", "ant")[red % 2] / f"{red:02}.png", red)
    save(root / "ant" / "deeper" / "x.BMP", 200)
    (root / "ant" / "notes.txt").write_text("no image")
    (root / "ant" / "._00.png").write_text("what another system leaves behind")
    (root / "README.md").write_text("no image")
    (root / ".cache").mkdir()
    return root


EXPECTED = [1, 3, 5, 7, 9, 11, 200, 0, 2, 4, 6, 8, 10]


def test_class_folders_become_labels(classes: Path) -> None:
    seen: list[tuple[int, int]] = []
    images = read_image_folder(classes, 4, on_progress=lambda *numbers: seen.append(numbers))
    assert isinstance(images, Images)
    assert images.class_names == ("ant", "zebra")
    assert images.labels is not None
    assert images.labels.tolist() == [0] * 7 + [1] * 6
    assert images.pixels.shape == (13, 3, 4, 4)
    assert reds(images.pixels) == EXPECTED
    assert seen[-1] == (13, 13)


def test_a_flat_folder_has_no_labels(tmp_path: Path) -> None:
    for red in (3, 1, 2):
        save(tmp_path / f"{red}.png", red)
    images = read_image_folder(tmp_path, 4)
    assert isinstance(images, Images)
    assert (images.labels, images.class_names) == (None, ())
    assert reds(images.pixels) == [1, 2, 3]


def test_what_does_not_fit_is_decoded_when_asked_for(classes: Path) -> None:
    whole = read_image_folder(classes, 4, in_memory_bytes=13 * 48, workers=0)
    lazy = read_image_folder(classes, 4, in_memory_bytes=13 * 48 - 1, workers=0)
    assert isinstance(whole, Images)
    assert isinstance(lazy, FolderImages)
    assert len(lazy) == 13
    assert lazy.labels is not None
    assert lazy.labels.equal(torch.tensor([0] * 7 + [1] * 6))
    indices = torch.tensor([12, 0, 0, 5])
    assert lazy.batch(indices).equal(whole.batch(indices))
    assert [reds(batch) for batch in lazy.prefetch(indices.split(3))] == [[10, 1, 1], [11]]
    some, expected = lazy.only([1, 0], 2), whole.only([1, 0], 2)
    assert some.batch(torch.arange(4)).equal(expected.pixels)
    assert some.class_names == expected.class_names == ("zebra", "ant")
    with pytest.raises(ValueError, match="must be integers of shape"):
        lazy.batch(torch.tensor([True, False]))


def test_workers_give_the_same_in_order_and_ahead_of_time(classes: Path) -> None:
    taken: list[int] = []

    def batches() -> Iterator[torch.Tensor]:
        for start in range(12):
            taken.append(start)
            yield torch.arange(start, -1, -1)

    lazy = read_image_folder(classes, 4, in_memory_bytes=0, workers=2)
    assert isinstance(lazy, FolderImages)
    with lazy:
        for number, batch in enumerate(lazy.prefetch(batches(), ahead=3)):
            assert reds(batch) == EXPECTED[number::-1]
            assert len(taken) == min(12, number + 4)
        # Left early, and asked for nothing: both leave the pool in order.
        unfinished = lazy.prefetch(batches())
        next(unfinished)
        unfinished.close()  # type: ignore[attr-defined]
        assert lazy.batch(torch.arange(0)).shape == (0, 3, 4, 4)
        assert list(lazy.prefetch([])) == []
        bad = classes / "zebra" / "00.png"
        bad.write_bytes(bad.read_bytes()[:45])
        with pytest.raises(ValueError, match=r"zebra/00.png cannot be read: "):
            list(lazy.prefetch([torch.tensor([0, 7])]))
        assert reds(lazy.batch(torch.tensor([3, 8]))) == [7, 2]
        with pytest.raises(ValueError, match="ahead must be at least 1; got 0"):
            lazy.prefetch([], ahead=0)
    with pytest.raises(ValueError, match=r"zebra/00.png cannot be read: .+; replace or remove it$"):
        read_image_folder(classes, 4)


DECODING = """
import sys, time, torch
from debiased_contrastive.images.images import read_image_folder
if __name__ == "__main__":
    images = read_image_folder(sys.argv[1], 4, in_memory_bytes=int(sys.argv[2]), workers=1)
    batch = images.batch(torch.arange(3))
    print(batch[:, 0, 0, 0].tolist(), *getattr(getattr(images, "_pool", None), "_processes", []), flush=True)
    if int(sys.argv[2]) == 0:
        time.sleep(60)
"""


def test_workers_serve_a_script_and_end_with_a_killed_parent(classes: Path, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(DECODING)
    command = [sys.executable, "-W", "error", str(script), str(classes)]
    run = subprocess.run([*command, str(2**20)], capture_output=True, text=True, check=True)
    assert (run.stdout, run.stderr) == ("[1, 3, 5]\n", "")
    with subprocess.Popen([*command, "0"], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        worker = int(parent.stdout.readline().split()[-1])
        os.kill(worker, 0)
        parent.kill()
    for _ in range(200):
        try:
            state = Path(f"/proc/{worker}/stat").read_text().rsplit(")", 1)[1].split()[0]
        except OSError:
            return
        if state == "Z":
            return
        time.sleep(0.05)
    pytest.fail(f"worker {worker} outlived its parent")


def test_a_script_without_a_guard_is_told_so(classes: Path, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(DECODING.replace('if __name__ == "__main__":', "if True:"))
    run = subprocess.run(
        [sys.executable, str(script), str(classes), "1"], capture_output=True, text=True, check=False
    )
    assert run.returncode == 1
    assert 'or the script lacks `if __name__ == "__main__":`' in run.stderr.splitlines()[-1]


def test_folders_that_make_no_set_are_named(tmp_path: Path, classes: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere is not a folder"):
        read_image_folder(tmp_path / "nowhere", 4)
    empty = tmp_path / "empty"
    empty.mkdir()
    (empty / "notes.txt").touch()
    with pytest.raises(ValueError, match=r"empty holds no images; expected files such as .jpg"):
        read_image_folder(empty, 4)
    (classes / "bee").mkdir()
    with pytest.raises(ValueError, match=r"class folder .*bee holds no images; add some or remove it"):
        read_image_folder(classes, 4)
    save(classes / "stray.png", 1)
    with pytest.raises(ValueError, match=r"classes mixes images \(stray.png\) with folders \(ant\)"):
        read_image_folder(classes, 4)
    for size, workers, message in (
        (0, None, "size must be at least 1"),
        (4, -1, "workers must be at least 0"),
    ):
        with pytest.raises(ValueError, match=message):
            read_image_folder(classes, size, workers=workers)
