"""Jobs on many machines by Dask distributed: workers need the package, and a folder that they share.

A worker that is lost loses nothing but the steps since a checkpoint: Dask hands its runs to others. Without a
shared folder they begin anew. Results are sent back, and written by whoever asked for them.
"""

import logging
import re
import signal
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import distributed
from dask import config as dask_config

from debiased_contrastive.reproduce.runner import Failed, Job, StoppedError, Watch
from debiased_contrastive.reproduce.ways import do, explain

dask: Any = distributed
"""It is only partly typed."""
_TOPIC = "debiased-progress"
_ASKED = "debiased-stop"
PATIENCE = 10.0
"""Seconds to wait for the scheduler."""
_EVERY = 2.0
"""Seconds between two questions of a worker whether to stop."""


def run_on_cluster(address: str, jobs: Sequence[Job], runs: Path, watch: Watch) -> Iterator[tuple[Job, Any]]:
    """Hand all jobs to the cluster, and yield results as they are ready."""
    with _connect(address) as client:
        stop, places, handed = dask.Event(_ASKED, client=client), dict[str, str](), set[str]()
        stop.clear()

        def show(event: tuple[float, dict[str, Any]]) -> None:
            name, worker, done, total, note = event[1].values()
            if places.setdefault(name, worker) != worker:
                places[name] = worker
                handed.add(name)
                watch.tell(f"{name} is handed to {worker}: its worker was lost")
            if total and name in handed:
                handed.discard(name)
                watch.tell(f"{name} is taken up at step {done}")
            if total:
                watch.at(name, done, total, note)

        client.subscribe_topic(_TOPIC, show)
        asked = {client.submit(_work, job, runs.resolve(), key=f"{job.name}-{time.time_ns()}"): job for job in jobs}
        while asked:
            for future in _wait(list(asked)):
                yield asked.pop(future), _receive(future)
            if watch.is_stopped:
                stop.set()
                client.cancel(list(asked))
                return


@contextmanager
def _connect(address: str) -> Iterator[Any]:
    """A client of the scheduler there, or of a cluster here that ends with it."""
    # What it would say of a scheduler that is gone, in forty lines, each run says in one.
    logging.getLogger("distributed.client").setLevel(logging.CRITICAL)
    if local := re.fullmatch(r"local:(\d+)", address):
        with (
            # A run that waits at a worker would share the blame for its death.
            dask_config.set({"distributed.scheduler.worker-saturation": 1.0}),
            dask.LocalCluster(
                n_workers=int(local[1]),
                threads_per_worker=1,
                dashboard_address=None,
                preload=[__name__],
                silence_logs=logging.ERROR,
            ) as cluster,
            dask.Client(cluster) as client,
        ):
            yield client
        return
    try:
        client = dask.Client(address, timeout=PATIENCE)
    except (OSError, ValueError) as error:
        raise ValueError(
            f"no Dask scheduler answers at {address} ({' '.join(str(error).split())}): start one, or use local:K"
        ) from None
    with client:
        yield client


def dask_setup(_worker: object) -> None:
    """Let a worker that was started here leave Ctrl-C to the process that started it, which asks runs to stop."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _wait(futures: list[Any]) -> set[Any]:
    try:
        done: set[Any] = dask.wait(futures, timeout=0.5, return_when="FIRST_COMPLETED").done
    except TimeoutError:
        return set()
    except CancelledError:
        # Without the scheduler no run has a result any more, which each of them tells.
        return set(futures)
    return done


def _receive(future: Any) -> Any:
    """The result of a job, or why there is none: the others must go on, whatever it was."""
    try:
        return future.result()
    except CancelledError:
        return Failed("the scheduler is gone: start the cluster and the same command again")
    except dask.KilledWorker as error:
        return Failed(f"{error.allowed_failures + 1} workers died while they did it, perhaps for lack of memory")
    except Exception as error:
        return Failed(explain(error))
    finally:
        # Else the cluster would do the job again where the worker that did it is lost later.
        future.release()


def _work(job: Job, runs: Path) -> Any:
    """Do a job in a worker, which tells its progress to whoever asked."""
    worker, stop, last = dask.get_worker(), dask.Event(_ASKED, client=dask.get_client()), time.monotonic()

    def at(done: int, total: int, note: str) -> None:
        content = {"name": job.name, "worker": worker.address, "done": done, "total": total, "note": note}
        worker.log_event(_TOPIC, content)

    def is_stopped() -> bool:
        nonlocal last
        if time.monotonic() - last < _EVERY:
            return False
        last = time.monotonic()
        return bool(stop.is_set())

    # Whoever asked must know of a run that is lost before its first step, too.
    at(0, 0, "")
    try:
        return do(job, runs, at, is_stopped)
    except StoppedError:
        return None
