"""Types of arrays and structs, and tables with random values of them."""

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from weft import types
from weft.aggregates import arrow_type
from weft.types import BIGINT, BOOLEAN, DOUBLE, STRING, DataType, Kind, array_of, struct_of

OF_NESTED_VALUES = frozenset({"subscript", "field", "get", "element_at", "size"})
"""The functions of arrays and structs."""
COUNTS = array_of(struct_of(("value", STRING), ("count", BIGINT)))
MONEY, BINARY = DataType(Kind.DECIMAL, 12, 2), DataType(Kind.BINARY)
MOMENT = pa.timestamp("us", "UTC")
AWKWARD = ["", "a", "NULL", "null", '"', "'", "\\", "\\\"'", "{a,b}", "line\nbreak\t", "ü漢😀", "[bold]x[/]"]
_SCALARS: dict[DataType, st.SearchStrategy[Any]] = {
    BOOLEAN: st.booleans(),
    BIGINT: st.integers(-(2**63), 2**63 - 1),
    DOUBLE: st.floats(),
    MONEY: st.integers(-(10**12) + 1, 10**12 - 1).map(lambda units: Decimal(units).scaleb(-2)),
    STRING: st.sampled_from(AWKWARD)
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")),
    BINARY: st.binary(max_size=4),
    types.DATE: st.dates(date(1, 1, 1), date(9999, 12, 31)),
    types.TIMESTAMP: st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=st.just(UTC)),
}
scalars = st.sampled_from(list(_SCALARS))
nested_types = st.recursive(
    scalars,
    lambda part: (
        part.map(array_of)
        | st.lists(
            st.tuples(st.sampled_from(["value", "from", 'a "b"', "ü"]), part),
            min_size=1,
            max_size=3,
            unique_by=lambda pair: pair[0],
        ).map(lambda fields: struct_of(*fields))
    ),
    max_leaves=4,
).filter(lambda type: type.is_nested)


def values(type: DataType) -> st.SearchStrategy[Any]:
    """Return values of a type, of which some are NULL."""
    if type.kind is Kind.ARRAY:
        some: st.SearchStrategy[Any] = st.lists(values(type.element), max_size=3)
    elif type.kind is Kind.STRUCT:
        some = st.fixed_dictionaries({name: values(of) for name, of in type.fields})
    else:
        some = _SCALARS[type]
    return st.none() | some


@st.composite
def columns(draw: st.DrawFn, of: st.SearchStrategy[DataType] = nested_types) -> tuple[DataType, list[Any]]:
    """Return a type, and a column of its values."""
    type = draw(of)
    return type, draw(st.lists(values(type), min_size=1, max_size=5))


def as_array(type: DataType, column: list[Any]) -> pa.Array:
    """Return a column as an Arrow array, in part of a longer one."""
    return pa.array([None, *column, None], arrow_type(type)).slice(1, len(column))


def result(type: DataType, column: list[Any]) -> pa.Table:
    """Return results with a row a second, by number."""
    ends = pa.array([second * 1_000_000 for second in range(len(column))], MOMENT)
    names = ["window_start", "window_end", "n", "x"]
    return pa.table([ends, ends, pa.array(range(len(column))), as_array(type, column)], names)


def same(one: Any, other: Any) -> bool:
    """Say whether two values are equal, NaN being equal to NaN."""
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[name], other[name]) for name in one)
    if isinstance(one, float) and isinstance(other, float) and math.isnan(one):
        return math.isnan(other)
    return type(one) is type(other) and bool(one == other)
