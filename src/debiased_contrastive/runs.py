"""The run directory: settings, environment, metrics as JSON lines, one writer at a time. Never imports torch."""

import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Set
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from debiased_contrastive.files import LockedError, lock, parse_json, read_json, write_atomically, write_error

SETTINGS, ENVIRONMENT, METRICS = "settings.json", "environment.json", "metrics.jsonl"
EVALUATION, TSNE, STRIP, ENCODER = "evaluation.json", "tsne.json", "strip.png", "encoder.json"
LOCK = ".lock"

IMMATERIAL = {"data.root", "data.test_root", "text.cache", "training.accelerator"} | {
    f"training.{name}_every" for name in ("log", "checkpoint", "knn", "evaluate")
}
"""Settings that change no result: places, the device, and what is logged when."""
_FILES = {"text.path", "towers.words", "membership.file"}
"""Settings that name a file, which may have moved: it is compared by its digest, word vectors are weights."""


@dataclass(frozen=True)
class Run:
    """A folder that holds everything about one training."""

    folder: Path

    @property
    def settings(self) -> dict[str, Any]:
        """What the run was started with."""
        settings = self._read(SETTINGS)
        settings.pop("domain", None)
        return settings

    @property
    def domain(self) -> str:
        """The name of its domain; runs of earlier versions do not say, but their settings show it."""
        settings = self._read(SETTINGS)
        guess = "text" if "text" in settings else "control" if "camera" in settings else "images"
        return str(settings.get("domain", guess))

    @property
    def environment(self) -> dict[str, Any]:
        """Where it ran, and with which code."""
        return self._read(ENVIRONMENT)

    @property
    def evaluation(self) -> dict[str, Any]:
        """The results of its evaluation; empty before that."""
        return self._read(EVALUATION) if (self.folder / EVALUATION).exists() else {}

    @property
    def is_finished(self) -> bool:
        """Whether the training came to its end, where the encoder is written."""
        return (self.folder / ENCODER).is_file()

    def metrics(self) -> Iterator[dict[str, Any]]:
        """Read the log in order, without lines that are damaged or were cut short by a crash."""
        return (line for line in self._lines() if line is not None)

    def count_damaged_lines(self) -> int:
        """Count the lines of the log that cannot be read, but not a last one that a crash cut short."""
        return sum(line is None for line in self._lines())

    def log(self, step: int, values: Mapping[str, Any]) -> None:
        """Append one line; it is on its way to the disk when this returns."""
        path = self.folder / METRICS
        try:
            with path.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"step": step, **values}) + "\n")
        except OSError as error:
            safe = f"the run is safe at its last checkpoint: make room, then `debiased resume {self.folder}`"
            raise write_error(path, error, safe) from None

    def forget_after(self, step: int) -> None:
        """Drop the lines of later steps, which a resumed run logs again, and lines that cannot be read."""
        kept = [line for line in self.metrics() if isinstance(line.get("step"), int) and line["step"] <= step]
        write_atomically(self.folder / METRICS, "".join(json.dumps(line) + "\n" for line in kept))

    @contextmanager
    def hold(self, tell: Callable[[str], None]) -> Iterator[None]:
        """Hold the lock of the run; raises where another process writes to it."""
        try:
            with lock(self.folder / LOCK) as is_held:
                if not is_held:
                    tell(f"{self.folder} cannot be locked here: make sure that nobody else trains this run")
                yield
        except LockedError as error:
            raise ValueError(f"{self.folder} is being written by {error}: wait for its end, or end it") from None

    def _read(self, name: str) -> dict[str, Any]:
        try:
            return read_json(self.folder / name)
        except FileNotFoundError:
            raise FileNotFoundError(f"{self.folder / name} is missing: the folder is not a complete run") from None

    def _lines(self) -> Iterator[dict[str, Any] | None]:
        """Read the lines of the log, None for one that is damaged."""
        path = self.folder / METRICS
        if not path.is_file():
            return
        with path.open("rb") as file:
            for line in file:
                # The line that a crash cut short has no end.
                if line.endswith(b"\n"):
                    yield _parse_line(line)


def _parse_line(line: bytes) -> dict[str, Any] | None:
    try:
        content = parse_json(line.decode(), METRICS)
    except ValueError:
        return None
    return content if isinstance(content, dict) else None


