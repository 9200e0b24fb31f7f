"""Where results go. A sink takes the results of commits in order, and says through which one it is done."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from time import monotonic
from typing import Protocol

import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

from weft.runtime.files import sync

Results = Mapping[str, pa.Table]
"""New results by query."""
_BUFFERED_BYTES = 64 << 20
"""How much waits in memory before files are written: many batches, few files."""
_BUFFERED_SECONDS = 60.0
"""How long results of a stream that goes on wait at most."""
_OWN_FILE = re.compile(r"weft-\d{9}-(\d{9})\.parquet")
_SHOWN_ROWS = 5


class Sink(Protocol):
    """A receiver of results."""

    def deliver(self, commit: int, results: Results) -> None:
        """Take the results of a commit; they may be kept back until `flush`."""

    def flush(self) -> None:
        """Make all that was delivered visible and durable."""

    @property
    def done(self) -> int:
        """The last commit whose results are visible, or −1."""


class MemorySink:
    """Keep results for `Query.results()`."""

    def __init__(self) -> None:
        self._parts: dict[str, list[pa.Table]] = {}
        self.done = -1

    def deliver(self, commit: int, results: Results) -> None:
        """Keep the results."""
        for name, table in results.items():
            self._parts.setdefault(name, []).append(table)
        self.done = commit

    def flush(self) -> None:
        """Do nothing: results are visible at once."""

    def results(self, name: str) -> pa.Table | None:
        """Return what a query has given so far, or None."""
        parts = self._parts.get(name)
        if not parts:
            return None
        self._parts[name] = [pa.concat_tables(parts)]
        return self._parts[name][0]


class ParquetSink:
    """Write one Parquet dataset per query, in few files however many batches there were."""

    def __init__(
        self,
        folder: Path,
        *,
        queries: Mapping[str, pa.Schema] | None = None,
        resume_after: int = -1,
        durable: bool = False,
    ) -> None:
        # Where a checkpoint forgets what was delivered, files must be on the disk before.
        self._durable = durable
        self._folder = folder
        self._resume_after = resume_after
        self._buffer: dict[str, list[pa.Table]] = {}
        self._buffered_bytes = 0
        self._first = self._last = self.done = resume_after
        self._flushed_at = monotonic()
        self._cleared: set[str] = set()
        self._queries = dict(queries or {})
        for name in self._queries:
            self._clear(name)

    def deliver(self, commit: int, results: Results) -> None:
        """Keep results until there is enough for a file, or a minute has passed."""
        if not self._buffer:
            self._first = commit
        self._last = commit
        for name, table in results.items():
            self._buffer.setdefault(name, []).append(table)
            self._buffered_bytes += table.nbytes
        if self._buffered_bytes > _BUFFERED_BYTES or monotonic() - self._flushed_at > _BUFFERED_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Write a file for each query that has new results."""
        for name, parts in self._buffer.items():
            self._clear(name)
            self._write(name, pa.concat_tables(parts))
        for name, schema in self._queries.items():
            # A query without results has a dataset too, with no rows.
            if not any((self._folder / name).glob("weft-*.parquet")):
                self._write(name, schema.empty_table())
        self._buffer, self._buffered_bytes = {}, 0
        self._flushed_at = monotonic()
        self.done = self._last

    def _write(self, name: str, rows: pa.Table) -> None:
        first, last = max(self._first, 0), max(self._last, 0)
        path = self._folder / name / f"weft-{first:09d}-{last:09d}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_name(f".{path.name}.tmp")
        pq.write_table(rows, unfinished)
        if self._durable:
            sync(unfinished)
        unfinished.rename(path)

    def _clear(self, name: str) -> None:
        """Remove the query's files of commits that are delivered again, and nothing else."""
        if name in self._cleared:
            return
        self._cleared.add(name)
        for unfinished in (self._folder / name).glob(".weft-*.tmp"):
            unfinished.unlink()
        for path in (self._folder / name).glob("weft-*.parquet"):
            written = _OWN_FILE.fullmatch(path.name)
            if written is not None and int(written[1]) > self._resume_after:
                path.unlink()


class ConsoleSink:
    """Print the newest results."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console()
        self.done = -1

    def deliver(self, commit: int, results: Results) -> None:
        """Print a few rows of each query."""
        for name, table in results.items():
            self._console.print(as_table(name, table, rows=_SHOWN_ROWS))
        self.done = commit

    def flush(self) -> None:
        """Do nothing: what was printed is seen."""


class CallbackSink:
    """Hand each query's new results to a function."""

    def __init__(self, call: Callable[[str, pa.Table], None]) -> None:
        self._call = call
        self.done = -1

    def deliver(self, commit: int, results: Results) -> None:
        """Call the function once for each query with results."""
        for name, table in results.items():
            self._call(name, table)
        self.done = commit

    def flush(self) -> None:
        """Do nothing: calls are made at once."""


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
