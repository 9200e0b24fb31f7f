"""What partials depend on: the stream's declaration, and for each query the columns that it reads.

A declaration may change between two starts as long as no query of the checkpoint notices: columns may be
added, reordered and removed, and those that no query reads may get another type.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from weft.durability import format4
from weft.durability.stored_names import grouping_name, only, predicate_name, primitive_name, type_name
from weft.expression import Column, Expression, walk
from weft.optimizer.plan import leaf
from weft.query.logical import LogicalQuery, StreamDef


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """A stream's declaration as it was at a commit."""

    columns: Mapping[str, str]
    """The names of columns, and the stored names of their types."""
    time: str
    unit: str | None
    text: str = ""
    """All that is known of it if the commit is of format 4."""

    def as_record(self) -> dict[str, Any]:
        """Return it as plain values."""
        columns = [[name, type] for name, type in self.columns.items()]
        return {"columns": columns, "time": self.time, "unit": self.unit}

    def problem(self, stream: StreamDef, reads: Mapping[str, Mapping[str, str]]) -> str | None:
        """Return why partials of then cannot be used with a declaration of now, or None.

        `reads` has, for each query that stays, the columns that it reads.
        """
        if self.text:
            text = format4.stream_text(stream)
            return None if text == self.text else f"it was declared as {self.text}, and is as {text} now"
        now = declared(stream)
        for what, there, here in (
            ("event time", self.time, now.time),
            ("type of its event time", self.columns.get(self.time), now.columns.get(now.time)),
            ("unit of its event time", self.unit, now.unit),
        ):
            if there != here:
                return f"the {what} was {there or 'not given'}, and is {here or 'not given'} now"
        for query, read in reads.items():
            for column, type in read.items():
                if column in self.columns and now.columns.get(column) != type:
                    here = now.columns.get(column)
                    change = "is not declared any more" if here is None else f"was {type}, and is {here} now"
                    return f'column "{column}", which query {query} reads, {change}'
        return None


def declared(stream: StreamDef) -> Declared:
    """Return what is stored of a stream's declaration."""
    columns = {column.name: type_name(column.type) for column in stream.columns}
    unit = None if stream.time_unit is None else stream.time_unit.value
    return Declared(columns=columns, time=stream.time, unit=unit)


def read_declared(stored: Any) -> Declared:
    """Return a declaration from plain values, or from the text that format 4 has."""
    if isinstance(stored, str):
        return Declared(columns={}, time="", unit=None, text=stored)
    only(stored, ("columns", "time", "unit"), "a stream")
    return Declared(columns=dict(stored["columns"]), time=stored["time"], unit=stored["unit"])


def columns_read(query: LogicalQuery) -> dict[str, str]:
    """Return the columns that a query reads, of the stream and of tables, with the names of their types."""
    found = {
        node.name: type_name(node.type)
        for expression in _expressions(query)
        for node in walk(expression)
        if isinstance(node, Column)
    }
    return dict(sorted(found.items()))


def _expressions(query: LogicalQuery) -> Iterator[Expression]:
    """Yield the expressions of a query that are evaluated on rows."""
    for join in query.joins:
        for pair in join.on:
            yield from pair
    if query.predicate is not None:
        yield query.predicate
    yield from (key.expression for key in query.keys)
    for call in query.aggregates:
        yield from (part for part in (*call.arguments, call.filter) if part is not None)


def partials_read(query: LogicalQuery) -> str:
    """Return a digest of the names of what a query is answered from."""
    needed = leaf(query)
    names = [
        grouping_name((needed.joins, needed.keys)),
        predicate_name(needed.predicate),
        *sorted(map(primitive_name, needed.primitives)),
    ]
    return sha256("\n".join(names).encode()).hexdigest()[:32]
