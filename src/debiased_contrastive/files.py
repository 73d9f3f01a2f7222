"""Files that are written in full or not at all, checks before they are read or written, JSON, parquet and locks."""

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

_JSON_LEVELS = 32
"""Levels of nesting that a JSON file may have; those of this package have five."""
_INTEGER_DIGITS = 4000
"""Digits up to which an integer is read exactly; Python refuses longer ones."""


def write_atomically(path: Path, *content: str | bytes | memoryview) -> None:
    """Replace a file in one step by these parts, one after the other: no reader and no crash meets half of it."""
    # The name has the process id, since two writers must not share one temporary file.
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with unfinished.open("wb") as file:
            for part in content:
                file.write(part.encode() if isinstance(part, str) else part)
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, path)
    except OSError as error:
        raise write_error(path, error, "what was there before is untouched") from None
    finally:
        with contextlib.suppress(OSError):
            unfinished.unlink(missing_ok=True)


def write_error(path: Path, error: OSError, safe: str) -> OSError:
    """Make an error that names the file, the reason and what is safe; on a full disk the system says none of it."""
    return type(error)(f"{path} could not be written ({error.strerror or error}); {safe}")


def check_can_be_written(path: Path) -> None:
    """Raise before long work unless a file can be written, in a folder that may not exist yet."""
    if path.is_dir():
        raise ValueError(f"{path} must be a file to write to; it is a folder: name a file in it")
    if path.exists() and not path.is_file():
        raise ValueError(f"{path} must be a file to write to; it is a pipe or device: choose another place")
    # A link to nowhere counts as well: no folder can be made in its place.
    folder = next((parent for parent in path.parents if os.path.lexists(parent)), path.parent)
    probe = folder / f".{path.name}.{os.getpid()}.tmp"
    try:
        # Only trying helps: permissions say nothing of file systems that are full or read-only.
        probe.write_bytes(bytes(4096))
        probe.unlink()
    except OSError as error:
        with contextlib.suppress(OSError):
            probe.unlink(missing_ok=True)
        raise ValueError(f"{path} must be writable ({error.strerror}): choose another place") from None


def printable(text: str) -> str:
    """Escape whatever in a text would move a cursor or change a colour.

    >>> printable("red: " + chr(27) + "[31m") == "red: " + chr(92) + "x1b[31m"
    True
    """
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


def file_digest(path: Path, on_progress: Callable[[int], None] = lambda _read: None) -> str:
    """Compute the SHA-256 of a file; `on_progress` is called with the bytes read so far."""
    check_is_file(path)
    digest, read = hashlib.sha256(), 0
    with path.open("rb") as file:
        while content := file.read(2**20):
            digest.update(content)
            read += len(content)
            on_progress(read)
    return digest.hexdigest()


def check_is_file(path: Path) -> None:
    """Raise unless this is a file: to read a pipe could wait forever."""
    if not path.exists():
        raise FileNotFoundError(f"{path} is missing: restore it from a copy")
    if not path.is_file():
        raise ValueError(f"{path} must be a file; it is a {'folder' if path.is_dir() else 'pipe or device'}")


def read_text(path: Path) -> str:
    """Read a text file; raises where it is missing, no file, or not UTF-8."""
    check_is_file(path)
    try:
        return path.read_bytes().decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} must be UTF-8; byte {error.start} is not: restore it from a copy") from None


def read_json(path: Path) -> dict[str, Any]:
    """Read the JSON object in a file; whatever is wrong with it raises one line that names the file."""
    content = parse_json(read_text(path), path)
    if not isinstance(content, dict):
        raise ValueError(f"{path} must hold a JSON object; it holds a {type(content).__name__}: restore it")
    return content


def parse_json(text: str, where: Path | str) -> Any:
    """Parse a JSON text; raises a ValueError that names where it is from."""
    try:
        content = json.loads(text, parse_int=_parse_integer)
        if not _is_deep(content, _JSON_LEVELS):
            return content
        reason = "is nested too deeply"
    except RecursionError:
        reason = "is nested too deeply"
    except json.JSONDecodeError as error:
        reason = f"is not JSON ({error})" if text.strip() else "is empty"
    raise ValueError(f"{where} {reason}: restore it from a copy")


def _is_deep(value: Any, levels: int) -> bool:
    # Whoever reads a value that is not deep may recurse without care.
    if not isinstance(value, dict | list):
        return False
    return not levels or any(
        _is_deep(inner, levels - 1) for inner in (value.values() if isinstance(value, dict) else value)
    )


def _parse_integer(digits: str) -> int | float:
    return int(digits) if len(digits) <= _INTEGER_DIGITS else float(digits)


def import_pyarrow(extra: str) -> Any:
    """Import the library that reads .parquet; raises a line that names the extra which brings it."""
    try:
        import pyarrow.parquet  # type: ignore[import-untyped]
    except ImportError:
        raise ValueError(f"reading .parquet needs pyarrow: pip install 'debiased-contrastive[{extra}]'") from None
    return pyarrow


@contextlib.contextmanager
def open_parquet(path: Path, extra: str) -> Iterator[Any]:
    """Open a file as pyarrow's ParquetFile, which reads no more at once than is asked for."""
    arrow = import_pyarrow(extra)
    try:
        # Otherwise a whole row group of a column is read at once, and often there is one.
        with arrow.parquet.ParquetFile(path, buffer_size=2**20, pre_buffer=False) as file:
            yield file
    except (arrow.ArrowException, OSError) as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise ValueError(f"{path} must be a whole .parquet file: {reason}; write it again") from error


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
    # Through a link, a stranger's folder could empty any file; a pipe could wait forever.
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise ValueError(f"{path} must be a file of its folder; it is a link, folder or pipe: remove it")
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666)
    except OSError as error:
        raise write_error(path, error, "nothing was changed") from None


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
