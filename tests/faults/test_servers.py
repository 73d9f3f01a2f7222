"""A server that trickles, falls silent or talks nonsense: the transfer ends soon, in one printable line."""

import hashlib
import os
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from debiased_contrastive.images import download as module
from debiased_contrastive.images.download import download

CONTENT = os.urandom(30_000)
MD5 = hashlib.md5(CONTENT).hexdigest()
WHOLE = b"HTTP/1.1 200 OK\r\nContent-Length: 30000\r\n\r\n"


class Server:
    """Answers each connection as `answer` does; whatever happens, it is gone after five seconds."""

    def __init__(self, answer: Callable[["Server", socket.socket], None]) -> None:
        self.answer = answer
        self.asked: list[str] = []
        self.ended = threading.Event()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.settimeout(0.02)
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}/file"
        self.threads = [threading.Thread(target=self.serve)]
        self.threads[0].start()

    def serve(self) -> None:
        end = time.monotonic() + 5
        with self.listener:
            while not self.ended.is_set() and time.monotonic() < end:
                with suppress(TimeoutError):
                    connection, _ = self.listener.accept()
                    self.threads.append(threading.Thread(target=self.handle, args=(connection,)))
                    self.threads[-1].start()
        self.ended.set()

    def handle(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            connection.settimeout(5)
            request = b""
            while b"\r\n\r\n" not in request:
                request += connection.recv(1000)
            found = re.search(rb"Range: (.*)\r\n", request)
            self.asked.append(found[1].decode() if found else "")
            self.answer(self, connection)

    def trickle(self, connection: socket.socket, content: bytes = b"x" * 1000) -> None:
        """A byte now and then, until the other side has gone."""
        for number in range(len(content)):
            if self.ended.wait(0.02):
                return
            connection.sendall(content[number : number + 1])

    def close(self) -> None:
        self.ended.set()
        for thread in self.threads:
            thread.join(5)


def readers() -> list[threading.Thread]:
    """The threads that a transfer has started."""
    return [thread for thread in threading.enumerate() if "(_read)" in thread.name]


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Server]]:
    for name, value in {"_PAUSE": 0.0, "_SILENCE": 2.0, "_WINDOW": 0.3, "_MIN_PROGRESS": 1000}.items():
        monkeypatch.setattr(module, name, value)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    started: list[Server] = []

    def serve(answer: Callable[[Server, socket.socket], None]) -> Server:
        started.append(Server(answer))
        return started[-1]

    yield serve
    for server in started:
        server.close()
    for reader in readers():
        reader.join(2)
    assert readers() == []


def failure(server: Server, target: Path) -> str:
    """The one line in which a transfer ends, soon."""
    start = time.monotonic()
    with pytest.raises(OSError, match=r"/file: .*; ") as caught:
        download(server.url, target, MD5)
    assert time.monotonic() - start < 4
    line = str(caught.value)
    assert line.startswith(f"{server.url}: ")
    assert line.isprintable()
    assert len(line) < 400
    return line


@pytest.mark.parametrize(
    "start",
    [
        b"",
        b"HTTP/1.1 200 ",
        b"HTTP/1.1 200 OK\r\nX-Slow: ",
        b"HTTP/1.1 100 Continue\r\nX-Slow: ",
        b"HTTP/1.1 302 Found\r\nLocation: /other\r\nContent-Length: 100000\r\n\r\n",
    ],
    ids=["nothing", "status", "headers", "continue", "redirect"],
)
def test_headers_that_trickle_end(serve: Callable[..., Server], tmp_path: Path, start: bytes) -> None:
    def answer(server: Server, connection: socket.socket) -> None:
        connection.sendall(start)
        server.trickle(connection)

    server = serve(answer)
    line = failure(server, tmp_path / "file")
    # Two, not five: it would be a waste of five windows.
    assert "broke 2 times (the headers were not complete after 0.3 seconds); 0 bytes are kept, run it again" in line
    assert len(server.asked) == 2
    # One that never ends must not keep the program from its own end.
    assert all(reader.daemon for reader in readers())


@pytest.mark.parametrize(
    ("start", "least"),
    [
        (WHOLE, 1),
        (WHOLE + b"x" * 900, 900),
        (b"HTTP/1.1 200 OK\r\n\r\n", 1),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n5;", 5),
    ],
    ids=["nothing", "too little", "no length", "size of a chunk"],
)
def test_a_body_that_trickles_ends(serve: Callable[..., Server], tmp_path: Path, start: bytes, least: int) -> None:
    def answer(server: Server, connection: socket.socket) -> None:
        connection.sendall(start)
        server.trickle(connection, b"x" * 999)

    server = serve(answer)
    line = failure(server, tmp_path / "file")
    assert "(less than 1,000 bytes arrived in 0.3 seconds)" in line
    assert len(server.asked) == 2
    kept = (tmp_path / "file.part").stat().st_size
    assert f"; {kept:,} bytes are kept" in line
    assert kept >= least


def answer_slowly_once(server: Server, connection: socket.socket) -> None:
    if len(server.asked) == 1:
        connection.sendall(WHOLE + CONTENT[:1500])
        server.trickle(connection, CONTENT[1500:])
    else:
        start = int(server.asked[-1].removeprefix("bytes=").removesuffix("-"))
        lines = f"HTTP/1.1 206 OK\r\nContent-Range: bytes {start}-29999/30000\r\nContent-Length: {30000 - start}"
        connection.sendall(lines.encode() + b"\r\n\r\n" + CONTENT[start:])


