"""Ways to do jobs: in this process, in several of this machine, or on a cluster."""

import contextlib
import os
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from multiprocessing import connection, get_context
from pathlib import Path
from typing import Any, TypeAlias

from debiased_contrastive.reproduce.runner import At, Failed, Job, StoppedError, Watch

Way: TypeAlias = Callable[[Sequence[Job], Path, Watch], Iterator[tuple[Job, Any]]]
"""From jobs, the folder of trainings and what is shown to jobs with their results."""
_EVERY = 0.2
"""Seconds between two messages of a run to whoever shows its progress."""
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def choose(workers: int, cluster: str) -> Way:
    """The way for so many processes, or for the address of a cluster."""
    if workers < 1:
        raise ValueError(f"workers must be at least 1; got {workers}: it is the number of processes")
    if cluster:
        from debiased_contrastive.reproduce.cluster import run_on_cluster

        return partial(run_on_cluster, cluster)
    return run_here if workers == 1 else partial(run_in_processes, workers)


def do(job: Job, runs: Path, at: At, is_stopped: Callable[[], bool]) -> Any:
    """The result of a job, or how it failed; with one thread, since processes fill the cores."""
    if job.domain or "torch" in sys.modules:
        import torch

        from debiased_contrastive.training.machine import keep_freed_memory

        torch.set_num_threads(1)
        keep_freed_memory()
    try:
        return job.make(runs, seldom(at), is_stopped)
    except StoppedError:
        raise
    except Exception as error:
        # One line for one run: the others must go on, whatever it was.
        return Failed(explain(error))


def explain(error: Exception) -> str:
    """Why a run failed, in one line."""
    return " ".join(f"{type(error).__name__}: {error}".split())


def seldom(at: At) -> At:
    """Report at most every so often, but always the end."""
    last = -_EVERY

    def report(done: int, total: int, note: str) -> None:
        nonlocal last
        if done == total or time.monotonic() - last >= _EVERY:
            last = time.monotonic()
            at(done, total, note)

    return report


def run_here(jobs: Sequence[Job], runs: Path, watch: Watch) -> Iterator[tuple[Job, Any]]:
    """One after the other, in this process."""
    for job in jobs:
        if watch.is_stopped:
            return
        try:
            yield job, do(job, runs, partial(watch.at, job.name), lambda: watch.is_stopped)
        except StoppedError:
            return


def run_in_processes(workers: int, jobs: Sequence[Job], runs: Path, watch: Watch) -> Iterator[tuple[Job, Any]]:
    """So many at once, each in a process of its own, so that one that is killed ends nothing but its run."""
    waiting, running = deque(jobs), dict[connection.Connection, tuple[Job, Any]]()
    try:
        while waiting or running:
            if watch.is_stopped:
                waiting.clear()
                for _, process in running.values():
                    process.terminate()
            while waiting and len(running) < workers:
                own, process = _start(job := waiting.popleft(), runs)
                running[own] = job, process
            for ready in connection.wait(list(running), timeout=_EVERY):
                assert isinstance(ready, connection.Connection)
                job, process = running[ready]
                kind, content = _receive(ready)
                if kind == "progress":
                    watch.at(job.name, *content)
                    continue
                del running[ready]
                process.join()
                if kind == "result":
                    yield job, content
                elif not watch.is_stopped:
                    yield job, Failed(f"its process ended with exit code {process.exitcode}")
    finally:
        for _, process in running.values():
            process.kill()


def _start(job: Job, runs: Path) -> tuple[connection.Connection, Any]:
    context = get_context("spawn")
    own, other = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(job, runs, other), daemon=True)
    with _one_thread():
        process.start()
    # Only the process itself may hold this end: its death then ends the connection.
    other.close()
    return own, process


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    """Let libraries of a new process start with one thread: they read it when they are loaded."""
    before = {name: os.environ.get(name) for name in _THREADS}
    os.environ.update(dict.fromkeys(_THREADS, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            os.environ.update({} if value is None else {name: value})


def _receive(ready: connection.Connection) -> tuple[str, Any]:
    """What a process says, and of which kind it is: progress, the result, or its end without one."""
    try:
        message: tuple[str, Any] = ready.recv()
    except EOFError:
        return "end", None
    return message


def _work(job: Job, runs: Path, other: connection.Connection) -> None:
    """Do a job in a process that was started for it."""
    asked: list[int] = []
    # Ctrl-C reaches all processes; only the first of them decides, and asks by SIGTERM.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda number, _frame: asked.append(number))
    with contextlib.suppress(StoppedError, BrokenPipeError):
        content = do(job, runs, lambda *progress: other.send(("progress", progress)), lambda: bool(asked))
        other.send(("result", content))
