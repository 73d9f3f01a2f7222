"""Memory of a long training on CPUs."""

import contextlib
import ctypes


def keep_freed_memory() -> None:
    """Let the C library keep what is freed: on CPUs, giving it back and asking again takes part of every step.

    Does nothing where there is no glibc.
    """
    largest = 2**30
    with contextlib.suppress(AttributeError, OSError):
        libc = ctypes.CDLL(None)
        for option in (-1, -3):  # M_TRIM_THRESHOLD, M_MMAP_THRESHOLD
            libc.mallopt(option, largest)
