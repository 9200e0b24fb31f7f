"""Aggregates in plain Python: how Spark lifts rows to partials, and what every aggregate comes to.

The lift follows the primitive (its argument, its functions), so it shows what Weft asks of Spark; the
answers are computed from the rows alone and share nothing with it.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from decimal import ROUND_HALF_UP, Decimal, localcontext
from fractions import Fraction
from functools import reduce
from math import ceil, floor, isfinite, isnan, nan, prod, sqrt
from operator import and_, or_, xor
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
from weft.aggregates.holistic import TIMED_BAG_LIFT
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
    """Evaluate a primitive's argument for a row: its columns, or the value of its only one."""
    if expression is None:
        return True
    if isinstance(expression, Literal):
        return expression.value
    if isinstance(expression, Column):
        return value[expression.name] if isinstance(value, dict) else value
    assert isinstance(expression, Call)
    args = [evaluate(arg, value) for arg in expression.args]
    if expression.function == "is_null":
        return args[0] is None
    if expression.function == "case":
        # WHEN … THEN …, perhaps ELSE …
        condition, then, otherwise = (*args, None)[:3]
        return then if condition else otherwise
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
    arguments = primitive.arguments or (None,)
    evaluated = [[tuple(evaluate(own, row) for own in arguments) for row in rows] for rows in slices]
    if primitive.combine is BAG:
        return _bagged(primitive, evaluated)
    columns = []
    for lift, type in zip(primitive.lifts, primitive.types, strict=True):
        found = [_lifted(lift, rows) for rows in evaluated]
        columns.append(pa.chunked_array([pa.array(found, arrow_type(type))]))
    return from_arrow(primitive, columns)


def _lifted(lift: str, rows: Values) -> Any:
    """Return one field of a slice's partial: of one of the arguments if the lift says which."""
    name, _, place = lift.partition(".")
    if name in _LIFTS_OF_ROWS:
        return _LIFTS_OF_ROWS[name](rows, int(place or 0))
    present = [row[int(place or 0)] for row in rows if row[int(place or 0)] is not None]
    return _LIFTS[name](present) if present or name == "count" else None


def _bagged(primitive: Primitive, slices: Sequence[Values]) -> Partial:
    """Return bags of the rows of each slice, as they come from Spark: a group for each row."""
    present = [(number, row) for number, rows in enumerate(slices) for row in rows if row[0] is not None]
    codes, dictionary = encoded(pa.array([row[0] for _, row in present], arrow_type(primitive.types[0])))
    owner = np.array([number for number, _ in present], dtype=np.intp)
    others = np.array([row[1] or 0 for _, row in present if len(row) > 1], dtype=np.int64)
    timed = primitive.lifts == (TIMED_BAG_LIFT,)
    column = bags(
        owner, len(slices), codes, dictionary, order=others if timed else None,
        weights=others if len(primitive.arguments) == 2 and not timed else None,
    )  # fmt: skip
    return Partial((column,), None, primitive.types)


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


def moment(present: Values, power: int) -> Fraction:
    """Return a central moment of the population, exactly."""
    exact = list(map(Fraction, present))
    middle = sum(exact) / len(exact)
    return sum((one - middle) ** power for one in exact) / Fraction(len(exact))


def skewness(present: Values) -> float | None:
    """Return the third standardised moment; None for equal values."""
    if not all(map(isfinite, present)):
        return nan
    squares = float(moment(present, 2))
    return float(moment(present, 3)) / squares**1.5 if squares else None


def kurtosis(present: Values) -> float | None:
    """Return the fourth standardised moment less 3; None for equal values."""
    if not all(map(isfinite, present)):
        return nan
    squares = float(moment(present, 2))
    return float(moment(present, 4)) / squares**2 - 3 if squares else None


def covariance(pairs: Values) -> float:
    """Return the population's covariance of pairs, rounded once."""
    if not all(isfinite(one) for pair in pairs for one in pair):
        return nan
    exact = [(Fraction(x), Fraction(y)) for x, y in pairs]
    left, right = (sum(column) / Fraction(len(exact)) for column in zip(*exact, strict=True))
    return float(sum((x - left) * (y - right) for x, y in exact) / Fraction(len(exact)))


def by_rank(row: Values) -> tuple[Any, ...]:
    """Order rows as Spark orders structs: column by column, NULL first."""
    return tuple((False, (False, 0)) if value is None else (True, _rank(value)) for value in row)


def _pairs(rows: Values) -> Values:
    return [row[:2] for row in rows if None not in row[:2]]


def _chosen(choose: Callable[..., Any]) -> Callable[[Values, int], Any]:
    def lift(rows: Values, place: int) -> Any:
        present = [row for row in rows if row[0] is not None]
        return choose(present, key=by_rank)[place] if present else None

    return lift


def _chosen_known(choose: Callable[..., Any]) -> Callable[[Values, int], Any]:
    def lift(rows: Values, place: int) -> Any:
        present = any(row[0] is not None for row in rows)
        return _chosen(choose)(rows, place) is not None if present else None

    return lift


