"""The runner of the paper's figures and tables and of our own studies: every job becomes one JSON file.

Files that exist are skipped, and a training that was cut off is resumed. Torch is loaded when a job is made.
"""

import json
import re
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias, TypeVar

from debiased_contrastive.domain import find_domain
from debiased_contrastive.domains import DOMAINS
from debiased_contrastive.files import check_can_be_written, read_json, write_atomically
from debiased_contrastive.runs import SETTINGS, Run, check_same_run, flat_settings, open_run, settings_difference
from debiased_contrastive.training.settings import as_json

if TYPE_CHECKING:
    from debiased_contrastive.training.loop import Update

Item = TypeVar("Item")
At: TypeAlias = Callable[[int, int, str], None]
"""Called with the steps that are done, all steps, and a few words."""


class StoppedError(Exception):
    """A run was asked to stop, and wrote a checkpoint."""


class Failed(NamedTuple):
    """What stands in the place of a result."""

    reason: str


class Watch(Protocol):
    """Whoever shows runs on their way, and knows whether to stop."""

    @property
    def is_stopped(self) -> bool:
        """Whether the user asked to stop."""

    def at(self, name: str, done: int, total: int, note: str) -> None:
        """A run stands at step `done` of `total`."""

    def end(self, name: str, line: str) -> None:
        """A run ended."""

    def tell(self, line: str) -> None:
        """Something happened that a reader should know."""


class Lines:
    """A line for each result, and nothing on the way."""

    is_stopped = False

    def at(self, name: str, done: int, total: int, note: str) -> None:
        pass

    def end(self, _name: str, line: str) -> None:
        self.tell(line)

    def tell(self, line: str) -> None:
        print(line, flush=True)


@dataclass(frozen=True)
class Job:
    """How one result is made. A job is small and picklable, so that any process on any machine can run it."""

    name: str
    """Name of its file without the ending; a folder may precede it."""
    measure: Callable[..., Any]
    """An importable function: from (settings, run, data) to parts of the result; without a domain, of () to all."""
    settings: Any = None
    """What is trained; a file that holds a result of other settings is refused."""
    domain: str = ""
    """The domain in which the settings are trained; empty where nothing is trained."""
    train: "Callable[..., Generator[Update, None, None]] | None" = None
    """Trains instead of the domain's own function, from (settings, run, fabric, data), as that does."""

    def make(
        self, runs: Path, at: At = lambda _done, _total, _note: None, is_stopped: Callable[[], bool] = lambda: False
    ) -> Any:
        """Train in a folder of `runs`, resuming what is there, and measure: the content of the file."""
        if not self.domain:
            return self.measure()
        run, data, updates = self._open(runs)
        for update in updates:
            at(update.step, update.steps, update.note())
            if is_stopped() and update.step < update.steps:
                # Between two steps: closing writes a checkpoint.
                updates.close()
                raise StoppedError(self.name)
        return {
            "settings": settings_without_places(self.settings),
            **self.measure(self.settings, run, data),
            **{key: run.environment[key] for key in ("revision", "modified", "versions")},
        }

    def _open(self, runs: Path) -> tuple[Run, Any, "Generator[Update, None, None]"]:
        """The run in a folder of `runs`, its data, and its training."""
        from debiased_contrastive.training.machine import start_fabric

        domain, training = find_domain(DOMAINS, self.domain), self.settings.training
        work, fabric = domain.load(), start_fabric(training.accelerator, training.precision)
        data = work.open_data(self.settings, fabric, None, lambda _what: nullcontext(_Unseen()))
        run = open_run(runs / self.name, as_json(self.settings), domain.name)
        return run, data, (self.train or work.train)(self.settings, run, fabric, data)

    def check_data(self) -> None:
        """Raise in one line where its data are missing, or do not suit."""
        if self.domain:
            with TemporaryDirectory() as folder:
                self._open(Path(folder))

    def time_first_step(self) -> tuple[float, int]:
        """Seconds of the first step of a training, which is thrown away, and how many steps it would have."""
        with TemporaryDirectory() as folder:
            _, _, updates = self._open(Path(folder))
            start = time.perf_counter()
            update = next(updates)
            seconds = time.perf_counter() - start
            updates.close()
        return seconds, update.steps

    def check(self, path: Path) -> None:
        """Raise where a file holds a result of other settings; those that only one version knows do not count."""
        if self.settings is None:
            return
        try:
            content = read_json(path)
        except ValueError as error:
            raise ValueError(f"{error}, or remove it to make it anew") from None
        own, found = flat_settings(as_json(self.settings)), flat_settings(content.get("settings") or {})
        if not found:
            raise ValueError(f"{path} holds no settings, so it is no result: remove it to make it anew")
        if difference := settings_difference({key: own[key] for key in own if key in found}, found):
            raise ValueError(
                f"{path} is of other settings ({difference}): ask for these, choose another --out, or remove it"
            )


