"""Aggregates in plain Python: how Spark lifts rows to partials, and what every aggregate comes to.

The lift follows the primitive (its argument, its functions), so it shows what Weft asks of Spark; the
answers are computed from the rows alone and share nothing with it.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from decimal import ROUND_HALF_UP, Decimal, localcontext
from fractions import Fraction
from math import ceil, floor, isfinite, isnan, nan, sqrt
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from weft.aggregates import (
    BAG,
    Constants,
    Partial,
    Primitive,
    aggregate,
    arrow_type,
    bags,
    combine,
    from_arrow,
)
from weft.aggregates.bags import encoded
from weft.expression import Call, Column, Expression, Literal
from weft.types import BIGINT, BOOLEAN, DATE, DOUBLE, INT, STRING, TIMESTAMP, DataType, Kind

Values = Sequence[Any]
FLOAT, BINARY, TINYINT = DataType(Kind.FLOAT), DataType(Kind.BINARY), DataType(Kind.TINYINT)


def decimal_type(precision: int, scale: int) -> DataType:
    return DataType(Kind.DECIMAL, precision, scale)


DECIMALS = tuple(
    decimal_type(*shape) for shape in ((10, 2), (28, 28), (29, 25), (38, 0), (38, 10), (38, 20), (38, 38))
)
NUMBERS = (TINYINT, INT, BIGINT, DOUBLE, FLOAT, *DECIMALS)
TYPES = (*NUMBERS, STRING, BINARY, BOOLEAN, DATE, TIMESTAMP)


def _decimals(type: DataType) -> st.SearchStrategy[Decimal]:
    bound = 10**type.precision - 1
    units = st.integers(-bound, bound) | st.sampled_from((bound, -bound, 0, 5, -5))
    return units.map(lambda unit: Decimal((int(unit < 0), tuple(map(int, str(abs(unit)))), -type.scale)))


_EXTREMES = (-(2**63), 2**63 - 1, 2**63 - 2, -(2**63) + 1, 2**32, -(2**32), 0)
_STRATEGIES: dict[DataType, st.SearchStrategy[Any]] = {
    TINYINT: st.integers(-128, 127),
    INT: st.integers(-(2**31), 2**31 - 1),
    BIGINT: st.integers(-(2**63), 2**63 - 1) | st.sampled_from(_EXTREMES),
    # No sum of a few of these overflows, so that the order of additions does not matter much.
    DOUBLE: st.floats(-1e300, 1e300) | st.sampled_from((nan, float("inf"), -float("inf"), -0.0, 0.0)),
    FLOAT: st.floats(width=32),
    STRING: st.text(max_size=4),
    BINARY: st.binary(max_size=4),
    BOOLEAN: st.booleans(),
    DATE: st.dates(date(1, 1, 1), date(9999, 12, 31)),
    TIMESTAMP: st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31), timezones=st.just(UTC)),
} | {type: _decimals(type) for type in DECIMALS}


def values(type: DataType) -> st.SearchStrategy[Any]:
    """Draw values of a type, NULL among them."""
    return st.none() | _STRATEGIES[type]


# How Spark lifts.


def evaluate(expression: Expression | None, value: Any) -> Any:
    """Evaluate a primitive's argument for a row whose only column has a value."""
    if expression is None:
        return True
    if isinstance(expression, Literal):
        return expression.value
    if isinstance(expression, Column):
        return value
    assert isinstance(expression, Call)
    args = [evaluate(arg, value) for arg in expression.args]
    return None if None in args else _FUNCTIONS[expression.function](*args, expression.type)


def _truncated(dividend: Decimal, divisor: Decimal) -> int:
    quotient = Fraction(dividend) / Fraction(divisor)
    return int(quotient)


def _rest(dividend: Decimal, divisor: Decimal, type: DataType) -> Decimal:
    rest = Fraction(dividend) - _truncated(dividend, divisor) * Fraction(divisor)
    return as_decimal(rest, type.scale)


def _cast(value: Any, type: DataType) -> Any:
    return float(value) if type.is_fractional else int(value) if type.is_integer else value


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "shiftright": lambda value, places, _: value >> places,
    "&": lambda left, right, _: left & right,
    "div": lambda left, right, _: _truncated(left, right),
    "%": _rest,
    "cast": _cast,
}


