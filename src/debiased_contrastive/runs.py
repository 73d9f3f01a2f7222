"""The run directory: settings, environment, metrics as JSON lines. Never imports torch."""

import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from debiased_contrastive.files import write_atomically

SETTINGS, ENVIRONMENT, METRICS = "settings.json", "environment.json", "metrics.jsonl"
EVALUATION, TSNE, STRIP, ENCODER = "evaluation.json", "tsne.json", "strip.png", "encoder.json"


@dataclass(frozen=True)
class Run:
    """A folder that holds all there is to know of one training."""

    folder: Path

    @property
    def settings(self) -> dict[str, Any]:
        """What the run was started with."""
        return _read(self.folder / SETTINGS)

    @property
    def environment(self) -> dict[str, Any]:
        """Where it ran, and with which code."""
        return _read(self.folder / ENVIRONMENT)

    @property
    def evaluation(self) -> dict[str, Any]:
        """What the probes found; empty before they ran."""
        return _read(self.folder / EVALUATION) if (self.folder / EVALUATION).is_file() else {}

    @property
    def is_finished(self) -> bool:
        """Whether the training came to its end, where the encoder is written."""
        return (self.folder / ENCODER).is_file()

    def metrics(self) -> Iterator[dict[str, Any]]:
        """The lines logged so far, in order; a last line that a crash cut short is left out."""
        path = self.folder / METRICS
        if not path.exists():
            return
        with path.open(encoding="utf-8") as file:
            for line in file:
                if line.endswith("\n"):
                    yield json.loads(line)

    def log(self, step: int, values: Mapping[str, Any]) -> None:
        """Append one line; it is on its way to the disk when this returns."""
        with (self.folder / METRICS).open("a", encoding="utf-8") as file:
            file.write(json.dumps({"step": step, **values}) + "\n")

    def forget_after(self, step: int) -> None:
        """Drop lines of later steps, which a resumed run will log again, and a torn last one."""
        kept = [line for line in self.metrics() if line["step"] <= step]
        write_atomically(self.folder / METRICS, "".join(json.dumps(line) + "\n" for line in kept))


def new_run(folder: Path, settings: Mapping[str, Any]) -> Run:
    """A run in a folder that is not one yet."""
    if is_run(folder):
        raise ValueError(
            f"{folder} holds a run already: `debiased resume {folder}` continues it, --out DIR starts another"
        )
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / ENVIRONMENT, json.dumps(_environment(), indent=2) + "\n")
    # Settings last: they make the folder a run.
    write_atomically(folder / SETTINGS, json.dumps(dict(settings), indent=2) + "\n")
    return Run(folder)


def is_run(folder: Path) -> bool:
    """Whether a folder holds a run."""
    return (folder / SETTINGS).is_file()


def existing_run(folder: Path) -> Run:
    """The run in a folder."""
    if not is_run(folder):
        raise FileNotFoundError(f"{folder} holds no run: expected {SETTINGS} in it")
    return Run(folder)


def _read(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise FileNotFoundError(f"{path} is missing: the folder is not a complete run") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"{path} is not JSON ({error}): restore it from a copy, or start a new run") from None
    if not isinstance(content, dict):
        raise ValueError(f"{path} must hold a JSON object; got {type(content).__name__}")
    return content


def _environment() -> dict[str, Any]:
    names = ("debiased-contrastive", "torch", "numpy", "pillow", "dm-control", "mujoco")
    return {
        "command": sys.argv,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cores": os.cpu_count(),
        "versions": {name: _version(name) for name in names},
        **_revision(),
    }


@cache
def _revision() -> dict[str, Any]:
    """Of the code in memory: what changes on the disk while a process goes on is not what it runs."""
    # Installed below somebody else's repository, this file is not one of its own.
    if _git("ls-files", "--error-unmatch", Path(__file__).name) is None:
        return {"revision": None, "modified": None}
    # Of the package alone: results that are not committed yet change nothing.
    return {"revision": _git("rev-parse", "HEAD"), "modified": bool(_git("status", "--porcelain", "."))}


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _git(*words: str) -> str | None:
    """What git says of the code, None where there is no git or no repository."""
    try:
        done = subprocess.run(
            ["git", "-C", str(Path(__file__).parent), *words], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()
