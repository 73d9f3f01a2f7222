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
from types import FrameType
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TextColumn, TimeRemainingColumn
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
    """Replace letters that standard output or error cannot show by others from now on, instead of an error."""
    # A stream that was closed before the start is None.
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=_REPLACE)


def _replace_letters(error: UnicodeError) -> tuple[str, int]:
    """Replace letters that an encoding does not have; names that are not Unicode are escaped."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    letters = error.object[error.start : error.end]
    plain = (_ASCII.get(letter) or letter.encode("ascii", "backslashreplace").decode() for letter in letters)
    return "".join(plain), error.end


_REPLACE = "debiased-replace"
codecs.register_error(_REPLACE, _replace_letters)


@contextmanager
def progress(what: str, *, quiet: bool) -> Iterator["Bar"]:
    """Show a progress bar; in quiet mode one line for every tenth, for logs."""
    if quiet:
        yield Bar(what, None)
        return
    note = TextColumn("{task.fields[note]}", markup=False)
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), note, TimeRemainingColumn())
    display = Progress(*columns, console=console, transient=False)
    try:
        yield Bar(what, display)
    finally:
        if display.live.is_started:
            display.stop()


class Bar:
    """The progress of one long job."""

    def __init__(self, what: str, display: Progress | None) -> None:
        self.what, self.display = what, display
        self.task = None if display is None else display.add_task(what, total=None, note="")
        self.tenth, self.done = -1, 0

    def at(self, done: int, total: int, note: str = "") -> None:
        """Show that `done` of `total` are done."""
        if self.display is not None and self.task is not None:
            # The bar starts only here, so that what is refused at once is one line without a bar.
            self.display.start()
            self.display.update(self.task, completed=done, total=total, note=note)
            return
        # Where less is done than before, another piece of work has begun.
        self.tenth = -1 if done < self.done else self.tenth
        self.done = done
        if total and (tenth := 10 * done // total) > self.tenth:
            self.tenth = tenth
            say(f"{self.what}: {done} of {total} {note}".rstrip())


class Board:
    """The progress of several runs at once: a bar for each, and one for all of them with the time left."""

    def __init__(self, runs: int, stop: "Stop", *, quiet: bool) -> None:
        """Show `runs` runs; in quiet mode, and where nobody watches, a line for every tenth of each."""
        self.runs, self.stop, self.parts, self.ended = runs, stop, dict[str, float](), 0
        self.lines, self.tasks = dict[str, Bar](), dict[str, TaskID]()
        note = TextColumn("{task.fields[note]}", markup=False)
        columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), note, TimeRemainingColumn())
        self.display = None if quiet or not console.is_terminal else Progress(*columns, console=console)

    def __enter__(self) -> "Board":
        if self.display is not None:
            self.all = self.display.add_task(f"{self.runs} runs", total=self.runs, note="")
            self.display.start()
        return self

    def __exit__(self, *_error: object) -> None:
        if self.display is not None:
            self.display.stop()

    @property
    def is_stopped(self) -> bool:
        """Whether the user asked to stop."""
        return self.stop.asked

    def at(self, name: str, done: int, total: int, note: str) -> None:
        """A run stands at `done` of `total`."""
        self.parts[name] = done / total
        if self.display is None:
            self.lines.setdefault(name, Bar(name, None)).at(done, total, note)
            return
        if name not in self.tasks:
            self.tasks[name] = self.display.add_task(escape(name), total=total, note="")
        self.display.update(self.tasks[name], completed=done, total=total, note=note)
        self._count()

    def end(self, name: str, line: str) -> None:
        """A run ended: its bar makes room for the next."""
        self.ended += 1
        self.parts.pop(name, None)
        if self.display is not None:
            if name in self.tasks:
                self.display.remove_task(self.tasks.pop(name))
            self._count()
        self.tell(line)

    def tell(self, line: str) -> None:
        """Say a line while bars are shown."""
        if self.display is None:
            say(line)
        else:
            self.display.console.print(printable(line), markup=False, highlight=False, soft_wrap=True)

    def _count(self) -> None:
        assert self.display is not None
        self.display.update(self.all, completed=self.ended + sum(self.parts.values()))


def explain_memory(error: Exception) -> str | None:
    """Say what to do where memory ran out, and how much was asked for; None for another error."""
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
    """Say what to do where another process of a training ended; None for another error."""
    if not re.search("Connection (closed by peer|reset by peer|refused)|Broken pipe|Timed out", str(error)):
        return None
    return "another process of this training ended: start all of them again with `debiased resume`"


def is_output_closed() -> bool:
    """Tell whether nobody reads the standard output any more."""
    try:
        poll = select.poll()
        poll.register(sys.stdout.fileno(), 0)
        return bool(poll.poll(0))
    except (AttributeError, OSError, ValueError):  # no poll on this system, or no real output
        return True


def show(text: str) -> None:
    """Print lines to the standard output, which other programs may read."""
    with _output():
        for line in text.split("\n"):
            print(printable(line))


def finish_output() -> None:
    """Flush the standard output, and raise where it cannot be written."""
    with _output():
        sys.stdout.flush()


@contextmanager
def _output() -> Iterator[None]:
    """Name the standard output in the error where it cannot be written; a closed pipe stays as it is."""
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
    """Discard what the interpreter would still write to the standard output."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def say(text: str) -> None:
    """Print one line to the standard error."""
    print(printable(text), file=sys.stderr, flush=True)


def table(title: str, header: list[str], rows: list[list[str]]) -> None:
    """Print a table to the standard output, plain where that is a file."""
    encoding = sys.stdout.encoding or "ascii"

    def encodable(text: str) -> str:
        # Replaced here and not when printed, since the width of columns depends on it. A no-break space counts as
        # not printable.
        plain = printable(text.replace("\N{NO-BREAK SPACE}", " "))
        return plain.encode(encoding, _REPLACE).decode(encoding)

    grid = Table(*map(encodable, header), title=encodable(title), title_justify="left")
    for row in rows:
        # Rich would read a name with brackets as markup.
        grid.add_row(*(escape(encodable(cell)) for cell in row))
    with _output():
        Console(width=None if sys.stdout.isatty() else 160).print(grid)


class Stop:
    """Whether the user asked to stop."""

    asked = False


@contextmanager
def catch_interrupts(wanted: bool = True) -> Iterator[Stop]:
    """Let Ctrl-C or SIGTERM set `asked`, and a second one interrupt; unless `wanted`, nothing changes."""
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
