"""Receivers of results, and the delivery of results to them, whatever fails."""

from weft.sinks.declared import DeclaredSink, MakeSink, Outlet
from weft.sinks.delivery import Delivery, DeliveryStatus, Limits
from weft.sinks.immediate import ConsoleSink, ForeachSink, MemorySink, as_table
from weft.sinks.parquet import ParquetSink
from weft.sinks.postgres import PostgresSink
from weft.sinks.postgres_own import REFUSED
from weft.sinks.sink import Results, Sink, SinkError, keys_of, with_keys

__all__ = [
    "Results", "Sink", "SinkError", "with_keys", "keys_of", "DeclaredSink",
    "MakeSink", "Outlet", "Delivery", "DeliveryStatus", "Limits",
    "MemorySink", "ConsoleSink", "as_table", "ForeachSink", "ParquetSink", "PostgresSink", "REFUSED",
]  # fmt: skip
