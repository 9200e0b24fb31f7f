"""Queries in DuckDB, one by one: each an ordinary SELECT that writes its rows to a Parquet file.

A row is projected first, then repeated once for each of its windows by a small cross join (measured: half the
time of unnesting a list), then grouped. SELECT and HAVING stand around it, so that nothing is computed twice.
Grouping by slide before rows are repeated takes longer in all; choosing the better text for each query would
save 9 % (CPU time of the first 60 queries of examples/flights).

Expressions have Spark's results. Decimals are doubles here: DuckDB divides decimals as doubles anyway, and
comparing rows allows for that. What overflows is an error in DuckDB where Weft has NULL, so that it cannot
pass unnoticed.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any

from weft.bench.dataset import Dataset, TableFiles
from weft.errors import NotInstalled, UserError
from weft.expression import Call, Column, Expression, Literal, Slot, SlotKind
from weft.query.logical import AggregateCall, Join, JoinKind, LogicalQuery
from weft.types import DataType, Kind
from weft.window import Refresh, Window

_DIGITS = 12
"""From this many digits after the point on, decimals are as good as doubles to 1e-9."""
Render = Callable[[Call, list[str]], str]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TYPES = MappingProxyType(
    {
        Kind.BOOLEAN: "BOOLEAN",
        Kind.TINYINT: "TINYINT",
        Kind.SMALLINT: "SMALLINT",
        Kind.INT: "INTEGER",
        Kind.BIGINT: "BIGINT",
        Kind.FLOAT: "FLOAT",
        Kind.DOUBLE: "DOUBLE",
        Kind.DECIMAL: "DOUBLE",
        Kind.STRING: "VARCHAR",
        Kind.DATE: "DATE",
        Kind.TIMESTAMP: "TIMESTAMPTZ",
    }
)


def render(expression: Expression, name: Callable[[Column | Slot], str]) -> str:
    """Return an expression as SQL; `name` says what columns and slots are called."""
    if isinstance(expression, Literal):
        return _literal(expression)
    if not isinstance(expression, Call):
        if expression.type.kind is Kind.DECIMAL and isinstance(expression, Column):
            raise UserError(f"column {expression.name}: decimals are not translated to DuckDB")
        return name(expression)
    builder = _RENDER.get(expression.function)
    if builder is None:
        raise UserError(f"function {expression.function} is not translated to DuckDB")
    args = [render(argument, name) for argument in expression.args]
    if callable(builder):
        return builder(expression, args)
    return builder.format(
        *args, all=", ".join(args), rest=", ".join(args[1:]), type=duck_type(expression.type)
    )


def duck_type(type: DataType) -> str:
    """Return DuckDB's name of a type."""
    if type.kind not in _TYPES:
        raise UserError(f"type {type} is not translated to DuckDB")
    return _TYPES[type.kind]


def quoted(name: str) -> str:
    """Return a name as an identifier."""
    return '"' + name.replace('"', '""') + '"'


def text(value: str) -> str:
    """Return a string constant."""
    return "'" + value.replace("'", "''") + "'"


def _literal(constant: Literal) -> str:
    value = constant.value
    if value is None or isinstance(value, bool):
        return "NULL" if value is None else str(value).upper()
    if isinstance(value, datetime):
        moment = value if value.tzinfo else value.replace(tzinfo=UTC)
        return f"make_timestamptz({(moment - _EPOCH) // timedelta(microseconds=1)})"
    if isinstance(value, date):
        return f"DATE '{value.isoformat()}'"
    if isinstance(value, str):
        return text(value)
    if isinstance(value, float | Decimal):
        return f"CAST({float(value)!r} AS DOUBLE)"
    return f"CAST({value!r} AS {duck_type(constant.type)})"


def _joined(symbol: str) -> Render:
    return lambda call, args: "(" + f" {symbol} ".join(args) + ")"


def _divide(call: Call, args: list[str]) -> str:
    quotient = f"(CAST({args[0]} AS DOUBLE) / nullif(CAST({args[1]} AS DOUBLE), 0))"
    coarse = call.type.kind is Kind.DECIMAL and call.type.scale < _DIGITS
    return _rounded(quotient, call.type.scale) if coarse else quotient


def _case(call: Call, args: list[str]) -> str:
    pairs = zip(args[0:-1:2], args[1::2], strict=True)
    branches = " ".join(f"WHEN {condition} THEN {value}" for condition, value in pairs)
    return f"CAST(CASE {branches} ELSE {args[-1]} END AS {duck_type(call.type)})"


