"""Jobs of tests, in a file that other processes load quickly: it brings no torch."""

import os
import signal
import time
from pathlib import Path
from typing import Any

from debiased_contrastive.runs import Run


def curve(_settings: object, run: Run, _data: object) -> dict[str, Any]:
    return {"course": [{"step": line["step"], "loss": line["loss"]} for line in run.metrics()]}


def double(number: int) -> dict[str, int]:
    return {"result": 2 * number}


def fail() -> Any:
    raise RuntimeError("it rains\nand rains")


def die(after: float = 0.0) -> Any:
    time.sleep(after)
    os.kill(os.getpid(), signal.SIGKILL)


def hold(folder: Path) -> dict[str, int]:
    (folder / str(os.getpid())).touch()
    time.sleep(600)
    return {}


def wait_for(path: Path) -> dict[str, int]:
    while not path.exists():
        time.sleep(0.05)
    return {}
