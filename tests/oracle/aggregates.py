"""Aggregates over the plain list of a group's values, in exact arithmetic.

Beside its value an answer reports what a comparison needs to know about rounding: the scale against which
a double may be off by 1e-9, and whether a running total could have overflowed where the exact one fits.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cmp_to_key

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregate:
    """`function(argument) FILTER (WHERE filter) AS name`."""

    name: str
    function: str
    argument: Expression | None = None
    """None for count(*)."""
    filter: Expression | None = None

    def __post_init__(self) -> None:
        if self.function not in FUNCTIONS:
            raise ValueError(f"no such aggregate: {self.function}")
        if self.argument is None and self.function != "count":
            raise ValueError(f"{self.function} needs an argument")

    @property
    def type(self) -> SqlType:
        """The type of the result."""
        if self.argument is None or self.function == "count":
            return BIGINT
        of = self.argument.type
        match self.function:
            case "min" | "max":
                return of
            case "sum" if of.is_integer:
                return BIGINT
            case "sum" if of.kind is Kind.DECIMAL:
                return capped_decimal(of.precision + 10, of.scale)
            case "avg" if of.kind is Kind.DECIMAL:
                return capped_decimal(of.precision + 4, of.scale + 4)
        return DOUBLE

    def answer(self, rows: Sequence[Row]) -> Answer:
        """Aggregate the rows of one group."""
        if self.filter is not None:
            rows = [row for row in rows if truth(self.filter.evaluate(row))]
        if self.argument is None:
            return Answer(value=len(rows))
        values = [self.argument.evaluate(row) for row in rows]
        return FUNCTIONS[self.function]([value for value in values if value is not None], self)

    def text(self, dialect: Dialect) -> str:
        """Write the call in a dialect, without its name."""
        inner = "*" if self.argument is None else self.argument.text(dialect)
        suffix = "" if self.filter is None else f" FILTER (WHERE {self.filter.text(dialect)})"
        if dialect is Dialect.SPARK and self.argument is not None and self.function in ("sum", "avg"):
            return self._spark_total(inner, suffix, self.argument.type)
        return f"{self.function}({inner}){suffix}"

    def _spark_total(self, inner: str, suffix: str, of: SqlType) -> str:
        # Spark checks the running total of a BIGINT, so its answer would depend on the order of rows;
        # a decimal has room for the exact one.
        if self.function == "sum" and of.is_integer:
            return f"try_cast(sum(CAST({inner} AS DECIMAL(38,0))){suffix} AS BIGINT)"
        prefix = "try_" if of.kind is Kind.DECIMAL else ""
        return f"{prefix}{self.function}({inner}){suffix}"


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
}


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
