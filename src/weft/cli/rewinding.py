"""Shows what sinks would lose if they were taken back to a checkpoint, and asks for approval."""

import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from weft.durability.past import Approve, Rewind
from weft.errors import EngineError


def asking(console: Console, *, yes: bool, hidden: Callable[[], AbstractContextManager[None]]) -> Approve:
    """Return a function that shows what would be removed and asks for approval; `yes` gives it beforehand.

    The live view is `hidden` meanwhile.
    """

    def approve(rewinds: Sequence[Rewind]) -> bool:
        with hidden(), _interruptible():
            for rewind in rewinds:
                _show(console, rewind)
            if yes:
                return True
            if not sys.stdin.isatty():
                raise EngineError(
                    "nothing was changed, for nobody is there to approve it; see above what would be "
                    "removed, and add --yes"
                )
            return typer.confirm("take these sinks back to the checkpoint?", err=True)

    return approve


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let Ctrl-C end the process at once, though during a run it requests a stop between batches."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _show(console: Console, rewind: Rewind) -> None:
    commit = f"commit {rewind.commit:,}" if rewind.commit >= 0 else "its beginning"
    rows = sum(surplus.rows for surplus in rewind.surplus)
    console.print(
        Text(f"stream {rewind.stream}: sink {rewind.sink} goes back to {commit} and loses {rows:,} rows")
    )
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for heading in ("query", "rows that go", "which"):
        table.add_column(heading, justify="right" if heading == "rows that go" else "left", overflow="fold")
    for surplus in rewind.surplus:
        table.add_row(Text(surplus.query), f"{surplus.rows:,}", surplus.why)
    if rewind.surplus:
        console.print(table)
