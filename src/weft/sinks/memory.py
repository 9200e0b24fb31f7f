"""Results kept in memory."""

import threading

import pyarrow as pa

from weft.sinks.sink import Results


class MemorySink:
    """Keep results for `Query.results()`."""

    def __init__(self, *, name: str = "memory") -> None:
        self.name = name
        self.done = -1
        self._parts: dict[str, list[pa.Table]] = {}
        self._lock = threading.Lock()

    def resume(self, after: int, *, origin: str = "") -> None:
        """Count on from a commit; what is kept stays."""
        self.done = after

    def deliver(self, commit: int, results: Results) -> None:
        """Keep the results."""
        with self._lock:
            if commit <= self.done:
                return
            for name, table in results.items():
                self._parts.setdefault(name, []).append(table)
            self.done = commit

    def flush(self) -> None:
        """Do nothing: results are visible at once."""

    def close(self) -> None:
        """Do nothing: results can still be asked for."""

    def forget(self, name: str) -> None:
        """Keep a query's results no longer."""
        with self._lock:
            self._parts.pop(name, None)

    def results(self, name: str) -> pa.Table | None:
        """Return what a query has given so far, or None."""
        with self._lock:
            parts = self._parts.get(name)
            if not parts:
                return None
            self._parts[name] = [pa.concat_tables(parts)]
            return self._parts[name][0]
