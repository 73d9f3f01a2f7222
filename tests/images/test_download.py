"""Transfers are whole or continued, and an archive is unpacked into its place, or not at all."""

import hashlib
import io
import os
import tarfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from debiased_contrastive.images import download as module
from debiased_contrastive.images.download import CIFAR10, STL10, Dataset, download, extract, fetch

CONTENT = os.urandom(3_000_000)
MD5 = hashlib.md5(CONTENT).hexdigest()


class Server(ThreadingHTTPServer):
    """Sends `content`, in a chosen bad way, and remembers what it was asked for."""

    content = CONTENT
    ranges = True
    drops = 0  # how many answers end in the middle
    status = 0  # answer this instead
    says_length = True
    shift = 0  # answers another range than was asked for

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[str | None] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/archive.tar.gz"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        wanted = self.headers["Range"]
        self.server.asked.append(wanted)
        if self.server.status:
            return self.send_error(self.server.status)
        body, start = self.server.content, 0
        if wanted and self.server.ranges:
            start = int(wanted.removeprefix("bytes=").removesuffix("-")) + self.server.shift
            if start >= len(body):
                return self.send_error(416)
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
        else:
            self.send_response(200)
        body = body[start:]
        if self.server.says_length:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.server.drops:
            self.server.drops -= 1
            body = body[: len(body) // 2]
        self.wfile.write(body)
        self.close_connection = True
        return None

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr(module, "_PAUSE", 0.0)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with Server() as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def test_a_file_arrives_with_progress_and_is_not_fetched_twice(server: Server, tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    target = tmp_path / "new" / "file"
    for _ in range(2):
        path = download(server.url, target, MD5, on_progress=lambda *numbers: seen.append(numbers))
        assert path == target
        assert target.read_bytes() == CONTENT
    assert server.asked == [None]
    assert seen[-1] == (len(CONTENT), len(CONTENT))
    assert seen == sorted(seen)
    assert len(seen) >= 3
    assert list(target.parent.iterdir()) == [target]


def test_a_broken_connection_is_continued(server: Server, tmp_path: Path) -> None:
    server.drops = 2
    download(server.url, tmp_path / "file", MD5)
    assert (tmp_path / "file").read_bytes() == CONTENT
    assert server.asked == [None, "bytes=1500000-", "bytes=2250000-"]


def test_the_next_run_continues_where_the_last_one_stopped(server: Server, tmp_path: Path) -> None:
    server.drops = 5
    with pytest.raises(ConnectionError, match=r"broke 5 times .*; 2,906,250 bytes are kept, run it again"):
        download(server.url, tmp_path / "file", MD5)
    assert [path.name for path in tmp_path.iterdir()] == ["file.part"]
    seen: list[tuple[int, int]] = []
    download(server.url, tmp_path / "file", MD5, on_progress=lambda *numbers: seen.append(numbers))
    assert server.asked[-1] == "bytes=2906250-"
    assert seen == [(len(CONTENT), len(CONTENT))]
    assert (tmp_path / "file").read_bytes() == CONTENT


def test_a_server_that_ignores_ranges_starts_anew(server: Server, tmp_path: Path) -> None:
    server.ranges = False
    (tmp_path / "file.part").write_bytes(CONTENT[:1000])
    server.drops = 1
    download(server.url, tmp_path / "file", MD5)
    assert (tmp_path / "file").read_bytes() == CONTENT
    assert server.asked == ["bytes=1000-", "bytes=1500000-"]


def test_a_server_that_answers_another_range_is_asked_for_all(server: Server, tmp_path: Path) -> None:
    server.shift = 3
    (tmp_path / "file.part").write_bytes(CONTENT[:1000])
    download(server.url, tmp_path / "file", MD5)
    assert (tmp_path / "file").read_bytes() == CONTENT
    assert server.asked == ["bytes=1000-", None]


def test_a_server_that_does_not_say_how_much_it_sends(server: Server, tmp_path: Path) -> None:
    server.says_length = False
    seen: list[tuple[int, int]] = []
    download(server.url, tmp_path / "file", MD5, on_progress=lambda *numbers: seen.append(numbers))
    assert seen[-1] == (len(CONTENT), 0)


def test_a_complete_part_needs_no_server(tmp_path: Path) -> None:
    (tmp_path / "file.part").write_bytes(CONTENT)
    download("http://127.0.0.1:9/none", tmp_path / "file", MD5)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("extra", [b"", b"more"])
def test_a_part_of_another_file_is_thrown_away(server: Server, tmp_path: Path, extra: bytes) -> None:
    (tmp_path / "file.part").write_bytes(bytes(len(CONTENT)) + extra)
    download(server.url, tmp_path / "file", MD5)
    assert (tmp_path / "file").read_bytes() == CONTENT
    assert server.asked[-1] is None


def test_a_wrong_md5_deletes_the_file_and_says_so(server: Server, tmp_path: Path) -> None:
    wrong = "0" * 32
    with pytest.raises(ValueError, match=f"expected md5 {wrong}, got {MD5}; the file was deleted") as caught:
        download(server.url, tmp_path / "file", wrong)
    assert server.url in str(caught.value)
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_an_older_file_of_that_name_is_replaced_only_by_the_right_one(server: Server, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"older")
    with pytest.raises(ValueError, match="expected md5"):
        download(server.url, tmp_path / "file", "0" * 32)
    assert (tmp_path / "file").read_bytes() == b"older"
    download(server.url, tmp_path / "file", MD5)
    assert (tmp_path / "file").read_bytes() == CONTENT


def test_an_error_of_the_server_is_one_line(server: Server, tmp_path: Path) -> None:
    server.status = 404
    with pytest.raises(OSError, match=r"archive.tar.gz: HTTP 404 Not Found; check the address"):
        download(server.url, tmp_path / "file", MD5)
    assert len(server.asked) == 1
    server.status = 503
    with pytest.raises(ConnectionError, match="HTTP 503 Service Unavailable"):
        download(server.url, tmp_path / "file", MD5)
    assert len(server.asked) == 6
    server.status = 0
    assert download(server.url, tmp_path / "file", MD5).read_bytes() == CONTENT


def test_no_server_at_all_is_one_line(server: Server, tmp_path: Path) -> None:
    with pytest.raises(ConnectionError, match=r"refused.*0 bytes are kept"):
        download("http://127.0.0.1:9/file", tmp_path / "file", MD5)
    assert server.asked == []


def tiny(server: Server, **files: bytes) -> Dataset:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(f"tiny/{name}")
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    server.content = packed.getvalue()
    md5 = hashlib.md5(server.content).hexdigest()
    return Dataset(server.url, md5, "tiny", {"a": 3, "b": None})


def test_fetch_brings_what_is_missing_and_nothing_else(server: Server, tmp_path: Path) -> None:
    dataset = tiny(server, a=b"abc", b=b"")
    server.drops = 1
    for _ in range(2):
        assert fetch(dataset, tmp_path) == tmp_path / "tiny"
    assert len(server.asked) == 2
    # A file that was deleted or cut comes back from the archive, without the network.
    (tmp_path / "tiny" / "b").unlink()
    fetch(dataset, tmp_path)
    (tmp_path / "tiny" / "a").write_bytes(b"ab")
    fetch(dataset, tmp_path)
    assert (tmp_path / "tiny" / "a").read_bytes() == b"abc"
    assert (tmp_path / "tiny" / "b").exists()
    assert len(server.asked) == 2
    (tmp_path / "archive.tar.gz").unlink()
    fetch(dataset, tmp_path)
    assert len(server.asked) == 2


def test_an_archive_without_the_files_is_named(server: Server, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"archive.tar.gz does not hold all of a, b in tiny/"):
        fetch(tiny(server, a=b"abc"), tmp_path)


def test_the_official_sets_are_complete_only_with_every_file(tmp_path: Path) -> None:
    for dataset in (CIFAR10, STL10):
        folder = tmp_path / dataset.folder
        folder.mkdir()
        for name, size in dataset.files.items():
            assert not dataset.is_complete(tmp_path)
            (folder / name).touch()
            os.truncate(folder / name, size or 0)
        assert dataset.is_complete(tmp_path)
        assert fetch(dataset, tmp_path) == folder
        assert len(bytes.fromhex(dataset.md5)) == 16


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
    with pytest.raises(
        ValueError, match=r"is damaged: .*; delete it and download it again with debiased train --download"
    ):
        extract(archive, target)
    assert tree(target) == {"set": None, "set/a": b"old"}


def test_something_else_than_an_archive_is_named(tmp_path: Path) -> None:
    (tmp_path / "page.tar.gz").write_text("<html>login</html>")
    with pytest.raises(ValueError, match=r"page.tar.gz is damaged: "):
        extract(tmp_path / "page.tar.gz", tmp_path / "target")
