"""Files of an official download: found, and read as class names, or one line that says what to do."""

from pathlib import Path


def required(path: Path, content: str) -> Path:
    """The path of a file that must exist; `content` says what it should hold."""
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing: expected {content}; download it with --download")
    return path


def damaged(path: Path, problem: str) -> ValueError:
    """The error for a file that is there and cannot be right."""
    return ValueError(f"{path} is damaged: {problem}; delete it and download it again with --download")


def class_names(path: Path, count: int) -> tuple[str, ...]:
    """The class names in a text file, one a line."""
    text = required(path, f"the names of {count} classes, one a line").read_text("utf-8", errors="replace")
    names = tuple(line.strip() for line in text.splitlines() if line.strip())
    if len(names) != count:
        raise damaged(path, f"expected the names of {count} classes, one a line, got {len(names)}")
    return names
