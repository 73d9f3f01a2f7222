"""Files that are there in full or not at all, and what can be known of one before it is read or written."""

import contextlib
import errno
import hashlib
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

_DEEPEST = 32
"""Levels of a JSON file; those of this package have five."""
_LONGEST_INTEGER = 4000
"""Digits of an integer that is read exactly, as far as Python does so; a longer one is damage."""


def write_atomically(path: Path, *content: str | bytes | memoryview) -> None:
    """Replace a file, by parts one after the other, in one step: no reader and no crash leaves half of it."""
    # With the process id, since two writers must not share one temporary file.
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with unfinished.open("wb") as file:
            for part in content:
                file.write(part.encode() if isinstance(part, str) else part)
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, path)
    except OSError as error:
        raise not_written(path, error, "what was there before is untouched") from None
    finally:
        with contextlib.suppress(OSError):
            unfinished.unlink(missing_ok=True)


def not_written(path: Path, error: OSError, safe: str) -> OSError:
    """An error that names the file, the reason and what is safe; a bare write says none of it on a full disk."""
    return type(error)(f"{path} could not be written ({error.strerror or error}); {safe}")


def check_can_be_written(path: Path) -> None:
    """Raise unless a file can be written, in a folder that may not be there yet: before long work, not after it."""
    if path.is_dir():
        raise ValueError(f"{path} must be a file to write to; it is a folder: name a file in it")
    if path.exists() and not path.is_file():
        raise ValueError(f"{path} must be a file to write to; it is a pipe or device: choose another place")
    # Links to nowhere too, though nothing exists there: no folder can be made in their place.
    folder = next((parent for parent in path.parents if os.path.lexists(parent)), path.parent)
    probe = folder / f".{path.name}.{os.getpid()}.tmp"
    try:
        # By trying: permissions alone know nothing of file systems that are full or read-only.
        probe.write_bytes(bytes(4096))
        probe.unlink()
    except OSError as error:
        with contextlib.suppress(OSError):
            probe.unlink(missing_ok=True)
        raise ValueError(f"{path} must be writable ({error.strerror}): choose another place") from None


def printable(text: str) -> str:
    """A text without anything that would move a cursor or change a colour.

    >>> printable("red: " + chr(27) + "[31m") == "red: " + chr(92) + "x1b[31m"
    True
    """
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


def file_digest(path: Path, seen: Callable[[int], None] = lambda _read: None) -> str:
    """SHA-256 of the content of a file; `seen` is told the bytes read so far."""
    check_is_file(path)
    digest, read = hashlib.sha256(), 0
    with path.open("rb") as file:
        while content := file.read(2**20):
            digest.update(content)
            read += len(content)
            seen(read)
    return digest.hexdigest()


def check_is_file(path: Path) -> None:
    """Raise unless this is a file: a pipe would be waited for without end."""
    if not path.exists():
        raise FileNotFoundError(f"{path} is missing: restore it from a copy")
    if not path.is_file():
        raise ValueError(f"{path} must be a file; it is a {'folder' if path.is_dir() else 'pipe or device'}")


def read_text(path: Path) -> str:
    """The content of a text file; raises where it is none: a missing one, a pipe, another encoding."""
    check_is_file(path)
    try:
        return path.read_bytes().decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} must be UTF-8; byte {error.start} is not: restore it from a copy") from None


def read_json(path: Path) -> dict[str, Any]:
    """The JSON object in a file; whatever is wrong with it is one line that names the file."""
    content = parse_json(read_text(path), path)
    if not isinstance(content, dict):
        raise ValueError(f"{path} must hold a JSON object; it holds a {type(content).__name__}: restore it")
    return content


def parse_json(text: str, where: Path | str) -> Any:
    """The value of a JSON text; raises a ValueError that names where it stands."""
    try:
        content = json.loads(text, parse_int=_number)
        if not _is_deep(content, _DEEPEST):
            return content
        reason = "is nested too deeply"
    except RecursionError:
        reason = "is nested too deeply"
    except json.JSONDecodeError as error:
        reason = f"is not JSON ({error})" if text.strip() else "is empty"
    raise ValueError(f"{where} {reason}: restore it from a copy")


def _is_deep(value: Any, levels: int) -> bool:
    """Whether a value has more levels than that; whoever reads it may then follow them without care."""
    if not isinstance(value, dict | list):
        return False
    return not levels or any(
        _is_deep(inner, levels - 1) for inner in (value.values() if isinstance(value, dict) else value)
    )


def _number(digits: str) -> int | float:
    return int(digits) if len(digits) <= _LONGEST_INTEGER else float(digits)


class LockedError(ValueError):
    """Somebody else holds the lock."""


@contextlib.contextmanager
def lock(path: Path) -> Iterator[bool]:
    """Hold the lock of a file, with one line in it that says who does; False where the file system has no locks.

    The system lets go of it when the process ends, however it ends.
    """
    handle = _open_lock(path)
    try:
        is_held = _try_lock(handle)
        # To say who holds it is a courtesy, for which a full disk may have no room.
        with contextlib.suppress(OSError):
            if is_held:
                os.ftruncate(handle, 0)
                os.pwrite(handle, f"process {os.getpid()} on {os.uname().nodename}\n".encode(), 0)
        yield is_held
    finally:
        os.close(handle)


def _open_lock(path: Path) -> int:
    # Through a link, a stranger's folder could empty any file; a pipe would be waited for.
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise ValueError(f"{path} must be a file of its folder; it is a link, folder or pipe: remove it")
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666)
    except OSError as error:
        raise not_written(path, error, "nothing was changed") from None


def _try_lock(handle: int) -> bool:
    if fcntl is None:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in (errno.EAGAIN, errno.EACCES):
            return False
        holder = os.pread(handle, 200, 0).decode(errors="replace").strip()
        raise LockedError(holder or "another process") from None
    return True
