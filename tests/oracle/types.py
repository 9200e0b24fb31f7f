"""SQL types and Spark's rules for decimals; values are plain Python.

BIGINT, INT   int                    STRING      str
DOUBLE        float                  BOOLEAN     bool
DECIMAL       decimal.Decimal        DATE        datetime.date
TIMESTAMP     int, microseconds since the epoch (UTC)
"""

from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from typing import Any

Value = None | bool | int | float | Decimal | str | date | tuple[Any, ...]
"""A value; an array is a tuple of its elements, and a struct a tuple of (name, value)."""
Row = dict[str, Value]

MAX_PRECISION = 38


class Kind(StrEnum):
    """A family of values, ordered as numbers widen."""

    INT = "INT"
    BIGINT = "BIGINT"
    DECIMAL = "DECIMAL"
    DOUBLE = "DOUBLE"
    STRING = "STRING"
    BOOLEAN = "BOOLEAN"
    TIMESTAMP = "TIMESTAMP"
    DATE = "DATE"
    NULL = "VOID"


@dataclass(frozen=True, slots=True)
class SqlType:
    """A type; precision and scale are those of a decimal."""

    kind: Kind
    precision: int = 0
    scale: int = 0

    def __str__(self) -> str:
        return f"DECIMAL({self.precision},{self.scale})" if self.kind is Kind.DECIMAL else str(self.kind)

    @property
    def is_integer(self) -> bool:
        return self.kind in (Kind.INT, Kind.BIGINT)

    @property
    def is_numeric(self) -> bool:
        return self.kind in (Kind.INT, Kind.BIGINT, Kind.DECIMAL, Kind.DOUBLE)


INT = SqlType(Kind.INT)
BIGINT = SqlType(Kind.BIGINT)
DOUBLE = SqlType(Kind.DOUBLE)
STRING = SqlType(Kind.STRING)
BOOLEAN = SqlType(Kind.BOOLEAN)
TIMESTAMP = SqlType(Kind.TIMESTAMP)
DATE = SqlType(Kind.DATE)
NULL = SqlType(Kind.NULL)


def decimal_type(precision: int, scale: int) -> SqlType:
    """Return DECIMAL(precision, scale)."""
    if not 0 <= scale <= precision <= MAX_PRECISION:
        raise ValueError(f"no such type: DECIMAL({precision},{scale})")
    return SqlType(Kind.DECIMAL, precision, scale)


def adjusted_decimal(precision: int, scale: int) -> SqlType:
    """Return the type of a decimal operation whose exact type may be wider than 38 digits.

    Spark gives up digits of the scale first, but keeps six.
    """
    if precision <= MAX_PRECISION:
        return decimal_type(precision, scale)
    whole = precision - scale
    return decimal_type(MAX_PRECISION, max(MAX_PRECISION - whole, min(scale, 6)))


def capped_decimal(precision: int, scale: int) -> SqlType:
    """Return the type of sum and avg: each of precision and scale stops at 38."""
    return decimal_type(min(precision, MAX_PRECISION), min(scale, MAX_PRECISION))


INTEGER_BOUNDS = {Kind.INT: 2**31, Kind.BIGINT: 2**63}


def fit_integer(value: int, to: SqlType) -> int | None:
    """Return the value, or None when the integer type cannot hold it."""
    bound = INTEGER_BOUNDS[to.kind]
    return value if -bound <= value < bound else None


def fit_decimal(value: Fraction, to: SqlType) -> Decimal | None:
    """Round half up (away from zero) to the type's scale; None when it has too few digits.

    >>> fit_decimal(Fraction(-1, 8), decimal_type(3, 2))
    Decimal('-0.13')
    """
    scaled = abs(value) * 10**to.scale
    units = int(scaled + Fraction(1, 2))
    if units >= 10**to.precision:
        return None
    sign = 1 if value < 0 else 0
    return Decimal((sign if units else 0, tuple(map(int, str(units))), -to.scale))


def common_type(left: SqlType, right: SqlType) -> SqlType:
    """Return the type in which two values are compared or merged."""
    if left == right or right.kind is Kind.NULL:
        return left
    if left.kind is Kind.NULL:
        return right
    if {left.kind, right.kind} == {Kind.DATE, Kind.TIMESTAMP}:
        return TIMESTAMP
    if not (left.is_numeric and right.is_numeric):
        raise TypeError(f"no common type of {left} and {right}")
    if Kind.DOUBLE in (left.kind, right.kind):
        return DOUBLE
    if Kind.DECIMAL in (left.kind, right.kind):
        return _common_decimal(as_decimal(left), as_decimal(right))
    return BIGINT


def as_decimal(of: SqlType) -> SqlType:
    """Return the decimal type that holds every value of an integer or decimal type."""
    match of.kind:
        case Kind.DECIMAL:
            return of
        case Kind.INT:
            return decimal_type(10, 0)
        case Kind.BIGINT:
            return decimal_type(20, 0)
    raise TypeError(f"{of} is no decimal")


def _common_decimal(left: SqlType, right: SqlType) -> SqlType:
    scale = max(left.scale, right.scale)
    whole = max(left.precision - left.scale, right.precision - right.scale)
    # Beyond 38 digits both sides are rounded to the scale that is left, as in Spark.
    excess = max(0, whole + scale - MAX_PRECISION)
    return decimal_type(whole + scale - excess, scale - excess)


def widen(value: Value, to: SqlType) -> Value:
    """Convert a value to a type that `common_type` found."""
    if value is None or isinstance(value, bool):
        return value
    if to.kind is Kind.TIMESTAMP and isinstance(value, date):
        return (value - date(1970, 1, 1)) // timedelta(microseconds=1)
    if to.kind is Kind.DOUBLE and isinstance(value, int | Decimal):
        return float(value)
    if to.kind is Kind.DECIMAL and isinstance(value, int | Decimal):
        return fit_decimal(Fraction(value), to)
    return value
