"""Files that are there in full or not at all."""

import os
from pathlib import Path


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
    finally:
        unfinished.unlink(missing_ok=True)
