"""Queries that have left while results of theirs are on their way to sinks: their names are not free yet."""

from weft.durability.ledger import Ledger
from weft.errors import EngineError
from weft.query.logical import LogicalQuery


class Leaving:
    """The names of queries that left, each until every sink has all that its query gave."""

    def __init__(self) -> None:
        self._left: dict[str, tuple[str, Ledger, int]] = {}
        """By name, the first to leave first: the stream, and its last commit with results of theirs."""

    def __len__(self) -> int:
        self._forget_delivered()
        return len(self._left)

    def note(self, name: str, stream: str, ledger: Ledger) -> None:
        """Take note that a query has left."""
        self._left.pop(name, None)
        self._left[name] = stream, ledger, ledger.number
        self._forget_delivered()

    def check(self, query: LogicalQuery) -> None:
        """Refuse a query whose name is still another stream's.

        Sinks know results by the query's name, and each stream's are delivered by themselves.
        """
        self._forget_delivered()
        stream = self._left[query.name][0] if query.name in self._left else query.stream
        if stream != query.stream:
            raise EngineError(
                f'results of a query "{query.name}" of stream {stream} are still on their way to sinks; try '
                f"again when they are there, or choose another name for one of stream {query.stream}"
            )

    def _forget_delivered(self) -> None:
        while self._left:
            first = next(iter(self._left))
            _, ledger, number = self._left[first]
            if ledger.delivered < number:
                return
            del self._left[first]
