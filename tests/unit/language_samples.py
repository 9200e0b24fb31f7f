"""A catalog and short-hands for the tests of the query language."""

from weft.errors import QueryError
from weft.expression import Expression
from weft.query import bind, parse_select
from weft.query.logical import Catalog, ColumnDef, FunctionDef, LogicalQuery, StreamDef, TableDef, TimeUnit
from weft.types import BIGINT, BOOLEAN, DATE, DOUBLE, INT, STRING, TIMESTAMP, DataType, Kind


def columns(**types: DataType) -> tuple[ColumnDef, ...]:
    return tuple(ColumnDef(name=name, type=type) for name, type in types.items())


TRADES = StreamDef(
    name="trades",
    time="time",
    columns=columns(
        time=TIMESTAMP, symbol=STRING, price=DOUBLE, vol=BIGINT, n=INT, fee=DataType(Kind.DECIMAL, 10, 2),
        day=DATE, ok=BOOLEAN, ntz=DataType(Kind.TIMESTAMP_NTZ), ratio=DataType(Kind.FLOAT),
        raw=DataType(Kind.BINARY), tags=DataType(Kind.OTHER), tiny=DataType(Kind.TINYINT),
    ),
)  # fmt: skip
TCP = StreamDef(
    name="tcp",
    time="ts",
    time_unit=TimeUnit.SECONDS,
    columns=columns(ts=BIGINT, srcIP=STRING, destIP=STRING, len=INT),
)
CATALOG = Catalog(
    streams=(TRADES, TCP),
    tables=(
        TableDef(name="close", columns=columns(symbol=STRING, cp=DOUBLE, since=DATE)),
        TableDef(name="sector", columns=columns(symbol=STRING, title=STRING)),
    ),
    functions=(FunctionDef(name="midcap", type=BOOLEAN),),
)


def query(text: str, catalog: Catalog = CATALOG) -> LogicalQuery:
    """Bind a SELECT."""
    return bind(parse_select(text, name="q"), catalog)


def argument(expression: str) -> Expression:
    """Bind an expression over trades."""
    bound = query(
        f"SELECT count(CASE WHEN TRUE THEN NULL ELSE {expression} END) AS x FROM trades [RANGE '5 min']"
    )
    (found,) = bound.aggregates[0].arguments
    assert found is not None
    return found.args[-1]  # type: ignore[union-attr]


def predicate(condition: str) -> Expression:
    """Bind a WHERE over trades."""
    found = query(f"SELECT count(*) AS c FROM trades [RANGE '5 min'] WHERE {condition}").predicate
    assert found is not None
    return found


def failure(text: str, catalog: Catalog = CATALOG) -> QueryError:
    """Return the error that a SELECT meets."""
    try:
        query(text, catalog)
    except QueryError as error:
        return error
    raise AssertionError(f"no error: {text}")