def lifted(primitive: Primitive, slices: Sequence[Values]) -> Partial:
    """Return a primitive's partials, one for each slice of rows, as they come from Spark."""
    argument = primitive.arguments[0] if primitive.arguments else None
    if primitive.combine is BAG:
        return _bagged(argument, primitive.types, slices)
    columns = []
    for lift, type in zip(primitive.lifts, primitive.types, strict=True):
        found = []
        for rows in slices:
            present = [one for one in (evaluate(argument, row) for row in rows) if one is not None]
            found.append(_LIFTS[lift](present) if present or lift == "count" else None)
        columns.append(pa.chunked_array([pa.array(found, arrow_type(type))]))
    return from_arrow(primitive, columns)


def _bagged(argument: Expression | None, types: tuple[DataType, ...], slices: Sequence[Values]) -> Partial:
    """Return bags of the rows of each slice, as they come from Spark: a group for each row."""
    present = [
        (number, value)
        for number, rows in enumerate(slices)
        for value in (evaluate(argument, row) for row in rows)
        if value is not None
    ]
    codes, dictionary = encoded(pa.array([value for _, value in present], arrow_type(types[0])))
    owner = np.array([number for number, _ in present], dtype=np.intp)
    return Partial((bags(owner, len(slices), codes, dictionary),), None, types)


def _total(present: Values) -> Any:
    if isinstance(present[0], float):
        return sum(present)
    with localcontext(prec=100):
        return sum(present[1:], present[0])


def mean(present: Values) -> float:
    """Return the mean, rounded once."""
    if not all(map(isfinite, present)):
        return float(sum(map(float, present)))
    return float(sum(map(Fraction, present)) / len(present))


def variance(present: Values) -> float:
    """Return the population's variance, rounded once."""
    if not all(map(isfinite, present)):
        return nan
    exact = list(map(Fraction, present))
    middle = sum(exact) / len(exact)
    return float(sum((one - middle) ** 2 for one in exact) / len(exact))


def one_element(value: Any) -> Any:
    """Return what is equal for values that are one: there is one zero and one NaN."""
    if isinstance(value, float):
        return "NaN" if isnan(value) else value + 0.0
    return value


def _rank(value: Any) -> tuple[bool, Any]:
    """Order values as Spark does: NaN is the greatest."""
    return (True, 0) if isinstance(value, float) and isnan(value) else (False, value)


_LIFTS: dict[str, Callable[[Values], Any]] = {
    "count": len,
    "sum": _total,
    "min": lambda present: min(present, key=_rank),
    "max": lambda present: max(present, key=_rank),
    "avg": mean,
    "var_pop": variance,
}


def answer(name: str, type: DataType, slices: Sequence[Values], constants: Constants = ()) -> Any:
    """Return an aggregate over all rows the way Weft finds it: lifted by slice, combined, lowered."""
    function = aggregate(name)
    assert function is not None
    result = function.result((type,), constants)
    assert result is not None
    whole = np.array([0]), np.array([len(slices)])
    primitives = function.lift((Column("x", type),), constants)
    partials = [combine(one, lifted(one, slices), *whole) for one in primitives]
    lowered = function.lower(partials, result, constants)
    assert lowered.type == arrow_type(result)
    return lowered.to_pylist()[0]


# What aggregates come to.


def as_decimal(exact: Fraction, scale: int) -> Decimal:
    """Round to a scale, halves away from zero."""
    with localcontext(prec=200, rounding=ROUND_HALF_UP):
        quotient = Decimal(exact.numerator) / Decimal(exact.denominator)
        return quotient.quantize(Decimal(1).scaleb(-scale))


def expected(name: str, type: DataType, rows: Values, constants: Constants = ()) -> Any:
    """Return an aggregate over rows, from its definition."""
    present = [row for row in rows if row is not None]
    if name == "count":
        return len(present)
    if name in _OF_ALL:
        return _OF_ALL[name](present, type, constants)
    return _ANSWERS[name](present, type) if present else None


def _sum(present: Values, type: DataType) -> Any:
    if type.is_fractional:
        return sum(map(float, present))
    total = sum(map(Fraction, present), Fraction(0))
    if type.is_integer:
        return int(total) if -(2**63) <= total < 2**63 else None
    precision = min(type.precision + 10, 38)
    return as_decimal(total, type.scale) if abs(total) * 10**type.scale < 10**precision else None


