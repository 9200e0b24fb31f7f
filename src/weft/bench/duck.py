"""Queries in DuckDB, one by one: each an ordinary SELECT that writes its rows to a Parquet file.

A row is projected first, then repeated once for each of its windows by a small cross join (measured: half the
time of unnesting a list), then grouped. SELECT and HAVING stand around it, so that nothing is computed twice.
Grouping by slide before rows are repeated takes longer in all; choosing the better text for each query would
save 9 % (CPU time of the first 60 queries of examples/flights).
"""

from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path

from weft.bench.dataset import Dataset, TableFiles
from weft.bench.duck_expressions import duck_type, quoted, render, text
from weft.errors import UserError
from weft.expression import Column, Expression, Slot, SlotKind
from weft.query.logical import AggregateCall, Join, JoinKind, LogicalQuery
from weft.types import Kind
from weft.window import Refresh, Window

_STREAM = "stream_rows"


class Duck:
    """A DuckDB with a stream's files and the static tables in it."""

    def __init__(self, dataset: Dataset, tables: Sequence[TableFiles], *, threads: int) -> None:
        # Not at the top of this module: the other commands work without it.
        try:
            self._connection = import_module("duckdb").connect()
        except ImportError as error:
            raise UserError(
                "the comparison needs DuckDB, which is not installed: install Weft with the extra bench"
            ) from error
        self._connection.execute(f"SET threads = {threads}; SET TimeZone = 'UTC'")
        # The stream is read from its files by every query; static tables are held, as Spark holds them.
        self._connection.execute(
            f"CREATE VIEW {quoted(dataset.name)} AS SELECT * FROM {_files(dataset.folder)}"
        )
        for table in tables:
            held = f"CREATE TABLE {quoted(table.name)} AS SELECT * FROM {_files(table.folder)}"
            self._connection.execute(held)

    def write(self, sql: str, path: Path) -> None:
        """Run a query and write its rows."""
        self._connection.execute(f"COPY ({sql}) TO {text(str(path))} (FORMAT parquet)")

    def close(self) -> None:
        """Close the database."""
        self._connection.close()


def duck_sql(query: LogicalQuery, *, time: str) -> str:
    """Return a query over a stream with the given event-time column as one SELECT for DuckDB."""
    if query.emit_empty or query.lifetime_ms is not None or query.window.refresh is not Refresh.EXACT:
        raise UserError(
            f"query {query.name}: EMIT EMPTY, LIFETIME and [WINDOW …] are not translated to DuckDB"
        )
    groups = ["window_us", *(f"key{index}" for index in range(len(query.keys)))]
    calls = [f"{_aggregate(call, index)} AS agg{index}" for index, call in enumerate(query.aggregates)]
    bounds = [f"make_timestamp(window_us - {query.window.range_ms * 1000}) AS window_start"]
    bounds += ["make_timestamp(window_us) AS window_end"]
    outputs = [f"{_after(item.expression, query)} AS {quoted(item.name)}" for item in query.outputs]
    having = "" if query.having is None else f" WHERE {_after(query.having, query)}"
    return (
        f"SELECT {', '.join([*bounds, *outputs])} FROM ("
        f"SELECT {', '.join([*groups, *calls])} FROM ({_repeated(query, time)}) GROUP BY {', '.join(groups)}"
        f"){having}"
    )


