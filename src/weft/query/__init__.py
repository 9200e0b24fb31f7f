"""The query language: from text to `LogicalQuery`."""

from weft.query.binder import bind
from weft.query.duration import parse_duration
from weft.query.statements import (
    CreateQuery,
    CreateStream,
    CreateTable,
    DropQuery,
    Statement,
    check_stream,
    parse,
    parse_select,
)

__all__ = [
    "CreateQuery", "CreateStream", "CreateTable", "DropQuery", "Statement", "bind", "check_stream", "parse",
    "parse_duration", "parse_select",
]  # fmt: skip