def _avg(present: Values, type: DataType) -> Any:
    if type.is_fractional:
        return sum(map(float, present)) / len(present)
    exact = sum(map(Fraction, present), Fraction(0)) / len(present)
    if type.is_integer:
        return float(exact)
    if _sum(present, type) is None:
        # Spark divides a sum of 38 digits at most.
        return None
    precision, scale = min(type.precision + 4, 38), min(type.scale + 4, 38)
    rounded = as_decimal(exact, scale)
    return rounded if abs(Fraction(rounded)) * 10**scale < 10**precision else None


def _sample(present: Values) -> float | None:
    return None if len(present) == 1 else variance(present) * len(present) / (len(present) - 1)


def _root(value: float | None) -> float | None:
    return None if value is None else sqrt(value)


_ANSWERS: dict[str, Callable[[Values, DataType], Any]] = {
    "sum": _sum,
    "avg": _avg,
    "min": lambda present, _: min(present, key=_rank),
    "max": lambda present, _: max(present, key=_rank),
    "var_pop": lambda present, _: variance(present),
    "var_samp": lambda present, _: _sample(present),
    "stddev_pop": lambda present, _: _root(variance(present)),
    "stddev_samp": lambda present, _: _root(_sample(present)),
}


# Those that need all values.


def _counted(present: Values) -> list[tuple[Any, int]]:
    """Return each value once, in order, and how often it occurs."""
    counts = Counter(map(one_element, present))
    once = {one_element(value): value for value in present}
    return [(value, counts[one_element(value)]) for value in sorted(once.values(), key=_rank)]


def _over_distinct(name: str) -> Callable[[Values, DataType, Constants], Any]:
    def over(present: Values, type: DataType, constants: Constants) -> Any:
        distinct = [value for value, _ in _counted(present)]
        return _ANSWERS[name](distinct, type) if distinct else None

    return over


def _at_share(ordered: Sequence[float], share: float) -> float:
    position = (len(ordered) - 1) * share
    low, high = ordered[floor(position)], ordered[ceil(position)]
    part = position - floor(position)
    if not part or one_element(low) == one_element(high):
        return low
    return (1 - part) * low + part * high


def _percentile(present: Values, type: DataType, constants: Constants) -> Any:
    share, *descending = constants or (0.5,)
    if not present:
        return None
    ordered = sorted(map(float, present), key=_rank, reverse=descending == [True])
    if isinstance(share, tuple):
        return [_at_share(ordered, float(one)) for one in share]
    return _at_share(ordered, float(share))


def _percentile_disc(present: Values, type: DataType, constants: Constants) -> Any:
    share, descending = constants
    assert isinstance(share, int | float)
    ordered = sorted(map(float, present), key=_rank, reverse=descending is True)
    return next((one for place, one in enumerate(ordered) if place + 1 >= share * len(ordered)), None)


def _mode(present: Values, type: DataType, constants: Constants) -> Any:
    counted = _counted(present)
    return next((value for value, n in counted if n == max(n for _, n in counted)), None)


def _top_k(present: Values, type: DataType, constants: Constants) -> Any:
    heaviest = sorted(_counted(present), key=lambda one: -one[1])
    return [{"value": value, "count": count} for value, count in heaviest[: int(constants[0])]]  # type: ignore[arg-type]


def _histogram(present: Values, type: DataType, constants: Constants) -> Any:
    (width,) = constants
    assert isinstance(width, int | float)
    starts = [
        one / width if not isfinite(one / width) else floor(one / width) * float(width)
        for one in map(float, present)
    ]
    return [{"start": start, "count": count} for start, count in _counted(starts)]


_OF_ALL: dict[str, Callable[[Values, DataType, Constants], Any]] = {
    "count_distinct": lambda present, type, constants: len(_counted(present)),
    "sum_distinct": _over_distinct("sum"),
    "avg_distinct": _over_distinct("avg"),
    "percentile": _percentile,
    "percentile_cont": _percentile,
    "percentile_disc": _percentile_disc,
    "median": _percentile,
    "mode": _mode,
    "top_k": _top_k,
    "histogram": _histogram,
}