def new_run(folder: Path, settings: Mapping[str, Any], domain: str | None = None) -> Run:
    """Begin a run in a folder that is empty or not there yet."""
    check_is_free(folder)
    folder.mkdir(parents=True, exist_ok=True)
    run = Run(folder)
    with run.hold(lambda _line: None):
        # Check again: another process may have been faster.
        check_is_free(folder)
        write_atomically(folder / ENVIRONMENT, json.dumps(_environment(), indent=2) + "\n")
        # Settings are written last: they make the folder a run.
        named = {} if domain is None else {"domain": domain}
        write_atomically(folder / SETTINGS, json.dumps({**named, **settings}, indent=2) + "\n")
    return run


def check_is_free(folder: Path) -> None:
    """Raise unless a new run can begin in a folder."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise ValueError(f"{folder} must be a folder to train into; it is a file: choose another --out")
    names = sorted(path.name for path in folder.iterdir())
    if SETTINGS in names:
        raise ValueError(
            f"{folder} holds a run already: `debiased resume {folder}` continues it, --out DIR starts another"
        )
    # What a crash within `new_run` leaves does no harm; a checkpoint would.
    if found := [name for name in names if name != ENVIRONMENT and not name.startswith(".")]:
        raise ValueError(
            f"{folder} is not empty and holds no run (it holds {found[0]}): choose another --out, or empty it"
        )


def is_run(folder: Path) -> bool:
    """Tell whether a folder holds a run."""
    return (folder / SETTINGS).is_file()


def existing_run(folder: Path) -> Run:
    """Return the run in a folder, which must hold one."""
    if not is_run(folder):
        raise FileNotFoundError(f"{folder} holds no run: expected {SETTINGS} in it")
    return Run(folder)


def finished_run(folder: Path) -> Run:
    """Return the run in a folder, which must have been trained to its end."""
    run = existing_run(folder)
    if not run.is_finished:
        raise FileNotFoundError(f"{folder} is not trained yet: finish it with `debiased resume {folder}`")
    return run


def open_run(folder: Path, settings: Mapping[str, Any], domain: str | None = None) -> Run:
    """Return the run in a folder, or begin one; a run with other settings is an error."""
    if not is_run(folder):
        return new_run(folder, settings, domain)
    check_same_run(folder, settings)
    return existing_run(folder)


def check_same_run(folder: Path, settings: Mapping[str, Any]) -> None:
    """Raise where a folder holds a run of other settings; data that moved are no difference."""
    if is_run(folder) and (difference := settings_difference(settings, Run(folder).settings, ignored=IMMATERIAL)):
        raise ValueError(
            f"{folder} holds a run with other settings ({difference}): choose another folder for runs, or remove it"
        )


def flat_settings(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Flatten nested settings to dotted keys.

    >>> flat_settings({"seed": 0, "objective": {"kind": "biased", "tau_plus": 0.0}})
    {'seed': 0, 'objective.kind': 'biased', 'objective.tau_plus': 0.0}
    """
    result: dict[str, Any] = {}
    for key, value in settings.items():
        if isinstance(value, Mapping) and value:
            result |= flat_settings(value, f"{prefix}{key}.")
        else:
            result[f"{prefix}{key}"] = value
    return result


def settings_difference(
    own: Mapping[str, Any], others: Mapping[str, Any], *, ignored: Set[str] = IMMATERIAL | _FILES
) -> str:
    """Describe the first difference between the settings of two runs; empty where no result depends on any.

    Settings that only the others have are ignored: a version may have had more of them.

    >>> settings_difference({"seed": 0, "data": {"root": "a"}}, {"seed": 1, "data": {"root": "b"}})
    'seed is 1 instead of 0'
    """
    mine, theirs = flat_settings(own), flat_settings(others)
    for key, value in mine.items():
        if key not in ignored and theirs.get(key) != value:
            return f"{key} is {theirs.get(key)} instead of {value}"
    return ""


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
    """Read the git revision once, since what changes on disk later is not what this process runs."""
    # Where the package is installed inside somebody else's repository, git does not know this file.
    if _git("ls-files", "--error-unmatch", Path(__file__).name) is None:
        return {"revision": None, "modified": None}
    # Only the package counts: results that are not committed yet change nothing.
    return {"revision": _git("rev-parse", "HEAD"), "modified": bool(_git("status", "--porcelain", "."))}


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _git(*words: str) -> str | None:
    """Run git on the package; None where there is no git or no repository."""
    try:
        done = subprocess.run(
            ["git", "-C", str(Path(__file__).parent), *words], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()
