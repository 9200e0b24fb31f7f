"""What a workload means once its names and types are resolved."""

from dataclasses import dataclass, field
from enum import StrEnum

from weft.aggregates import Constants
from weft.errors import BadWindow
from weft.expression import Expression
from weft.types import DataType
from weft.window import Window

DEFAULT_SKEW_MS = 600_000
"""The default for how far rows may be ahead of the clock: clocks differ by less, mistakes by more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnDef:
    """A column of a stream or table."""

    name: str
    type: DataType


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where rows come from: a Spark format and its options."""

    format: str
    options: tuple[tuple[str, str], ...] = ()


class TimeUnit(StrEnum):
    """The unit of an event time kept as a number since the epoch."""

    SECONDS = "s"
    MILLISECONDS = "ms"
    MICROSECONDS = "us"
    NANOSECONDS = "ns"


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamDef:
    """A declared stream."""

    name: str
    columns: tuple[ColumnDef, ...]
    """Empty until the source's own schema is read, when none was declared."""
    time: str
    """The event-time column."""
    time_unit: TimeUnit | None = None
    """Set exactly when the event time is a number."""
    delay_ms: int = 0
    """How far behind the newest row a row may be and still count."""
    skew_ms: int | None = DEFAULT_SKEW_MS
    """How far a row may be ahead of the clock before it is quarantined; None for no limit."""
    source: Source | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableDef:
    """A declared static table."""

    name: str
    columns: tuple[ColumnDef, ...] = ()
    source: Source | None = None
    refresh_ms: int | None = None
    """The time after which the table is read again; None for only on request."""

    def __post_init__(self) -> None:
        if self.refresh_ms == 0:
            raise BadWindow("a table cannot be read again every 0 ms; write a duration such as '10 minutes'")


class SinkKind(StrEnum):
    """What a declared sink writes to."""

    PARQUET = "parquet"
    POSTGRES = "postgres"
    CONSOLE = "console"


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkDef:
    """A declared sink."""

    name: str
    kind: SinkKind
    options: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """Not shown: they may hold a password."""
    queries: tuple[str, ...] = ()
    """The queries whose results it gets; empty for all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionDef:
    """A function registered from Python."""

    name: str
    type: DataType


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalog:
    """The names that queries may use."""

    streams: tuple[StreamDef, ...] = ()
    tables: tuple[TableDef, ...] = ()
    functions: tuple[FunctionDef, ...] = ()


class JoinKind(StrEnum):
    """What happens to a row without a partner."""

    INNER = "inner"
    LEFT = "left"


@dataclass(frozen=True, slots=True, kw_only=True)
class Join:
    """A static table joined to the stream."""

    table: str
    alias: str
    """The table's columns are named `alias.column` in expressions."""
    kind: JoinKind
    on: tuple[tuple[Expression, Expression], ...]
    """Equal pairs: an expression over the inputs before this table, and one over its columns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedExpression:
    """An expression and the name of the column that it fills."""

    name: str
    expression: Expression


@dataclass(frozen=True, slots=True, kw_only=True)
class AggregateCall:
    """One aggregate of a query, such as `sum(price * vol) FILTER (WHERE vol > 5)`."""

    function: str
    arguments: tuple[Expression, ...]
    """What is aggregated; empty for count(*)."""
    constants: Constants = ()
    """The constants that follow the arguments."""
    filter: Expression | None
    type: DataType
    """The result's type."""

    def __str__(self) -> str:
        inner = ", ".join([*map(str, self.arguments), *map(str, self.constants)]) or "*"
        suffix = f" FILTER (WHERE {self.filter})" if self.filter is not None else ""
        return f"{self.function}({inner}){suffix}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SortKey:
    """An item of ORDER BY."""

    expression: Expression
    """Over slots."""
    descending: bool
    nulls_first: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RowLimit:
    """How many rows of each window are kept at most, in the order of ORDER BY."""

    rows: int
    by: tuple[Expression, ...] = ()
    """If given, so many rows are kept for each combination of these values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogicalQuery:
    """A query whose names and types are resolved; the input of planning."""

    name: str
    text: str = field(compare=False)
    """What the user wrote, for messages."""
    stream: str
    joins: tuple[Join, ...] = ()
    window: Window
    predicate: Expression | None = None
    keys: tuple[NamedExpression, ...] = ()
    """GROUP BY, without the window."""
    sets: tuple[tuple[int, ...], ...] = ()
    """The keys of each grouping set, whose rows have NULL for the others; empty without grouping sets."""
    aggregates: tuple[AggregateCall, ...] = ()
    outputs: tuple[NamedExpression, ...] = ()
    """SELECT, as expressions over slots."""
    having: Expression | None = None
    """HAVING, over slots."""
    order: tuple[SortKey, ...] = ()
    """ORDER BY, then whatever settles ties; empty if there is no LIMIT."""
    limits: tuple[RowLimit, ...] = ()
    """LIMIT, one after the other; rows are counted in each window."""
    emit_empty: bool = False
    """Whether a window without a matching row gives a row too."""
    lifetime_ms: int | None = None
    """How long, in event time, the query is answered after it has joined; None for no end."""
    notes: tuple[str, ...] = field(default=(), compare=False)
    """How the text was understood where it could be read in two ways; shown by explain."""

    def __post_init__(self) -> None:
        if self.lifetime_ms is not None and self.lifetime_ms <= 0:
            raise BadWindow(
                f"a query cannot live for {self.lifetime_ms} ms; write a duration such as '2 hours'"
            )
