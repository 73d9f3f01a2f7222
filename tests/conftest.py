"""Two workers share two cores, so each computes with one thread; hypothesis draws the same cases."""

import os
import signal

import torch
from hypothesis import HealthCheck, settings

import debiased_contrastive

torch.set_num_threads(1)
# A shell starts its background jobs deaf to Ctrl-C, and so would be the commands that the tests interrupt.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
settings.register_profile(
    "suite", derandomize=True, deadline=None, max_examples=150, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("mutant", settings.get_profile("suite"), max_examples=40)
settings.load_profile("mutant" if "DEBIASED_MUTANT" in os.environ else "suite")


def pytest_sessionstart() -> None:
    """A mutant that is not the package under test would survive for the wrong reason."""
    mutant = os.environ.get("DEBIASED_MUTANT")
    if mutant and not debiased_contrastive.__file__.startswith(mutant):
        raise RuntimeError(f"imported {debiased_contrastive.__file__}, not the copy in {mutant}")
