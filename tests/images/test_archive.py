"""An archive is unpacked whole, into its place, or not at all."""

import io
import os
import tarfile
from pathlib import Path
from typing import Any

import pytest

from debiased_contrastive.images.archive import extract


def packed(path: Path, *members: tuple[tarfile.TarInfo, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for member, content in members:
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return path


def file(name: str, content: bytes = b"content") -> tuple[tarfile.TarInfo, bytes]:
    return tarfile.TarInfo(name), content


def special(name: str, kind: bytes, target: str = "") -> tuple[tarfile.TarInfo, bytes]:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, target
    return member, b""


def tree(folder: Path) -> dict[str, Any]:
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")
    }


def test_files_appear_and_an_older_folder_is_replaced(tmp_path: Path) -> None:
    target = tmp_path / "data" / "sets"
    archive = packed(
        tmp_path / "a.tar.gz", special("set", tarfile.DIRTYPE), file("set/a"), file("./set/deep/b", b"b")
    )
    expected = {"set": None, "set/a": b"content", "set/deep": None, "set/deep/b": b"b"}
    extract(archive, target)
    assert tree(target) == expected
    (target / "other").write_bytes(b"kept")
    (target / "set" / "a").write_bytes(b"cut")
    (target / "set" / "stale").touch()
    extract(archive, target)
    assert tree(target) == {**expected, "other": b"kept"}


@pytest.mark.parametrize(
    ("member", "problem"),
    [
        (file("../x"), "leads out"),
        (file("set/../../x"), "leads out"),
        (file("{}/x"), "leads out"),
        (file("..\\x"), "leads out"),
        (file("C:\\x"), "leads out"),
        (special("set/link", tarfile.SYMTYPE, "{}"), "neither a file nor a folder"),
        (special("set/link", tarfile.SYMTYPE, "good"), "neither a file nor a folder"),
        (special("set/link", tarfile.LNKTYPE, "set/good"), "neither a file nor a folder"),
        (special("set/device", tarfile.CHRTYPE), "neither a file nor a folder"),
        (special("set/pipe", tarfile.FIFOTYPE), "neither a file nor a folder"),
    ],
)
def test_what_leads_out_is_refused_and_nothing_stays(
    tmp_path: Path, member: tuple[tarfile.TarInfo, bytes], problem: str
) -> None:
    info, content = member
    info.name, info.linkname = (text.replace("{}", str(tmp_path)) for text in (info.name, info.linkname))
    archive = packed(tmp_path / "evil.tar.gz", file("set/good"), (info, content), file("set/link/x"))
    target = tmp_path / "target"
    with pytest.raises(ValueError, match=problem) as caught:
        extract(archive, target)
    assert str(archive) in str(caught.value)
    assert repr(info.name) in str(caught.value)
    assert set(tree(tmp_path)) == {"evil.tar.gz", "target"}


def test_modes_and_owners_are_not_taken_over(tmp_path: Path) -> None:
    info, content = file("set/program")
    info.mode, info.uid = 0o6777, 0
    extract(packed(tmp_path / "a.tar.gz", (info, content)), tmp_path / "target")
    mode = os.stat(tmp_path / "target/set/program").st_mode
    assert mode & 0o7000 == 0
    assert mode & 0o111 == 0


@pytest.mark.parametrize("cut", [0, 10, -9000, -200])
def test_a_cut_archive_leaves_the_old_folder_alone(tmp_path: Path, cut: int) -> None:
    archive = packed(tmp_path / "a.tar.gz", file("set/a", os.urandom(20_000)), file("set/b", os.urandom(5_000)))
    target = tmp_path / "target"
    (target / "set").mkdir(parents=True)
    (target / "set" / "a").write_bytes(b"old")
    archive.write_bytes(archive.read_bytes()[:cut])
    with pytest.raises(ValueError, match=r"is damaged: .*; delete it and download it again with --download"):
        extract(archive, target)
    assert tree(target) == {"set": None, "set/a": b"old"}


def test_something_else_than_an_archive_is_named(tmp_path: Path) -> None:
    (tmp_path / "page.tar.gz").write_text("<html>login</html>")
    with pytest.raises(ValueError, match=r"page.tar.gz is damaged: "):
        extract(tmp_path / "page.tar.gz", tmp_path / "target")
