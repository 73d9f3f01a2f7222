"""Memory of a long training on CPUs."""

import contextlib
import ctypes
import math
import os


def keep_freed_memory() -> None:
    """Let the C library keep what is freed: on CPUs, giving it back and asking again takes part of every step.

    Does nothing where there is no glibc.
    """
    largest = 2**30
    with contextlib.suppress(AttributeError, OSError):
        libc = ctypes.CDLL(None)
        for option in (-1, -3):  # M_TRIM_THRESHOLD, M_MMAP_THRESHOLD
            libc.mallopt(option, largest)


def physical_memory() -> float:
    """Bytes of memory that this machine has; without end where it does not say."""
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, OSError, ValueError):
        return math.inf