def _round(call: Call, args: list[str]) -> str:
    scale = call.args[1] if len(call.args) > 1 else None
    digits = int(str(scale.value)) if isinstance(scale, Literal) else 0
    if call.type.is_integer:
        return f"CAST(round({args[0]}, {digits}) AS {duck_type(call.type)})"
    return _rounded(args[0], digits)


def _rounded(value: str, digits: int) -> str:
    """Round half up by the digits that a double is printed with, as Spark does.

    DuckDB multiplies first, so that 0.285 becomes 28.499999999999996. Only what is near a half is printed.
    """
    power = f"1e{digits}"
    near_half = f"abs(abs({value} * {power}) % 1 - 0.5) < 1e-6"
    printed = f"CAST(CAST(CAST({value} AS VARCHAR) AS DECIMAL(38, {max(digits, 0)})) AS DOUBLE)"
    return f"(CASE WHEN {near_half} THEN {printed} ELSE round({value}, {digits}) END)"


_SAME = (
    "abs sqrt exp ln log10 pow isnan upper lower length trim ltrim rtrim substring replace left right "
    "contains concat concat_ws split_part translate repeat md5 last_day "
    "cbrt sin cos tan atan atan2 degrees radians"
)
"""Functions that have the same name and type in DuckDB."""
_CAST = (
    "coalesce greatest least floor ceil sign year month day hour minute second date_trunc quarter "
    "dayofyear weekofyear ascii"
)
"""Functions that have the same name there, and another type."""
_RENDER: Mapping[str, str | Render] = MappingProxyType(
    {
        **{name: f"({{0}} {name} {{1}})" for name in "+ - * = <> < <= > >=".split()},
        **{name: f"{name}({{all}})" for name in _SAME.split()},
        **{name: f"CAST({name}({{all}}) AS {{type}})" for name in _CAST.split()},
        "<=>": "({0} IS NOT DISTINCT FROM {1})",
        "/": _divide,
        "%": "({0} % nullif({1}, 0))",
        "div": "CAST({0} // nullif({1}, 0) AS BIGINT)",
        "neg": "(-{0})",
        "and": _joined("AND"),
        "or": _joined("OR"),
        "not": "(NOT {0})",
        "is_null": "({0} IS NULL)",
        "in": "({0} IN ({rest}))",
        "like": r"({0} LIKE {1} ESCAPE '\')",
        "ilike": r"({0} ILIKE {1} ESCAPE '\')",
        "rlike": "regexp_matches({all})",
        "case": _case,
        "cast": "TRY_CAST({0} AS {type})",
        "round": _round,
        "regexp_extract": lambda call, args: (
            f"regexp_extract({args[0]}, {args[1]}, {args[2] if args[2:] else 1})"
        ),
        "instr": "CAST(instr({all}) AS INTEGER)",
        "datediff": "CAST(CAST({0} AS DATE) - CAST({1} AS DATE) AS INTEGER)",
        "date_add": "(CAST({0} AS DATE) + CAST({1} AS INTEGER))",
        "date_sub": "(CAST({0} AS DATE) - CAST({1} AS INTEGER))",
        "startswith": "starts_with({all})",
        "endswith": "ends_with({all})",
        "dayofweek": "CAST(dayofweek({0}) + 1 AS INTEGER)",
        "to_date": "TRY_CAST({0} AS DATE)",
        "unix_seconds": "CAST(floor(epoch_us({0}) / 1e6) AS BIGINT)",
        "unix_millis": "CAST(floor(epoch_us({0}) / 1e3) AS BIGINT)",
        "unix_micros": "epoch_us({0})",
    }
)
"""Each function of the language that is translated, by its canonical name: a pattern, or what writes it."""


_STREAM = "stream_rows"


def duckdb() -> Any:
    """Return DuckDB's module; raise NotInstalled without it."""
    # Not at the top of this module: the other commands work without it.
    try:
        return import_module("duckdb")
    except ImportError as error:
        raise NotInstalled("duckdb", "the comparison with DuckDB") from error


class Duck:
    """A DuckDB with a stream's files and the static tables in it."""

    def __init__(self, dataset: Dataset, tables: Sequence[TableFiles], *, threads: int) -> None:
        self._connection = duckdb().connect()
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
    if (
        query.emit_empty or query.lifetime_ms is not None or query.window.refresh is not Refresh.EXACT
        or query.sets or query.limits or query.window.step_ms is not None
    ):  # fmt: skip
        raise UserError(
            f"query {query.name}: EMIT EMPTY, LIFETIME, [WINDOW …], CUMULATE, grouping sets and LIMIT "
            "are not translated to DuckDB"
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
