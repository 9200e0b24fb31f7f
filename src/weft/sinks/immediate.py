"""Sinks that keep nothing back: in memory, on the console, or handed to a function."""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import pyarrow as pa
from rich.console import Console
from rich.table import Table
from rich.text import Text

from weft.sinks.sink import Results

_SHOWN_ROWS = 5
_SHOWN_ELEMENTS = 5
Call = Callable[[str, pa.Table, str], None]
"""Gets a query's name, its new rows, and a key that identifies them."""


class ImmediateSink(ABC):
    """A sink whose results are visible as soon as they are delivered."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.done = -1

    def resume(self, after: int, *, origin: str = "") -> None:
        """Continue after a commit."""
        self.done = after

    def deliver(self, commit: int, results: Results) -> None:
        """Take the results of a commit, unless it was delivered before."""
        if commit > self.done:
            self._take(commit, results)
            self.done = commit

    @abstractmethod
    def _take(self, commit: int, results: Results) -> None:
        """Make the results of a commit visible."""

    def flush(self) -> None:  # noqa: B027
        """Do nothing: results are visible already."""

    def close(self) -> None:  # noqa: B027
        """Do nothing: the sink has no resources of its own."""


class MemorySink(ImmediateSink):
    """Keep results for `Query.results()`."""

    def __init__(self, *, name: str = "memory") -> None:
        super().__init__(name)
        self._parts: dict[str, list[pa.Table]] = {}
        self._lock = threading.Lock()

    def _take(self, commit: int, results: Results) -> None:
        with self._lock:
            for query, rows in results.items():
                self._parts.setdefault(query, []).append(rows)

    def forget(self, name: str) -> None:
        """Drop a query's results."""
        with self._lock:
            self._parts.pop(name, None)

    def results(self, name: str) -> pa.Table | None:
        """Return a query's results so far, or None."""
        with self._lock:
            parts = self._parts.get(name)
            if not parts:
                return None
            self._parts[name] = [pa.concat_tables(parts)]
            return self._parts[name][0]


class ConsoleSink(ImmediateSink):
    """Print a few rows of each query's newest results."""

    def __init__(self, console: Console | None = None, *, name: str = "console") -> None:
        super().__init__(name)
        self._console = console or Console()

    def _take(self, commit: int, results: Results) -> None:
        for query, rows in results.items():
            self._console.print(as_table(query, rows, rows=_SHOWN_ROWS))


class ForeachSink(ImmediateSink):
    """Hand each query's new results to a function, at least once.

    After a crash, or after an error in the function itself, the same rows can come again, with the same key:
    the number of the commit and the name of the query. A function that must not take rows twice stores the
    keys that it has seen, along with what it made of the rows. Another checkpoint counts from zero again.
    """

    def __init__(self, call: Call, *, name: str = "foreach") -> None:
        super().__init__(name)
        self._call = call
        self._called: set[str] = set()

    def _take(self, commit: int, results: Results) -> None:
        for query, rows in results.items():
            key = f"{commit:09d}-{query}"
            # If the function fails for a later query of this commit, it is not called again for earlier ones.
            if key not in self._called:
                self._call(query, rows, key)
                self._called.add(key)
        self._called.clear()

    def close(self) -> None:
        """Forget which calls were made."""
        self._called.clear()


def as_table(title: str, results: pa.Table, *, rows: int) -> Table:
    """Draw the first rows of results."""
    table = Table(*results.column_names, title=title, title_justify="left")
    for row in results.slice(0, rows).to_pylist():
        # As text: Rich would take [a] for markup.
        table.add_row(*(Text(brief(value, _scalar)) for value in row.values()))
    if results.num_rows > rows:
        table.caption = f"{results.num_rows - rows:,} more"
    return table


def brief(value: object, scalar: Callable[[Any], str] = str) -> str:
    """Return a value in short, with the first elements of arrays; `scalar` writes what is not nested.

    >>> print(brief([{"value": "/a", "count": 3}, {"value": None, "count": 1}]))
    [{value: /a, count: 3}, {value: NULL, count: 1}]
    >>> print(brief(list(range(8))))
    [0, 1, 2, 3, 4, … 3 more]
    """
    if value is None:
        return "NULL"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name}: {brief(part, scalar)}" for name, part in value.items()) + "}"
    if isinstance(value, list):
        parts = [brief(part, scalar) for part in value[:_SHOWN_ELEMENTS]]
        hidden = len(value) - len(parts)
        return f"[{', '.join([*parts, *([f'… {hidden:,} more'] if hidden else [])])}]"
    return scalar(value)


def _scalar(value: object) -> str:
    return f"{value:,.4f}" if isinstance(value, float) else str(value)