def _repeated(query: LogicalQuery, time: str) -> str:
    """Return the rows that count, once for each window that holds them."""
    window = query.window
    moment, slide, width = "moment_us", window.slide_ms * 1000, window.range_ms * 1000
    # The remainder of a time before 1970 is negative in DuckDB.
    past = f"((({moment} - {window.offset_ms * 1000}) % {slide} + {slide}) % {slide})"
    first = f"{moment} - {past} + {slide}"
    rows = _projected(query, time)
    copies = -(-window.range_ms // window.slide_ms)
    if copies == 1:
        inside = "" if _whole(window) else f" WHERE {first} - {width} <= {moment}"
        return f"SELECT *, {first} AS window_us FROM ({rows}){inside}"
    steps = f"(SELECT unnest(range({copies})) * {slide} AS step_us)"
    inside = "" if _whole(window) else f" WHERE first_us + step_us - {width} <= {moment}"
    placed = f"(SELECT *, {first} AS first_us FROM ({rows}))"
    return f"SELECT *, first_us + step_us AS window_us FROM {placed}, {steps}{inside}"


def _whole(window: Window) -> bool:
    """Say whether every row lies in as many windows as every other."""
    return window.range_ms % window.slide_ms == 0


def _projected(query: LogicalQuery, time: str) -> str:
    aliases = {join.alias for join in query.joins}

    def row(expression: Expression) -> str:
        return render(expression, lambda column: _column(column, aliases))

    fields = [f"epoch_us({_STREAM}.{quoted(time)}) AS moment_us"]
    fields += [f"{row(key.expression)} AS key{index}" for index, key in enumerate(query.keys)]
    for index, call in enumerate(query.aggregates):
        fields += [f"{row(value)} AS value{index}_{place}" for place, value in enumerate(call.arguments)]
        fields += [] if call.filter is None else [f"{row(call.filter)} AS filter{index}"]
    joins = "".join(_join(join, row) for join in query.joins)
    where = "" if query.predicate is None else f" WHERE {row(query.predicate)}"
    return f"SELECT {', '.join(fields)} FROM {quoted(query.stream)} AS {_STREAM}{joins}{where}"


def _column(column: Column | Slot, aliases: set[str]) -> str:
    assert isinstance(column, Column)
    alias, dot, name = column.name.partition(".")
    if dot and alias in aliases:
        return f"{quoted(alias)}.{quoted(name)}"
    return f"{_STREAM}.{quoted(column.name)}"


def _join(join: Join, row: Callable[[Expression], str]) -> str:
    kind = "JOIN" if join.kind is JoinKind.INNER else "LEFT JOIN"
    pairs = " AND ".join(f"{row(left)} = {row(right)}" for left, right in join.on)
    return f" {kind} {quoted(join.table)} AS {quoted(join.alias)} ON {pairs}"


def _aggregate(call: AggregateCall, index: int) -> str:
    values = [f"value{index}_{place}" for place in range(len(call.arguments))]
    only = "" if call.filter is None else f" FILTER (WHERE filter{index})"
    aggregate = f"{_call(call, values)}{only}"
    # DuckDB adds integers up in 128 bits.
    return f"CAST({aggregate} AS {duck_type(call.type)})" if call.type.kind is Kind.BIGINT else aggregate


def _after(expression: Expression, query: LogicalQuery) -> str:
    """Return SELECT or HAVING over the groups."""

    def name(slot: Column | Slot) -> str:
        assert isinstance(slot, Slot)
        if slot.kind is SlotKind.WINDOW_START:
            return f"make_timestamptz(window_us - {query.window.range_ms * 1000})"
        if slot.kind is SlotKind.WINDOW_END:
            return "make_timestamptz(window_us)"
        return f"key{slot.index}" if slot.kind is SlotKind.KEY else f"agg{slot.index}"

    return render(expression, name)


def _files(folder: Path) -> str:
    return f"read_parquet({text(str(folder.resolve() / '*.parquet'))})"


def _call(call: AggregateCall, values: list[str]) -> str:
    """Return an aggregate in DuckDB's words."""
    value, constants = ", ".join(values) or "*", list(map(str, call.constants))
    match call.function:
        case "count_distinct" | "sum_distinct" | "avg_distinct":
            return f"{call.function.partition('_')[0]}(DISTINCT {value})"
        case "percentile":
            return f"quantile_cont(CAST({value} AS DOUBLE), {constants[0]})"
        case "median":
            return f"quantile_cont(CAST({value} AS DOUBLE), 0.5)"
    return f"{call.function}({', '.join([value, *constants])})"
