"""A subset is links to the folders of its classes, whole or not at all."""

from pathlib import Path

import pytest
from PIL import Image

from debiased_contrastive.images.folder import image_folder
from debiased_contrastive.images.subset import classes_in, linked_subset


@pytest.fixture
def source(tmp_path: Path) -> Path:
    for part in ("train", "val"):
        for name in ("n01", "n02", "n03"):
            (tmp_path / "imagenet" / part / name).mkdir(parents=True)
            for number in range(2):
                Image.new("RGB", (8, 8), (number, 0, 0)).save(tmp_path / f"imagenet/{part}/{name}/{number}.png")
    return tmp_path / "imagenet"


def test_class_folders_are_links_that_can_be_read(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "deep" / "subset"
    assert linked_subset(source, ("n03", "n01"), out) == {"train": 2, "val": 2}
    assert (out / "train" / "n01").is_symlink()
    for part in ("train", "val"):
        images = image_folder(out / part, 8)
        assert images.class_names == ("n01", "n03")
        assert len(images) == 4


def test_a_folder_of_classes_needs_no_parts(source: Path, tmp_path: Path) -> None:
    assert linked_subset(source / "train", ("n02",), tmp_path / "subset") == {"": 1}
    assert [path.name for path in (tmp_path / "subset").iterdir()] == ["n02"]


def test_a_relative_source_is_found_from_anywhere(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(source.parent)
    linked_subset(Path(source.name), ("n02",), Path("subset"))
    monkeypatch.chdir("/")
    assert len(list((tmp_path / "subset" / "val" / "n02").iterdir())) == 2


def test_what_is_missing_is_named_and_nothing_is_left(source: Path, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"1 of 2 are missing, such as n09"):
        linked_subset(source, ("n01", "n09"), tmp_path / "subset")
    with pytest.raises(FileNotFoundError, match="is not a folder"):
        linked_subset(tmp_path / "nowhere", ("n01",), tmp_path / "subset")
    assert not (tmp_path / "subset").exists()
    (tmp_path / "subset").mkdir()
    with pytest.raises(FileExistsError, match="is there already"):
        linked_subset(source, ("n01",), tmp_path / "subset")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["imagenet", "subset"]


def test_names_are_one_a_line(tmp_path: Path) -> None:
    file = tmp_path / "classes.txt"
    file.write_text("# hundred classes\nn01\n\n n02  # a comment\n")
    assert classes_in(file) == ("n01", "n02")
    for content, message in (
        ("", "got 0 names"),
        ("n01\nn02\nn01\n", "n01 more than once"),
        ("n01/../n02\n", "names of folders"),
        ("..\n", "names of folders"),
    ):
        file.write_text(content)
        with pytest.raises(ValueError, match=message):
            classes_in(file)
