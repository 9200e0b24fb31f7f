"""The query language: from text to `LogicalQuery`."""

from weft.query.binder import bind
from weft.query.checking import Checked, check
from weft.query.duration import parse_duration
from weft.query.sink_options import sink_def, sink_kind
from weft.query.statements import (
    CreateQuery,
    CreateSink,
    CreateStream,
    CreateTable,
    DropQuery,
    Statement,
    check_stream,
    parse,
    parse_columns,
    parse_select,
)

__all__ = [
    "Checked", "CreateQuery", "CreateSink", "CreateStream", "CreateTable", "DropQuery", "Statement", "bind",
    "check", "check_stream", "parse", "parse_columns", "parse_duration", "parse_select", "sink_def",
    "sink_kind",
]  # fmt: skip
