"""The sinks of streams, the deliveries to them, and names that are in use until all is delivered."""

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from weft.durability.ledger import Ledger
from weft.durability.past import Past
from weft.errors import EngineError, Fenced
from weft.query.logical import LogicalQuery
from weft.sinks import REFUSED, Delivery, Sink
from weft.sinks.fence import Fencing


def make_sinks(given: Iterable[Sink | Callable[[], Sink]], *, taken: Sequence[Sink]) -> list[Sink]:
    """Return sinks for a stream; refuse one that another stream has taken: it counts that one's commits."""
    # A class of sinks has all attributes of a sink, but makes them.
    made = [sink() if isinstance(sink, type) or not isinstance(sink, Sink) else sink for sink in given]
    for sink in made:
        if any(sink is other for other in taken):
            raise EngineError(
                f"sink {sink.name} serves another stream already, and a sink takes the results of one only; "
                f"give a function that makes one for each stream: sinks=[lambda: {type(sink).__name__}(…)]"
            )
    return made


def deliveries(
    sinks: Sequence[Sink],
    past: Past,
    *,
    origin: str,
    on_fenced: Callable[[Fenced], None],
    held: Callable[[], None] | None,
    stop: threading.Event,
) -> list[Delivery]:
    """Start to deliver to sinks, each after the last commit that the checkpoint knows it to have.

    Sinks that support it refuse any but the current incarnation of the checkpoint's lineage; `on_fenced` is
    called with that. `held` raises an error if another engine may run on the checkpoint now.
    """
    checkpoint, lineage = past.checkpoint, past.lineage
    if checkpoint is None:
        return [Delivery(sink, stop=stop, on_fenced=on_fenced) for sink in sinks]
    for name, times in Counter(sink.name for sink in sinks).items():
        if times > 1:
            raise EngineError(
                f"{times} sinks are named {name}, and a checkpoint knows sinks by their names; give each "
                "another: name=…"
            )
    done = {sink.name: checkpoint.delivered(sink.name) for sink in sinks}
    # Before they start: a delivery records its own progress.
    checkpoint.deliver_to(done)
    for sink in sinks:
        if isinstance(sink, Fencing) and lineage is not None:
            sink.set_lineage(lineage)
    return [
        Delivery(
            sink,
            after=done[sink.name],
            last=past.last,
            origin=origin,
            outbox=checkpoint.results,
            on_done=checkpoint.set_delivered,
            on_fenced=on_fenced,
            held=held,
            stop=stop,
        )
        for sink in sinks
    ]


def refusals(delivered: Iterable[Delivery]) -> list[str]:
    """Return notices of the rows that sinks have set aside."""
    return [
        f"sink {status.sink}: {status.refused:,} rows are set aside in its table {REFUSED}, for it cannot "
        "take them"
        for status in (delivery.status for delivery in delivered)
        if status.refused
    ]


class Leaving:
    """The names of queries that left, each until every sink has all results of its query."""

    def __init__(self) -> None:
        self._left: dict[str, tuple[str, Ledger, int]] = {}
        """By name, in the order of leaving: the stream, its ledger, the last commit with results."""

    def __len__(self) -> int:
        self._forget_delivered()
        return len(self._left)

    def note(self, name: str, stream: str, ledger: Ledger) -> None:
        """Record that a query has left."""
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
