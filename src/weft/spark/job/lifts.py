"""Lifts: from rows to the fields of primitives, by Spark's own aggregate functions.

A lift is named by Spark's function, such as `avg`; with `.1` it reads the second argument alone.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from pyspark.sql import Column
from pyspark.sql import functions as F

from weft.aggregates.partial import Parameter

Columns = Sequence[Column]


def spark_lift(name: str, columns: Columns, parameters: Sequence[Parameter]) -> Column:
    """Return the aggregate that computes one field of a primitive from its arguments."""
    function, _, place = name.partition(".")
    if function in _OF_ALL:
        return _OF_ALL[function](columns, int(place))
    own = [columns[int(place)]] if place else columns
    lifted: Column = getattr(F, function)(*own, *map(F.lit, parameters))
    return lifted


def _row(choose: Callable[[Column], Column], columns: Columns) -> Column:
    """Return all columns of the row that is the least or the greatest by them, as a struct."""
    row = F.struct(*(column.alias(f"c{place}") for place, column in enumerate(columns)))
    return choose(F.when(columns[0].isNotNull(), row))


def _value(choose: Callable[[Column], Column], columns: Columns, place: int) -> Column:
    return _row(choose, columns).getField(f"c{place}")


def _known(choose: Callable[[Column], Column], columns: Columns, place: int) -> Column:
    return _value(choose, columns, place).isNotNull()


_OF_ALL: Mapping[str, Callable[[Columns, int], Column]] = {
    "earliest": partial(_value, F.min),
    "earliest_known": partial(_known, F.min),
    "latest": partial(_value, F.max),
    "latest_known": partial(_known, F.max),
}
"""Lifts that look at all arguments to return one of them."""