def test_what_trickled_in_is_kept_and_continued(serve: Callable[..., Server], tmp_path: Path) -> None:
    server = serve(answer_slowly_once)
    download(server.url, tmp_path / "file", MD5)
    assert (tmp_path / "file").read_bytes() == CONTENT
    first, second = server.asked
    assert first == ""
    # More than came at once: a piece that was read is never lost.
    assert 1500 < int(second.removeprefix("bytes=").removesuffix("-")) < 2000


def test_a_server_that_makes_progress_gets_every_attempt(serve: Callable[..., Server], tmp_path: Path) -> None:
    def answer(server: Server, connection: socket.socket) -> None:
        connection.sendall(WHOLE + CONTENT[:1000])
        server.trickle(connection)

    server = serve(answer)
    assert "broke 5 times (less than 1,000 bytes arrived" in failure(server, tmp_path / "file")
    assert len(server.asked) == 5


def test_a_slow_server_with_enough_progress_is_waited_for(serve: Callable[..., Server], tmp_path: Path) -> None:
    def answer(_: Server, connection: socket.socket) -> None:
        connection.sendall(WHOLE)
        for start in range(0, 30_000, 750):
            time.sleep(0.02)
            connection.sendall(CONTENT[start : start + 750])

    server = serve(answer)
    began = time.monotonic()
    download(server.url, tmp_path / "file", MD5)
    # Longer than it may take without progress.
    assert time.monotonic() - began > 0.6
    assert len(server.asked) == 1


def test_silence_ends(serve: Callable[..., Server], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SILENCE", 0.05)
    server = serve(lambda server, _: server.ended.wait(5))
    assert "timed out" in failure(server, tmp_path / "file")


ESCAPES = b"\x1b[31m\x1b]0;owned\x07\x9b2J\x08"


NONSENSE = {
    "long": (ESCAPES + b"A" * 60_000, r"broke 5 times (\x1b[31m\x1b]0;owned\x07\x9b2J\x08AAA"),
    "short": (ESCAPES, r"broke 5 times (\x1b[31m\x1b]0;owned\x07\x9b2J\x08)"),
    "escapes alone": (b"\x1b" * 65_000, r"broke 5 times (\x1b\x1b"),
    "longer than a line": (b"A" * 70_000, "broke 5 times (got more than 65536 bytes"),
    "code": (b"HTTP/1.1 " + ESCAPES, r"broke 5 times (HTTP/1.1 \x1b[31m"),
    "version": (b"HTTP/9" + ESCAPES + b" 200 OK", r"broke 5 times (HTTP/9\x1b[31m"),
    "404": (b"HTTP/1.1 404 " + ESCAPES + b"A" * 60_000, r"HTTP 404 \x1b[31m\x1b]0;owned\x07\x9b2J\x08AAA"),
    "503": (b"HTTP/1.1 503 " + ESCAPES, r"broke 5 times (HTTP 503 \x1b[31m\x1b]0;owned\x07\x9b2J\x08)"),
    "circle": (b"HTTP/1.1 302 Found\r\nLocation: /file", "HTTP 302 The HTTP server returned a redirect error"),
    "no address": (b"HTTP/1.1 302 Found\r\nLocation: http://[::1", "broke 5 times (Invalid IPv6 URL)"),
    "other scheme": (
        b"HTTP/1.1 302 Found\r\nLocation: gopher://x/\x1b",
        "HTTP 302 Found - Redirection to url 'gopher",
    ),
    "closed": (b"", "broke 5 times (Remote end closed connection without response)"),
}


@pytest.mark.parametrize(("start", "words"), NONSENSE.values(), ids=NONSENSE)
def test_nonsense_is_quoted_briefly_and_printably(
    serve: Callable[..., Server], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, start: bytes, words: str
) -> None:
    monkeypatch.setattr(module, "_WINDOW", 5.0)

    def answer(_: Server, connection: socket.socket) -> None:
        if start:
            connection.sendall(start + b"\r\nContent-Length: 0\r\n\r\n")

    assert words in failure(serve(answer), tmp_path / "file")


def test_an_address_that_is_not_http_is_one_line(serve: Callable[..., Server], tmp_path: Path) -> None:
    server = serve(lambda *_: None)
    server.url = f"file://{tmp_path}/file"
    (tmp_path / "file").write_bytes(CONTENT)
    assert "the address leads to something other than HTTP" in failure(server, tmp_path / "target")


def test_a_connection_that_was_given_up_is_closed(serve: Callable[..., Server], tmp_path: Path) -> None:
    closed: list[bool] = []

    def answer(server: Server, connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 206 OK\r\nContent-Range: bytes 7-29999/30000\r\n\r\n")
        try:
            while not server.ended.is_set():
                connection.sendall(bytes(100_000))
        except OSError:
            closed.append(True)

    (tmp_path / "file.part").write_bytes(CONTENT[:10])
    server = serve(answer)
    with pytest.raises(ConnectionError, match="another range"):
        module._continue(server.url, tmp_path / "file.part", None, module._Pace())
    for reader in readers():
        reader.join(1)
    server.threads[-1].join(1)
    assert closed == [True]
