"""Results handed to a function."""

from collections.abc import Callable

import pyarrow as pa

from weft.sinks.sink import Results

Call = Callable[[str, pa.Table, str], None]
"""Told a query's name, its new rows, and a key to recognise them by."""


class ForeachSink:
    """Hand each query's new results to a function, at least once.

    After a crash, or after an error in the function itself, the same rows can come again, with the same key:
    the number of the commit and the name of the query. A function that must not take rows twice keeps the
    keys that it has seen, along with what it made of the rows. Another checkpoint counts from zero again.
    """

    def __init__(self, call: Call, *, name: str = "foreach") -> None:
        self.name = name
        self.done = -1
        self._call = call
        self._called: set[str] = set()

    def resume(self, after: int, *, origin: str = "") -> None:
        """Count on from a commit."""
        self.done = after

    def deliver(self, commit: int, results: Results) -> None:
        """Call the function once for each query with results."""
        if commit <= self.done:
            return
        for name, table in results.items():
            key = f"{commit:09d}-{name}"
            # If the function fails for a later query of this commit, the earlier ones are not called again.
            if key not in self._called:
                self._call(name, table, key)
                self._called.add(key)
        self._called.clear()
        self.done = commit

    def flush(self) -> None:
        """Do nothing: calls are made at once."""

    def close(self) -> None:
        """Forget which calls were made; the function is not the sink's own."""
        self._called.clear()
