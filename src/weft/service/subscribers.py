"""Functions that are called with a query's new results."""

import logging
from collections.abc import Callable

import pyarrow as pa

Subscriber = Callable[[pa.Table], None]
"""Is called with new results."""
_log = logging.getLogger("weft.service")


class Subscribers:
    """Who is to be told of which query's results."""

    def __init__(self) -> None:
        self._calls: dict[str, list[Subscriber]] = {}

    def add(self, name: str, call: Subscriber) -> None:
        """Have a function called with each batch's new results of a query."""
        self._calls.setdefault(name, []).append(call)

    def forget(self, name: str) -> None:
        """Call nobody any more for a query that has left."""
        self._calls.pop(name, None)

    def tell(self, name: str, rows: pa.Table) -> None:
        """Call all who asked for a query; the trouble of one is not that of others, or of the stream."""
        for call in self._calls.get(name, ()):
            try:
                call(rows)
            except Exception as error:
                fields = {"query": name, "kind": type(error).__name__}
                _log.error("a subscriber of query %s failed, and is called again", name, extra=fields)
