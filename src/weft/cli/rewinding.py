"""Showing what sinks would lose if they were taken back to a checkpoint, and asking for it."""

import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from weft.durability.rewinding import Approve, Rewind
from weft.errors import EngineError


def asking(console: Console, *, yes: bool, hidden: Callable[[], AbstractContextManager[None]]) -> Approve:
    """Return what shows what would go and asks whether it may; `yes` answers beforehand.

    A view is `hidden` meanwhile.
    """

    def approve(rewinds: Sequence[Rewind]) -> bool:
        with hidden(), _interruptible():
            for rewind in rewinds:
                _show(console, rewind)
            if yes:
                return True
            if not sys.stdin.isatty():
                raise EngineError(
                    "nothing was changed, for nobody is there to say that it may; see above what would go, "
                    "and add --yes"
                )
            return typer.confirm("take these sinks back to the checkpoint?", err=True)

    return approve


@contextmanager
def _interruptible() -> Iterator[None]:
    """Have Ctrl-C leave at once, though a run takes it as a wish to stop between batches."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _show(console: Console, rewind: Rewind) -> None:
    reach = f"commit {rewind.commit:,}" if rewind.commit >= 0 else "its beginning"
    rows = sum(one.rows for one in rewind.surplus)
    console.print(
        Text(f"stream {rewind.stream}: sink {rewind.sink} goes back to {reach} and loses {rows:,} rows")
    )
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for heading in ("query", "rows that go", "which"):
        table.add_column(heading, justify="right" if heading == "rows that go" else "left", overflow="fold")
    for one in rewind.surplus:
        table.add_row(Text(one.query), f"{one.rows:,}", one.why)
    if rewind.surplus:
        console.print(table)
