"""A sink and all that an engine has for it, without the engine: results in an outbox, and notes on a disk.

python -m tests.faults.outlet parquet FOLDER NOTES
python -m tests.faults.outlet postgres DSN NOTES
"""

import sys
from collections.abc import Callable
from pathlib import Path
from time import monotonic, sleep

import pyarrow as pa

from tests.faults.conditions import PROMPT
from tests.faults.mutants import planted
from weft.durability.checkpoint import Checkpoint
from weft.sinks import Delivery, Limits, ParquetSink, PostgresSink, Results, Sink
from weft.storage import LocalFolder

COMMITS = 8
"""How many commits there are."""
QUERIES = ("a", "b")
ROWS = 3
"""Of each query in each commit."""
PHASES = ("deliver.before", "deliver.partly", "deliver.after", "delivered.noted")
"""The points of a delivery, in order."""
AT_ONCE = Limits(first_retry_s=0.01, longest_retry_s=0.02)
"""What failed is tried again soon."""
_SECONDS = 30.0


def outbox(commit: int) -> Results:
    """Return the results of a commit; no column makes a row take an equal one's place."""
    values = range(commit * ROWS, (commit + 1) * ROWS)
    moments = pa.array([commit] * ROWS, pa.timestamp("us", "UTC"))
    table = pa.table({"window_start": moments, "window_end": moments, "x": pa.array(values, pa.int64())})
    return dict.fromkeys(QUERIES, table)


def everything() -> list[int]:
    """Return all values of x that a query gives."""
    return list(range(COMMITS * ROWS))


def opened(sink: Sink, notes: Path, *, limits: Limits = AT_ONCE) -> Delivery:
    """Return a delivery that goes on where the notes say; commits come one by one until something fails."""
    checkpoint = Checkpoint(LocalFolder(notes))
    after = checkpoint.delivered(sink.name)
    delivery = Delivery(
        sink, after=after, origin="c1", outbox=outbox, on_done=checkpoint.set_delivered, limits=limits
    )
    for commit in range(after + 1, COMMITS):
        delivery.offer(commit, None)
        wait_until(lambda: not delivery.status.behind or delivery.status.error is not None)
    return delivery


def deliver_all(sink: Sink, notes: Path) -> None:
    """Deliver whatever is not noted as delivered."""
    with planted(PROMPT):
        delivery = opened(sink, notes)
        assert delivery.drain(_SECONDS), delivery.status
        delivery.close()


def wait_until(true: Callable[[], bool]) -> None:
    """Wait until something is so."""
    deadline = monotonic() + _SECONDS
    while not true():
        assert monotonic() < deadline, "it never came true"
        sleep(0.005)


def sink_of(kind: str, place: str) -> Sink:
    """Return a sink by the name of its kind."""
    return ParquetSink(LocalFolder(Path(place))) if kind == "parquet" else PostgresSink(place)


if __name__ == "__main__":
    deliver_all(sink_of(sys.argv[1], sys.argv[2]), Path(sys.argv[3]))
