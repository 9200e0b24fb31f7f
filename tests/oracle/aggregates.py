"""Aggregates over the plain list of a group's values, in exact arithmetic.

Beside its value an answer reports what a comparison needs to know about rounding: the scale against which
a double may be off by 1e-9, and whether a running total could have overflowed where the exact one fits.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cmp_to_key, reduce
from typing import Any

from tests.oracle.conditions import order, truth
from tests.oracle.expressions import Dialect, Expression
from tests.oracle.types import (
    BIGINT,
    DOUBLE,
    Kind,
    Row,
    SqlType,
    Value,
    as_decimal,
    capped_decimal,
    fit_decimal,
    fit_integer,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One aggregate's value for one group."""

    value: Value
    scale: float = 0.0
    """For doubles: the magnitude of what was added up, which rounding errors are relative to."""
    order_sensitive: bool = False
    """Whether the total fits its type while the sum of magnitudes does not, so that an engine which
    checks running totals may say NULL."""


NOTHING = Answer(value=None)
OF_PAIRS = ("covar_pop", "covar_samp", "corr", "regr_slope", "regr_intercept", "regr_r2")
"""Aggregates over pairs of numbers."""
OF_ROWS = ("first", "last", "min_by", "max_by", "collect_list", "string_agg")
"""Aggregates over values, and something that these are chosen or ordered by."""
OF_ITS_ARGUMENT = (
    "bool_and", "bool_or", "bit_and", "bit_or", "bit_xor", "any_value", "collect_set", *OF_ROWS,
)  # fmt: skip
"""Aggregates whose results, or the elements of these, are of the type of their argument."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregate:
    """`function(argument, constant) FILTER (WHERE filter) AS name`."""

    name: str
    function: str
    argument: Expression | None = None
    """None for count(*)."""
    filter: Expression | None = None
    others: tuple[Expression, ...] = ()
    """More columns of count(DISTINCT …); the y of top_k(x, k, sum(y)), of min_by(x, y) and of pairs."""
    constant: int | float | tuple[float, ...] | None = None
    """The share of a percentile, the k of top_k, the width of a histogram, the limit of a list."""
    delimiter: str = ""
    """What string_agg puts between strings."""
    ties: tuple[Expression, ...] = ()
    """The event time and all columns of the stream, for what depends on the order of rows."""
    ignores_null: bool = False
    """Whether first and last take values that are not NULL only."""
    descending: bool = False
    """Whether WITHIN GROUP orders by DESC."""

    def __post_init__(self) -> None:
        if self.function not in FUNCTIONS:
            raise ValueError(f"no such aggregate: {self.function}")
        if self.argument is None and self.function != "count":
            raise ValueError(f"{self.function} needs an argument")

    @property
    def type(self) -> SqlType:
        """The type of the result."""
        if self.argument is None or self.function in ("count", "count_distinct", "count_if"):
            return BIGINT
        of = self.argument.type
        if self.function in OF_ITS_ARGUMENT:
            return of
        match self.base:
            case "min" | "max" | "mode":
                return of
            case "sum" if of.is_integer:
                return BIGINT
            case "sum" if of.kind is Kind.DECIMAL:
                return capped_decimal(of.precision + 10, of.scale)
            case "avg" if of.kind is Kind.DECIMAL:
                return capped_decimal(of.precision + 4, of.scale + 4)
        return DOUBLE

    @property
    def base(self) -> str:
        """The function without its DISTINCT."""
        return self.function.removesuffix("_distinct")

    @property
    def is_nested(self) -> bool:
        """Whether the result is an array."""
        nested = ("top_k", "histogram", "collect_list", "collect_set")
        return self.function in nested or isinstance(self.constant, tuple)

    def answer(self, rows: Sequence[Row]) -> Answer:
        """Aggregate the rows of one group."""
        if self.filter is not None:
            rows = [row for row in rows if truth(self.filter.evaluate(row))]
        if self.argument is None:
            return Answer(value=len(rows))
        if self.function in TUPLES and (self.others or self.ties):
            columns = (self.argument, *self.others, *self.ties)
            return TUPLES[self.function]([tuple(own.evaluate(row) for own in columns) for row in rows], self)
        values = [self.argument.evaluate(row) for row in rows]
        return FUNCTIONS[self.function]([value for value in values if value is not None], self)

    def text(self, dialect: Dialect) -> str:
        """Write the call in a dialect, without its name."""
        inner = "*" if self.argument is None else self.argument.text(dialect)
        suffix = "" if self.filter is None else f" FILTER (WHERE {self.filter.text(dialect)})"
        if self.function in HOLISTIC:
            return self._holistic_text(inner, suffix, dialect)
        if self.function in TEXTS:
            return self._text_by_table(inner, suffix, dialect)
        if dialect is Dialect.SPARK and self.argument is not None and self.function in ("sum", "avg"):
            return self._spark_total(inner, suffix, self.argument.type)
        return f"{self.function}({inner}){suffix}"

    def _holistic_text(self, inner: str, suffix: str, dialect: Dialect) -> str:
        assert self.argument is not None
        if self.function == "count_distinct":
            inner = ", ".join([inner, *(other.text(dialect) for other in self.others)])
        if self.function.endswith("_distinct"):
            if dialect is Dialect.SPARK and self.base != "count":
                return self._spark_total(inner, suffix, self.argument.type, distinct="DISTINCT ")
            return f"{self.base}(DISTINCT {inner}){suffix}"
        if self.function.startswith("percentile_"):
            order = " DESC" if self.descending else ""
            return f"{self.function}({self.constant}) WITHIN GROUP (ORDER BY {inner}{order}){suffix}"
        if dialect is Dialect.SPARK:
            if self.function in ("top_k", "histogram"):
                raise ValueError(f"{self.function} has no plain Spark form")
            if self.function == "mode":
                # Of equally frequent values the least one; Spark's mode tells -0.0 from 0.0.
                zero = " + 0.0D" if self.argument.type.kind is Kind.DOUBLE else ""
                return f"mode({inner}{zero}, true){suffix}"
        constant = [] if self.constant is None else [_constant_text(self.constant)]
        weights = [f"sum({other.text(dialect)})" for other in self.others]
        return f"{self.function}({', '.join([inner, *constant, *weights])}){suffix}"

    def _text_by_table(self, inner: str, suffix: str, dialect: Dialect) -> str:
        weft, spark = TEXTS[self.function]
        condition = "" if self.filter is None else f" AND {self.filter.text(dialect)}"
        y = self.others[0].text(dialect) if self.others else ""
        ties = [own.text(dialect) for own in self.ties]
        return (weft if dialect is Dialect.WEFT else spark).format(
            x=inner, y=y, k=self.constant, ties=", ".join(ties),
            time=ties[0] if ties else "", delimiter=self.delimiter, filter=suffix, condition=condition,
            ignoring=", true" if self.ignores_null else "",
            known=f" AND {inner} IS NOT NULL" if self.ignores_null else "",
        )  # fmt: skip

    def _spark_total(self, inner: str, suffix: str, of: SqlType, distinct: str = "") -> str:
        # Spark checks the running total of a BIGINT, so its answer would depend on the order of rows;
        # a decimal has room for the exact one.
        if self.base == "sum" and of.is_integer:
            return f"try_cast(sum({distinct}CAST({inner} AS DECIMAL(38,0))){suffix} AS BIGINT)"
        prefix = "try_" if of.kind is Kind.DECIMAL else ""
        return f"{prefix}{self.base}({distinct}{inner}){suffix}"


def _constant_text(constant: int | float | tuple[float, ...]) -> str:
    if isinstance(constant, tuple):
        return f"array({', '.join(map(str, constant))})"
    return str(constant)


Values = list[Value]


def _count(values: Values, call: Aggregate) -> Answer:
    return Answer(value=len(values))


def _min(values: Values, call: Aggregate) -> Answer:
    return Answer(value=min(values, key=cmp_to_key(order))) if values else NOTHING


def _max(values: Values, call: Aggregate) -> Answer:
    return Answer(value=max(values, key=cmp_to_key(order))) if values else NOTHING


def _sum(values: Values, call: Aggregate) -> Answer:
    if not values:
        return NOTHING
    if call.type.kind is Kind.DOUBLE:
        numbers = _doubles(values)
        return Answer(value=_double_sum(numbers), scale=_double_sum([abs(x) for x in numbers]))
    numbers_exact = _fractions(values)
    total, magnitude = _fit(sum(numbers_exact), call.type), _fit(sum(map(abs, numbers_exact)), call.type)
    return Answer(value=total, order_sensitive=total is not None and magnitude is None)


def _avg(values: Values, call: Aggregate) -> Answer:
    if not values:
        return NOTHING
    if call.type.kind is Kind.DECIMAL:
        return _decimal_avg(_fractions(values), call)
    numbers = _doubles(values)
    scale = _double_sum([abs(x) for x in numbers]) / len(numbers)
    if not all(map(math.isfinite, numbers)):
        return Answer(value=_double_sum(numbers), scale=scale)
    return Answer(value=float(sum(map(Fraction, numbers)) / len(numbers)), scale=scale)


def _decimal_avg(numbers: list[Fraction], call: Aggregate) -> Answer:
    assert call.argument is not None
    of = as_decimal(call.argument.type)
    in_type = capped_decimal(of.precision + 10, of.scale)
    if _fit(sum(numbers), in_type) is None:
        return NOTHING
    value = fit_decimal(sum(numbers) / Fraction(len(numbers)), call.type)
    fragile = value is not None and _fit(sum(map(abs, numbers)), in_type) is None
    return Answer(value=value, order_sensitive=fragile)


def _variance(values: Values, call: Aggregate) -> Answer:
    """Return a variance, exact over the doubles that Spark would see.

    With v the variance and q the mean square, the condition number of v is sqrt(q/v): a sound algorithm is
    off by rounding × sqrt(v·q), while the difference of two large sums is off by rounding × q.
    """
    numbers = _doubles(values)
    divisor = len(numbers) - (1 if call.function.endswith("samp") else 0)
    if divisor < 1:
        return NOTHING
    if not all(map(math.isfinite, numbers)):
        return Answer(value=math.nan)
    exact = [Fraction(x) for x in numbers]
    mean = sum(exact) / Fraction(len(exact))
    variance = float(sum((x - mean) ** 2 for x in exact) / Fraction(divisor))
    square = float(sum(x**2 for x in exact) / Fraction(divisor))
    return Answer(value=variance, scale=math.sqrt(variance) * math.sqrt(square) + 1e-9 * square)


def _deviation(values: Values, call: Aggregate) -> Answer:
    variance = _variance(values, call)
    if not isinstance(variance.value, float) or math.isnan(variance.value):
        return variance
    deviation = math.sqrt(variance.value)
    error = 1e-9 * variance.scale
    # An error e under the root is e/2d outside it, or sqrt(e) when d is smaller than that.
    slack = math.sqrt(error) if deviation * deviation <= error else error / deviation
    return Answer(value=deviation, scale=slack / 1e-9)


# Aggregates that need all values.


def _distinct(values: Values) -> Values:
    """Return each value once: there is one NaN and one zero."""
    ordered = sorted(values, key=cmp_to_key(order))
    return [value for at, value in enumerate(ordered) if not at or order(ordered[at - 1], value)]


def _over_distinct(values: Values, call: Aggregate) -> Answer:
    return FUNCTIONS[call.base](_distinct(values), call)


def _count_tuples(rows: list[tuple[Value, ...]], call: Aggregate) -> Answer:
    found: list[tuple[Value, ...]] = []
    for row in rows:
        if None in row:
            continue
        seen = any(all(order(a, b) == 0 for a, b in zip(row, known, strict=True)) for known in found)
        if not seen:
            found.append(row)
    return Answer(value=len(found))


def _percentile(values: Values, call: Aggregate) -> Answer:
    if not values:
        return Answer(value=None)
    if isinstance(call.constant, tuple):
        answers = [_percentile_at(values, share, call) for share in call.constant]
        return Answer(
            value=tuple(answer.value for answer in answers), scale=max(answer.scale for answer in answers)
        )
    assert call.constant is not None
    return _percentile_at(values, call.constant, call)


def _percentile_at(values: Values, share: float, call: Aggregate) -> Answer:
    """Return the value a share of the way from the first to the last, on the line between two neighbours."""
    ordered = sorted(_doubles(values), key=cmp_to_key(order), reverse=call.descending)
    # Spark takes the position as a double.
    position = (len(ordered) - 1) * share
    low, high = ordered[math.floor(position)], ordered[math.ceil(position)]
    part = position - math.floor(position)
    if not part or order(low, high) == 0:
        return Answer(value=low)
    if not math.isfinite(low) or not math.isfinite(high):
        return Answer(value=(1 - part) * low + part * high)
    exact = Fraction(low) + (Fraction(high) - Fraction(low)) * Fraction(part)
    return Answer(value=float(exact), scale=max(abs(low), abs(high)))


def _percentile_disc(values: Values, call: Aggregate) -> Answer:
    """Return the first value up to which there is at least a share of all values."""
    assert isinstance(call.constant, float | int)
    ordered = sorted(_doubles(values), key=cmp_to_key(order), reverse=call.descending)
    for index, value in enumerate(ordered):
        if index + 1 >= call.constant * len(ordered):
            return Answer(value=value)
    return NOTHING


def _median(values: Values, call: Aggregate) -> Answer:
    return _percentile_at(values, 0.5, call) if values else NOTHING


def _mode(values: Values, call: Aggregate) -> Answer:
    counts = [(sum(order(value, other) == 0 for other in values), value) for value in _distinct(values)]
    most = max((count for count, _ in counts), default=0)
    return Answer(value=next((value for count, value in counts if count == most), None))


def _top_k(values: Values, call: Aggregate) -> Answer:
    counts = [(value, sum(order(value, other) == 0 for other in values)) for value in _distinct(values)]
    return _heaviest(counts, "count", call)


def _top_k_by_sum(rows: list[tuple[Value, ...]], call: Aggregate) -> Answer:
    rows = [row for row in rows if row[0] is not None]
    weights = [
        (value, sum(int(own) for known, own in rows if own is not None and order(known, value) == 0))  # type: ignore[call-overload]
        for value in _distinct([row[0] for row in rows])
    ]
    return _heaviest(weights, "sum", call)


def _heaviest(weights: list[tuple[Value, int]], name: str, call: Aggregate) -> Answer:
    """Return the heaviest values, and of equally heavy ones the least first."""
    assert isinstance(call.constant, int)
    heaviest = sorted(weights, key=lambda item: -item[1])[: call.constant]
    return Answer(
        value=tuple((("value", value), (name, fit_integer(weight, BIGINT))) for value, weight in heaviest)
    )


def _histogram(values: Values, call: Aggregate) -> Answer:
    """Return how many values lie in each interval that holds any."""
    assert isinstance(call.constant, int | float)
    starts: Values = []
    for number in _doubles(values):
        share = number / call.constant
        starts.append(math.floor(share) * float(call.constant) if math.isfinite(share) else share)
    return Answer(
        value=tuple(
            (("start", start), ("count", sum(order(start, other) == 0 for other in starts)))
            for start in _distinct(starts)
        )
    )


# Aggregates folded by one operation.


def _count_if(values: Values, call: Aggregate) -> Answer:
    return Answer(value=sum(value is True for value in values))


def _every(values: Values, call: Aggregate) -> Answer:
    return Answer(value=all(values)) if values else NOTHING


def _some(values: Values, call: Aggregate) -> Answer:
    return Answer(value=any(values)) if values else NOTHING


def _bits(values: Values, call: Aggregate) -> Answer:
    fold = {"bit_and": int.__and__, "bit_or": int.__or__, "bit_xor": int.__xor__}[call.function]
    numbers = [value for value in values if isinstance(value, int)]
    return Answer(value=reduce(fold, numbers)) if numbers else NOTHING


def _product(values: Values, call: Aggregate) -> Answer:
    return Answer(value=math.prod(_doubles(values))) if values else NOTHING


# Moments of numbers for which no digit is lost: the arguments are small whole numbers.


def _moment(numbers: list[Fraction], power: int) -> Fraction:
    mean = sum(numbers) / Fraction(len(numbers))
    return sum((x - mean) ** power for x in numbers) / Fraction(len(numbers))


def _shape(values: Values, call: Aggregate) -> Answer:
    """Return the third or fourth standardised moment, less that of a normal distribution."""
    numbers = [Fraction(x) for x in _doubles(values)]
    if not numbers or not _moment(numbers, 2):
        return NOTHING
    if call.function == "kurtosis":
        value = float(_moment(numbers, 4) / _moment(numbers, 2) ** 2) - 3
    else:
        value = float(_moment(numbers, 3)) / float(_moment(numbers, 2)) ** 1.5
    return Answer(value=value, scale=len(numbers))


def _of_pairs(rows: list[tuple[Value, ...]], call: Aggregate) -> Answer:
    """Return what describes how two numbers vary together, over rows that have both."""
    pairs = [(Fraction(float(x)), Fraction(float(y))) for x, y in rows if None not in (x, y)]  # type: ignore[arg-type]
    n = len(pairs)
    if not n:
        return NOTHING
    xs, ys = ([pair[place] for pair in pairs] for place in (0, 1))
    mean_x, mean_y = sum(xs) / Fraction(n), sum(ys) / Fraction(n)
    together = sum((x - mean_x) * (y - mean_y) for x, y in pairs) / Fraction(n)
    # Of regr_…(y, x), the first argument depends on the second.
    spread_x, spread_y = _moment(xs, 2), _moment(ys, 2)
    value: Fraction | float | None
    match call.function:
        case "covar_pop":
            value = together
        case "covar_samp":
            value = together * n / (n - 1) if n > 1 else None
        case "corr":
            root = math.sqrt(spread_x * spread_y)
            value = float(together) / root if root else None
        case _ if not spread_y:
            value = None
        case "regr_slope":
            value = together / spread_y
        case "regr_intercept":
            value = mean_x - together / spread_y * mean_y
        case _:
            value = together**2 / (spread_x * spread_y) if spread_x else Fraction(1)
    return Answer(value=None if value is None else float(value), scale=1000.0)


# Aggregates of rows in an order.


def _rank(row: tuple[Value, ...]) -> tuple[Any, ...]:
    """Order rows by their columns, one after the other, NULL first."""
    least = cmp_to_key(order)(False)
    return tuple((False, least) if value is None else (True, cmp_to_key(order)(value)) for value in row)


def _chosen(rows: list[tuple[Value, ...]], call: Aggregate) -> Answer:
    """Return the value of the first or last row, or of that with the least or greatest of something else.

    Of rows that are equal in that, the value decides.
    """
    choose = min if call.function in ("first", "min_by") else max
    rows = [row for row in rows if row[1] is not None and not (call.ignores_null and row[0] is None)]
    return Answer(value=choose(rows, key=lambda row: _rank((*row[1:], row[0])))[0]) if rows else NOTHING


def _in_time(rows: list[tuple[Value, ...]]) -> Values:
    """Return the values that are not NULL by their time, then by themselves."""
    known = [row for row in rows if row[0] is not None]
    return [row[0] for row in sorted(known, key=lambda row: _rank((row[1], row[0])))]


def _collect_list(rows: list[tuple[Value, ...]], call: Aggregate) -> Answer:
    assert isinstance(call.constant, int)
    return Answer(value=tuple(_in_time(rows)[: call.constant]))


def _collect_set(values: Values, call: Aggregate) -> Answer:
    assert isinstance(call.constant, int)
    return Answer(value=tuple(_distinct(values)[: call.constant]))


def _string_agg(rows: list[tuple[Value, ...]], call: Aggregate) -> Answer:
    assert isinstance(call.constant, int)
    texts = [str(value) for value in _in_time(rows)[: call.constant]]
    return Answer(value=call.delimiter.join(texts)) if texts else NOTHING


def _needs_rows(values: Values, call: Aggregate) -> Answer:
    raise ValueError(f"{call.function} is over rows of several columns")


FUNCTIONS: dict[str, Callable[[Values, Aggregate], Answer]] = {
    "count": _count,
    "sum": _sum,
    "avg": _avg,
    "min": _min,
    "max": _max,
    "var_pop": _variance,
    "var_samp": _variance,
    "stddev_pop": _deviation,
    "stddev_samp": _deviation,
    "count_distinct": _over_distinct,
    "sum_distinct": _over_distinct,
    "avg_distinct": _over_distinct,
    "percentile": _percentile,
    "percentile_cont": _percentile,
    "percentile_disc": _percentile_disc,
    "median": _median,
    "mode": _mode,
    "top_k": _top_k,
    "histogram": _histogram,
    "count_if": _count_if,
    "bool_and": _every,
    "bool_or": _some,
    "bit_and": _bits,
    "bit_or": _bits,
    "bit_xor": _bits,
    "product": _product,
    "skewness": _shape,
    "kurtosis": _shape,
    "any_value": _min,
    "collect_set": _collect_set,
    **dict.fromkeys(OF_PAIRS + OF_ROWS, _needs_rows),
}
EVERYDAY = tuple(FUNCTIONS)[:9]
"""Those that every database has under these names."""
HOLISTIC = tuple(FUNCTIONS)[9:19]
"""Those that need all values of a group, how often each occurs."""
_IN_TIME = (
    "slice(transform(array_sort(collect_list(struct({time} AS t, {x} AS x)) FILTER (WHERE {x} IS NOT NULL"
    "{condition})), e -> e.x), 1, {k})"
)
_SPARKS: dict[str, str] = {
    # Spark's product has no name in SQL.
    "product": "CASE WHEN count({x}){filter} > 0 THEN aggregate(collect_list(CAST({x} AS DOUBLE)){filter}, "
    "1.0D, (total, own) -> total * own) END",
    "any_value": "min({x}){filter}",
    # Spark takes any of several rows that are equal, and whichever row comes first.
    "first": "min_by({x}, struct({ties}, {x})) FILTER (WHERE {time} IS NOT NULL{known}{condition})",
    "last": "max_by({x}, struct({ties}, {x})) FILTER (WHERE {time} IS NOT NULL{known}{condition})",
    "min_by": "min_by({x}, struct({y}, {x})) FILTER (WHERE {y} IS NOT NULL{condition})",
    "max_by": "max_by({x}, struct({y}, {x})) FILTER (WHERE {y} IS NOT NULL{condition})",
    "collect_list": _IN_TIME,
    "collect_set": "slice(array_sort(array_distinct(collect_list({x}){filter})), 1, {k})",
    "string_agg": f"CASE WHEN size({_IN_TIME}) > 0 THEN array_join({_IN_TIME}, '{{delimiter}}') END",
}
TEXTS: dict[str, tuple[str, str]] = {
    name: (weft, _SPARKS.get(name, weft))
    for names, template in (
        (OF_PAIRS, "{name}({{x}}, {{y}}){{filter}}"),
        (("first", "last"), "{name}({{x}}{{ignoring}}){{filter}}"),
        (("min_by", "max_by"), "{name}({{x}}, {{y}}){{filter}}"),
        (("collect_list", "collect_set"), "{name}({{x}}, {{k}}){{filter}}"),
        (("string_agg",), "{name}({{x}}, '{{delimiter}}', {{k}}){{filter}}"),
        (("product", "any_value"), "{name}({{x}}){{filter}}"),
    )
    for name in names
    for weft in (template.format(name=name),)
}
"""How calls are written in Weft's language and for Spark, where it is not `name(argument)`."""
TUPLES: dict[str, Callable[[list[tuple[Value, ...]], Aggregate], Answer]] = {
    "count_distinct": _count_tuples,
    "top_k": _top_k_by_sum,
    **dict.fromkeys(OF_PAIRS, _of_pairs),
    **dict.fromkeys(("first", "last", "min_by", "max_by"), _chosen),
    "collect_list": _collect_list,
    "string_agg": _string_agg,
}
"""Those over several columns, by the values of each row."""


def _doubles(values: Values) -> list[float]:
    return [float(value) for value in values]  # type: ignore[arg-type]


def _fractions(values: Values) -> list[Fraction]:
    return [Fraction(value) for value in values if isinstance(value, int | Decimal)]


def _fit(total: Fraction | int, to: SqlType) -> int | Decimal | None:
    return fit_decimal(Fraction(total), to) if to.kind is Kind.DECIMAL else fit_integer(int(total), to)


def _double_sum(numbers: list[float]) -> float:
    if any(map(math.isnan, numbers)) or (math.inf in numbers and -math.inf in numbers):
        return math.nan
    infinite = [x for x in numbers if math.isinf(x)]
    return infinite[0] if infinite else math.fsum(numbers)