class _Unseen:
    """A progress bar that nobody sees: what precedes a training is short."""

    def at(self, done: int, total: int, note: str = "") -> None:
        pass


def grid(rows: Mapping[str, Any], seeds: int, domain: str, measure: Callable[..., Any]) -> Iterator[Job]:
    """A job for each row and seed; all rows of a seed first, so that some seeds already make a table."""
    for seed in range(seeds):
        for name, settings in rows.items():
            yield Job(f"{name}-seed{seed}", measure, replace(settings, seed=seed), domain)


def missing_jobs(jobs: Iterable[Job], out: Path) -> list[Job]:
    """The jobs that have no file yet; raise where a file holds a result of other settings."""
    files = {out / f"{job.name}.json": job for job in jobs}
    for path, job in files.items():
        if path.exists():
            job.check(path)
    return [job for path, job in files.items() if not path.exists()]


def fill(
    jobs: Iterable[Job], out: Path, runs: Path, *, workers: int = 1, cluster: str = "", watch: Watch | None = None
) -> list[str]:
    """Make the results that have no file yet, and return a line for each that failed; the others go on.

    Args:
        jobs: What to make.
        out: The folder of the results.
        runs: The folder of the trainings.
        workers: Number of processes on this machine; 1 is this process.
        cluster: Instead, the address of a Dask scheduler, or local:K for a cluster of K processes here.
        watch: What is shown, and whether to stop.

    Raises:
        ValueError: Before any work, where a file or a folder of `runs` is of other settings, or cannot be written.
        KeyboardInterrupt: Where the user asked to stop; every run wrote a checkpoint.
    """
    from debiased_contrastive.reproduce import ways

    watch, failures = watch or Lines(), []
    missing = missing_jobs(jobs, out)
    for job in missing:
        check_can_be_written(out / f"{job.name}.json")
        if job.domain:
            if not cluster:
                check_can_be_written(runs / job.name / SETTINGS)
            check_same_run(runs / job.name, as_json(job.settings))
    for job, content in ways.choose(workers, cluster)(missing, runs, watch):
        if isinstance(content, Failed):
            failures.append(f"{job.name}: {content.reason}")
            watch.end(job.name, f"{job.name} failed: {content.reason}")
            continue
        path = out / f"{job.name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, json.dumps(content, indent=1) + "\n")
        watch.end(job.name, str(path))
    if watch.is_stopped:
        raise KeyboardInterrupt
    return failures


def choose_rows(jobs: Iterable[Job], rows: Sequence[str] | None) -> list[Job]:
    """The jobs whose names, without folder and seed, are among these; all of them if None."""
    named = [(row_name(job), job) for job in jobs]
    names = dict.fromkeys(name for name, _ in named)
    if unknown := [name for name in rows or () if name not in names]:
        raise ValueError(f"--rows must be of {', '.join(names)}; got {', '.join(unknown)}")
    return [job for name, job in named if rows is None or name in rows]


def row_name(job: Job) -> str:
    """The name of a job without its folder and its seed."""
    return re.sub(r"-seed\d+$", "", Path(job.name).name)


def settings_without_places(settings: Any) -> dict[str, Any]:
    """The settings without the folders of the data, which are of no use to others."""
    content = as_json(settings)
    if "data" in content:
        content["data"] |= {"root": None, "test_root": None}
    if "text" in content:
        content["text"] = {key: value for key, value in content["text"].items() if key not in ("path", "cache")}
    return content
