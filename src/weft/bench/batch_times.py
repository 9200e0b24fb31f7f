"""How long Spark's micro-batches took, handled by Weft or by an ordinary query."""

from threading import Event
from types import TracebackType

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

_STARTING = 2
"""Batches that start a run, and are not counted."""
_PATIENCE_S = 10.0
"""How long to wait for Spark to report that a stream has ended."""


class BatchTimes(StreamingQueryListener):
    """Times each batch of the one stream that runs meanwhile, from listing files to Spark's commit."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._seconds: list[float] = []
        self._ended = Event()

    def __enter__(self) -> "BatchTimes":
        self._spark.streams.addListener(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._spark.streams.removeListener(self)

    def settled(self) -> tuple[float, ...]:
        """Return the seconds of each batch that had rows, the first ones aside, once the stream has ended."""
        # Spark reports batches in a thread of its own.
        self._ended.wait(_PATIENCE_S)
        return tuple(self._seconds[_STARTING:] or self._seconds)

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Do nothing."""

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Do nothing."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """Take note of a batch."""
        progress = event.progress
        if progress.numInputRows > 0:
            self._seconds.append(progress.durationMs["triggerExecution"] / 1000)

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Take note of the end."""
        self._ended.set()
