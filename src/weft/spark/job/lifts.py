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
    if function in _OF_EQUAL:
        return _with_equal(function, own[0])
    lifted: Column = getattr(F, function)(*own, *map(F.lit, parameters))
    return lifted


def _with_equal(function: str, column: Column) -> Column:
    """Return an aggregate that is exact, and not NULL, where all values are equal."""
    other, of_equal = _OF_EQUAL[function]
    return F.when(F.var_pop(column) == 0, of_equal(column)).otherwise(other(column))


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
_OF_EQUAL: Mapping[str, tuple[Callable[[Column], Column], Callable[[Column], Column]]] = {
    # A sum of equal values is rounded, and so is Spark's mean of them.
    "mean": (F.avg, F.min),
    # Spark has no skewness and no kurtosis of equal values; around their mean, no moment is left.
    "skewness": (F.skewness, lambda column: F.lit(0.0)),
    "kurtosis": (F.kurtosis, lambda column: F.lit(-3.0)),
}
"""Lifts of one argument, and what they are where all values are equal."""
