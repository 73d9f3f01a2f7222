"""What a person at a terminal sees: progress with speed and time left, one line for an error, a table."""

import codecs
import io
import os
import re
import select
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from types import FrameType
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table

from debiased_contrastive.files import printable

console = Console(stderr=True)

_ASCII = {
    "\N{PLUS-MINUS SIGN}": "+-",
    "\N{GREEK SMALL LETTER TAU}": "tau",
    "\N{SUPERSCRIPT PLUS SIGN}": "+",
    "\N{GREEK SMALL LETTER BETA}": "beta",
    "\N{MULTIPLICATION SIGN}": "x",
    "\N{EN DASH}": "-",
    "\N{MINUS SIGN}": "-",
    "\N{NO-BREAK SPACE}": " ",
}


def prepare_streams() -> None:
    """From now on, letters that standard output or error cannot show become others, instead of an error."""
    # Where a stream was closed before the start there is none.
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=_DEGRADED)


def _degraded(error: UnicodeError) -> tuple[str, int]:
    """What stands for letters that an encoding does not have; names that are no Unicode are escaped."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    letters = error.object[error.start : error.end]
    return "".join(
        _ASCII.get(one) or one.encode("ascii", "backslashreplace").decode() for one in letters
    ), error.end


_DEGRADED = "debiased-degraded"
codecs.register_error(_DEGRADED, _degraded)


@contextmanager
def progress(what: str, *, quiet: bool) -> Iterator["Bar"]:
    """A bar while it lasts; in quiet mode one line about every tenth, for logs."""
    if quiet:
        yield Bar(what, None)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[note]}", markup=False),
    )
    drawn = Progress(*columns, TimeRemainingColumn(), console=console, transient=False)
    try:
        yield Bar(what, drawn)
    finally:
        if drawn.live.is_started:
            drawn.stop()


class Bar:
    """Where one long job stands."""

    def __init__(self, what: str, drawn: Progress | None) -> None:
        self.what, self.drawn = what, drawn
        self.task = None if drawn is None else drawn.add_task(what, total=None, note="")
        self.tenth, self.done = -1, 0

    def at(self, done: int, total: int, note: str = "") -> None:
        """Show that `done` of `total` are done."""
        if self.drawn is not None and self.task is not None:
            # Not before there is something to show: what is refused at once is one line without a bar.
            self.drawn.start()
            self.drawn.update(self.task, completed=done, total=total, note=note)
            return
        # Less than before is done of something else.
        self.tenth = -1 if done < self.done else self.tenth
        self.done = done
        if total and (tenth := 10 * done // total) > self.tenth:
            self.tenth = tenth
            say(f"{self.what}: {done} of {total} {note}".rstrip())


def explain_memory(error: Exception) -> str | None:
    """What to do where memory ran out, with how much was asked for; None where the error is another."""
    text = str(error)
    if isinstance(error, OverflowError) or "overflow" in text.lower():
        return f"a number is too large ({text.splitlines()[0]}): use a smaller one"
    if not isinstance(error, MemoryError) and not re.search("(?i)to allocate|not enough memory", text):
        return None
    asked = re.search(r"allocate ([\d.,]+) ?(bytes|[KMGTPE]iB)", text)
    # PyTorch counts bytes, NumPy has a unit.
    size = asked and (f"{float(asked[1]) / 2**30:,.1f} GiB" if asked[2] == "bytes" else f"{asked[1]} {asked[2]}")
    return (
        f"memory is too small: {size or 'more'} was asked for at once; use a smaller batch, fewer positives, "
        "smaller images or networks"
    )


def explain_lost_process(error: Exception) -> str | None:
    """What to do where another process of a training ended; None where the error is another."""
    signs = (
        "Connection closed by peer",
        "Connection reset by peer",
        "Connection refused",
        "Broken pipe",
        "Timed out",
    )
    if not any(sign in str(error) for sign in signs):
        return None
    return "another process of this training ended: start all of them again with `debiased resume`"


def is_output_closed() -> bool:
    """Whether nobody reads the standard output any more."""
    try:
        looked = select.poll()
        looked.register(sys.stdout.fileno(), 0)
        return bool(looked.poll(0))
    except (AttributeError, OSError, ValueError):  # no such question on this system, or no real output
        return True


def show(text: str) -> None:
    """Lines of output that others may read."""
    with _output():
        for line in text.split("\n"):
            print(printable(line))


def finish_output() -> None:
    """See that what was printed has arrived, which nobody else would notice."""
    with _output():
        sys.stdout.flush()


@contextmanager
def _output() -> Iterator[None]:
    """Name the standard output where it takes nothing more; who closed a pipe has seen enough."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        forget_output()
        raise OSError(
            f"standard output could not be written ({error.strerror}); files that were written are whole"
        ) from None


def forget_output() -> None:
    """Let what else the interpreter would write go nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def say(text: str) -> None:
    """One line to the terminal, not to the output that others read."""
    print(printable(text), file=sys.stderr, flush=True)


def table(title: str, header: list[str], rows: list[list[str]]) -> None:
    """A table on the standard output, plain where that is a file."""
    # Here and not when printed, since the width of columns depends on it.
    shown = partial(_shown, encoding=sys.stdout.encoding or "ascii")
    made = Table(*map(shown, header), title=shown(title), title_justify="left")
    for row in rows:
        # A name with brackets is a name.
        made.add_row(*(escape(shown(cell)) for cell in row))
    with _output():
        Console(width=None if sys.stdout.isatty() else 160).print(made)


def _shown(text: str, encoding: str) -> str:
    # A space that does not break is one of the letters that count as not printable.
    plain = printable(text.replace("\N{NO-BREAK SPACE}", " "))
    return plain.encode(encoding, _DEGRADED).decode(encoding)


class Stop:
    """Whether somebody asked for an end."""

    asked = False


@contextmanager
def polite_stop(wanted: bool = True) -> Iterator[Stop]:
    """Ctrl-C or SIGTERM ask for an end at the next step; a second one ends at once. Not `wanted`: as ever."""
    stop = Stop()
    if not wanted:
        yield stop
        return

    def ask(_number: int, _frame: FrameType | None) -> None:
        if stop.asked:
            raise KeyboardInterrupt
        stop.asked = True

    before: dict[signal.Signals, Any] = {
        number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
