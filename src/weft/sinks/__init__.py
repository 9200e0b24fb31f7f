"""Where results go: receivers of results, and how results reach them whatever happens."""

from weft.sinks.console import ConsoleSink, as_table
from weft.sinks.delivery import Delivery, DeliveryStatus, Limits
from weft.sinks.foreach import ForeachSink
from weft.sinks.memory import MemorySink
from weft.sinks.parquet import ParquetSink
from weft.sinks.postgres import PostgresSink
from weft.sinks.postgres_refused import REFUSED
from weft.sinks.sink import Results, Sink, SinkError, keys_of, with_keys

__all__ = [
    "Results",
    "Sink",
    "SinkError",
    "with_keys",
    "keys_of",
    "Delivery",
    "DeliveryStatus",
    "Limits",
    "MemorySink",
    "ConsoleSink",
    "as_table",
    "ForeachSink",
    "ParquetSink",
    "PostgresSink",
    "REFUSED",
]