_LIFTS_OF_ROWS: dict[str, Callable[[Values, int], Any]] = {
    "earliest": _chosen(min),
    "latest": _chosen(max),
    "earliest_known": _chosen_known(min),
    "latest_known": _chosen_known(max),
    "covar_pop": lambda rows, _: covariance(_pairs(rows)) if _pairs(rows) else None,
}
"""Lifts that look at all arguments of a row."""
_LIFTS: dict[str, Callable[[Values], Any]] = {
    "count": len,
    "mean": mean,
    "skewness": lambda present: skewness(present) or 0.0,
    "kurtosis": lambda present: -3.0 if variance(present) == 0 else kurtosis(present),
    "bit_and": lambda present: reduce(and_, present),
    "bit_or": lambda present: reduce(or_, present),
    "bit_xor": lambda present: reduce(xor, present),
    "product": prod,
    "sum": _total,
    "min": lambda present: min(present, key=_rank),
    "max": lambda present: max(present, key=_rank),
    "avg": mean,
    "var_pop": variance,
}


def answer(
    name: str, type: DataType | tuple[DataType, ...], slices: Sequence[Values], constants: Constants = ()
) -> Any:
    """Return an aggregate over all rows the way Weft finds it: lifted by slice, combined, lowered.

    If there are several types, rows are tuples.
    """
    function = aggregate(name)
    assert function is not None
    types = type if isinstance(type, tuple) else (type,)
    result = function.result(types, constants)
    assert result is not None
    whole = np.array([0]), np.array([len(slices)])
    columns = tuple(Column(f"c{place}", own) for place, own in enumerate(types))
    if isinstance(type, tuple):
        names = [column.name for column in columns]
        slices = [[dict(zip(names, row, strict=True)) for row in rows] for rows in slices]
    primitives = function.lift(columns, constants)
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


def expected(
    name: str, type: DataType | tuple[DataType, ...], rows: Values, constants: Constants = ()
) -> Any:
    """Return an aggregate over rows, from its definition."""
    if name in _OF_ROWS:
        return _OF_ROWS[name](rows, constants)
    assert not isinstance(type, tuple)
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
    "skewness": lambda present, _: skewness(list(map(float, present))),
    "kurtosis": lambda present, _: kurtosis(list(map(float, present))),
    "bool_and": lambda present, _: all(present),
    "bool_or": lambda present, _: any(present),
    "bit_and": lambda present, _: reduce(and_, present),
    "bit_or": lambda present, _: reduce(or_, present),
    "bit_xor": lambda present, _: reduce(xor, present),
    "product": lambda present, _: prod(map(float, present)),
    "any_value": lambda present, _: min(present, key=_rank),
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
    "count_if": lambda present, type, constants: sum(present),
    "collect_set": lambda present, type, constants: [value for value, _ in _counted(present)][: constants[0]],  # type: ignore[misc]
}


# Those over rows of several columns.


def _statistic(of: Callable[[float, float, float, float, float, int], float | None]) -> Any:
    """Return what reads means, variances, covariance and number of the pairs without NULL."""

    def over(rows: Values, constants: Constants) -> float | None:
        pairs = [tuple(map(float, pair)) for pair in _pairs(rows)]
        if not pairs:
            return None
        x, y = zip(*pairs, strict=True)
        return of(mean(x), mean(y), variance(x), variance(y), covariance(pairs), len(pairs))

    return over


def _in_time(choose: Callable[..., Any]) -> Callable[[Values, Constants], Any]:
    """Return what takes the value of a row chosen by time, then all columns, then the value."""

    def over(rows: Values, constants: Constants) -> Any:
        rows = [row for row in rows if row[1] is not None and not (constants[0] and row[0] is None)]
        return choose(rows, key=lambda row: by_rank((*row[1:], row[0])))[0] if rows else None

    return over


def _by(choose: Callable[..., Any]) -> Callable[[Values, Constants], Any]:
    def over(rows: Values, constants: Constants) -> Any:
        rows = [row for row in rows if row[1] is not None]
        return choose(rows, key=lambda row: by_rank(row[::-1]))[0] if rows else None

    return over


def _collect_list(rows: Values, constants: Constants) -> list[Any]:
    present = [row for row in rows if row[0] is not None]
    ordered = sorted(present, key=lambda row: by_rank((row[1], row[0])))
    return [row[0] for row in ordered][: constants[-1]]  # type: ignore[misc]


def _string_agg(rows: Values, constants: Constants) -> str | None:
    return str(constants[0]).join(_collect_list(rows, constants)) if _collect_list(rows, constants) else None


_OF_ROWS: dict[str, Callable[[Values, Constants], Any]] = {
    "covar_pop": _statistic(lambda mx, my, vx, vy, c, n: c),
    "covar_samp": _statistic(lambda mx, my, vx, vy, c, n: c * n / (n - 1) if n > 1 else None),
    "corr": _statistic(lambda mx, my, vx, vy, c, n: c / sqrt(vx * vy) if vx * vy else None),
    # The first is y, the second x.
    "regr_slope": _statistic(lambda my, mx, vy, vx, c, n: c / vx if vx else None),
    "regr_intercept": _statistic(lambda my, mx, vy, vx, c, n: my - c / vx * mx if vx else None),
    "regr_r2": _statistic(lambda my, mx, vy, vx, c, n: (c * c / (vx * vy) if vy else 1.0) if vx else None),
    "first": _in_time(min),
    "last": _in_time(max),
    "min_by": _by(min),
    "max_by": _by(max),
    "collect_list": _collect_list,
    "string_agg": _string_agg,
}
