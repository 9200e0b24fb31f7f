"""A test case: a schema, rows in micro-batches, and queries over them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from tests.oracle.expressions import Column
from tests.oracle.reference import replay
from tests.oracle.registered import Function
from tests.oracle.results import Replay
from tests.oracle.spec import Spec
from tests.oracle.tables import Table
from tests.oracle.types import Kind, Row, SqlType

TIME = "time"
STREAM = "events"

_ARROW = {
    Kind.INT: pa.int32(),
    Kind.BIGINT: pa.int64(),
    Kind.DOUBLE: pa.float64(),
    Kind.STRING: pa.string(),
    Kind.BOOLEAN: pa.bool_(),
    Kind.TIMESTAMP: pa.timestamp("us", tz="UTC"),
    Kind.DATE: pa.date32(),
}


def arrow_type(of: SqlType) -> Any:
    """Return the Arrow type of a SQL type."""
    return pa.decimal128(of.precision, of.scale) if of.kind is Kind.DECIMAL else _ARROW[of.kind]


def arrow_table(columns: Sequence[Column], rows: Sequence[Row]) -> Any:
    """Return rows as a pyarrow table."""
    arrays = [pa.array([row[c.name] for row in rows], arrow_type(c.type)) for c in columns]
    return pa.table(arrays, names=[column.name for column in columns])


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A stream cut into micro-batches, and the queries to run over it."""

    schema: tuple[Column, ...]
    """Every column, the event time first."""
    batches: tuple[tuple[Row, ...], ...]
    delay_ms: int
    specs: tuple[Spec, ...]
    tables: tuple[Table, ...] = ()
    """The static tables that queries may join."""
    functions: tuple[Function, ...] = ()
    """The Python functions that queries may call."""

    def only(self, *names: str) -> "Case":
        """Return the case with some of its queries."""
        return replace(self, specs=tuple(spec for spec in self.specs if spec.name in names))

    def expected(self, *, flush: bool = True) -> Replay:
        """Evaluate the case with the reference."""
        return replay(self.batches, self.specs, delay_ms=self.delay_ms, time=TIME, flush=flush)

    def batch_tables(self) -> list[Any]:
        """Return one pyarrow table per batch."""
        return [self.table(batch) for batch in self.batches]

    def table(self, rows: Sequence[Row]) -> Any:
        """Return rows as a pyarrow table of the case's schema."""
        return arrow_table(self.schema, rows)

    def ddl(self) -> str:
        """Return the columns as they stand in CREATE STREAM."""
        return ", ".join(f"{column.name} {column.type}" for column in self.schema)
