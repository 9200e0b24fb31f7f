"""The sinks of a stream, and what brings results to them."""

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from weft.durability.past import Past
from weft.errors import EngineError, Fenced
from weft.sinks import REFUSED, Delivery, Sink
from weft.sinks.fence import Fencing


def make_sinks(given: Iterable[Sink | Callable[[], Sink]], *, taken: Sequence[Sink]) -> list[Sink]:
    """Return sinks for a stream; refuse one that another stream has taken: it counts that one's commits."""
    # A class with all that a sink has looks like a sink, but makes them.
    made = [one() if isinstance(one, type) or not isinstance(one, Sink) else one for one in given]
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
    """Begin to deliver to sinks, each after what the checkpoint knows that it has.

    Sinks that can will refuse any but the current incarnation of the checkpoint's lineage, which `on_fenced`
    is told. `held` raises an error if another engine may run on the checkpoint now.
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
    # Before they begin: a delivery notes its own progress.
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
    """Return what to tell of rows that sinks have set aside."""
    return [
        f"sink {one.sink}: {one.refused:,} rows are set aside in its table {REFUSED}, for it cannot take them"
        for one in (delivery.status for delivery in delivered)
        if one.refused
    ]
