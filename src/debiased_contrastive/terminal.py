"""What a person at a terminal sees: progress with speed and time left, one line for an error, a table."""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table

console = Console(stderr=True)


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


def say(text: str) -> None:
    """One line to the terminal, not to the output that others read."""
    print(text, file=sys.stderr, flush=True)


def table(title: str, header: list[str], rows: list[list[str]]) -> None:
    """A table on the standard output, plain where that is a file."""
    made = Table(*header, title=title, title_justify="left")
    for row in rows:
        # A name with brackets is a name.
        made.add_row(*map(escape, row))
    Console(width=None if sys.stdout.isatty() else 160).print(made)


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
