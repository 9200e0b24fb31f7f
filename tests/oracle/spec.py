"""One query: windows, a predicate, keys, aggregates and HAVING."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from tests.oracle.aggregates import Aggregate
from tests.oracle.expressions import Dialect, Expression, walk
from tests.oracle.tables import Join
from tests.oracle.types import BIGINT, Row, SqlType, Value


class WindowSyntax(StrEnum):
    """How Weft's text names the window."""

    BRACKET = "FROM s [RANGE … SLIDE … OFFSET …]"
    FUNCTION = "GROUP BY window(time, …)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """`expression AS name` in SELECT and GROUP BY."""

    name: str
    expression: Expression

    @property
    def type(self) -> SqlType:
        return self.expression.type

    def text(self, dialect: Dialect) -> str:
        return self.expression.text(dialect)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupingId:
    """Which keys a row of a grouping set is without, as bits."""

    name: str = "gid"
    type: SqlType = BIGINT

    def text(self, dialect: Dialect) -> str:
        return "grouping_id()"


@dataclass(frozen=True, slots=True)
class Result(Expression):
    """A key or an aggregate as HAVING refers to it."""

    of: Key | Aggregate

    @property
    def type(self) -> SqlType:
        return self.of.type

    def evaluate(self, row: Row) -> Value:
        return row[self.of.name]

    def text(self, dialect: Dialect) -> str:
        return self.of.text(dialect)


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """An item of ORDER BY."""

    of: Expression
    """Over `Result`s."""
    descending: bool = False
    nulls_first: bool | None = None
    """None for Spark's default: first when ascending."""

    def text(self, dialect: Dialect) -> str:
        nulls = "" if self.nulls_first is None else " NULLS FIRST" if self.nulls_first else " NULLS LAST"
        return self.of.text(dialect) + (" DESC" if self.descending else "") + nulls

    @property
    def puts_nulls_first(self) -> bool:
        return not self.descending if self.nulls_first is None else self.nulls_first


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """A windowed aggregate query over the stream."""

    name: str
    range_ms: int
    slide_ms: int
    offset_ms: int = 0
    """Where window *ends* lie within a slide, counted from the epoch."""
    step_ms: int | None = None
    """Of cumulative windows: they start together, and end step by step; the range is that of the longest."""
    predicate: Expression | None = None
    keys: tuple[Key, ...] = ()
    sets: tuple[tuple[int, ...], ...] = ()
    """The keys of each grouping set; empty for one, of all keys."""
    aggregates: tuple[Aggregate, ...] = ()
    having: Expression | None = None
    """Over `Result`s; an aggregate that is only here is computed but not part of the answer."""
    order: tuple[Order, ...] = ()
    """Ties are settled by the keys."""
    limit_by: tuple[int, tuple[Result, ...]] | None = None
    """How many rows of each window for each combination of some values."""
    limit: int | None = None
    """How many rows of each window."""
    emit_empty: bool = False
    joins: tuple[Join, ...] = ()
    from_batch: int = 0
    """The batch before which it is added; its windows begin after all rows of the batches before that."""
    until_batch: int | None = None
    """The batch before which it is removed; None for one that stays."""
    first_start_us: int | None = None
    """Where the first window of a query that came late may begin; None for one present from the start."""

    def __post_init__(self) -> None:
        if self.range_ms <= 0 or self.slide_ms <= 0 or not 0 <= self.offset_ms < self.slide_ms:
            raise ValueError(f"no such window: {self.range_ms}, {self.slide_ms}, {self.offset_ms}")
        if self.emit_empty and self.keys:
            raise ValueError("EMIT EMPTY has no GROUP BY")
        names = [item.name for item in self.outputs]
        if len(set(names)) < len(names):
            raise ValueError(f"names repeat: {names}")

    def lives_in(self, batch: int) -> bool:
        """Tell whether the query answers after a batch; the flush counts as the batch after the last."""
        return self.from_batch <= batch and (self.until_batch is None or batch < self.until_batch)

    @property
    def outputs(self) -> tuple[Key | Aggregate | GroupingId, ...]:
        """What SELECT lists."""
        return (*self.keys, *([GroupingId()] if self.sets else []), *self.aggregates)

    @property
    def identity(self) -> tuple[str, ...]:
        """Names of the columns that no two rows have in common."""
        keys = [key.name for key in self.keys]
        return ("window_start", "window_end", *keys, *(["gid"] if self.sets else []))

    @property
    def all_sets(self) -> tuple[tuple[int, ...], ...]:
        """The keys of each grouping set."""
        return self.sets or (tuple(range(len(self.keys))),)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the answer's columns."""
        return ("window_start", "window_end", *(item.name for item in self.outputs))

    def computed(self) -> Iterator[Aggregate]:
        """Yield every aggregate once: those of SELECT, then those that only later clauses name."""
        yield from self.aggregates
        trees = [order.of for order in self.order] + ([] if self.having is None else [self.having])
        nodes = [node for tree in trees for node in walk(tree)] + list(
            self.limit_by[1] if self.limit_by else ()
        )
        named = [node.of for node in nodes if isinstance(node, Result) and isinstance(node.of, Aggregate)]
        yield from (call for call in dict.fromkeys(named) if call not in self.aggregates)

    def sql(self, stream: str, time: str, syntax: WindowSyntax = WindowSyntax.BRACKET) -> str:
        """Write the query in Weft's language."""
        from tests.oracle.render import weft_text

        return weft_text(self, stream, time, syntax)

    def spark_sql(self, view: str, time: str) -> str:
        """Write the query as an ordinary Spark batch query over a view of the good rows."""
        from tests.oracle.render import spark_text

        return spark_text(self, view, time)
