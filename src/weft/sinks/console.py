"""Results printed."""

import pyarrow as pa
from rich.console import Console
from rich.table import Table

from weft.sinks.sink import Results

_SHOWN_ROWS = 5


class ConsoleSink:
    """Print the newest results."""

    def __init__(self, console: Console | None = None, *, name: str = "console") -> None:
        self.name = name
        self.done = -1
        self._console = console or Console()

    def resume(self, after: int, *, origin: str = "") -> None:
        """Count on from a commit."""
        self.done = after

    def deliver(self, commit: int, results: Results) -> None:
        """Print a few rows of each query."""
        if commit <= self.done:
            return
        for name, table in results.items():
            self._console.print(as_table(name, table, rows=_SHOWN_ROWS))
        self.done = commit

    def flush(self) -> None:
        """Do nothing: what was printed is seen."""

    def close(self) -> None:
        """Do nothing: the console is not the sink's own."""


def as_table(title: str, rows_of: pa.Table, *, rows: int) -> Table:
    """Draw the first rows of results."""
    drawn = Table(title=title, title_justify="left")
    for name in rows_of.column_names:
        drawn.add_column(name)
    for row in rows_of.slice(0, rows).to_pylist():
        drawn.add_row(*(_shown(value) for value in row.values()))
    if rows_of.num_rows > rows:
        drawn.caption = f"{rows_of.num_rows - rows:,} more"
    return drawn


def _shown(value: object) -> str:
    if value is None:
        return "NULL"
    return f"{value:,.4f}" if isinstance(value, float) else str(value)
