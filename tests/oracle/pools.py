"""The values that a case's rows and thresholds have in common, and their nearest neighbours.

A predicate goes wrong at its threshold: on it, one unit beside it, or at a value with no unit. So a column
has a few anchors, rows are mostly anchors and neighbours, and queries compare with the same.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Context, Decimal
from random import Random

from tests.oracle.expressions import Column, Expression, Instant, Literal
from tests.oracle.matching import Quoted
from tests.oracle.types import INTEGER_BOUNDS, Kind, SqlType, Value, fit_integer

_WIDE = Context(prec=60)
NAN, INFINITY = math.nan, math.inf
ANCHORS: dict[Kind, tuple[Value, ...]] = {
    Kind.INT: (0, 7, -1, 100, 2**31 - 2, -(2**31) + 1),
    Kind.BIGINT: (0, 5, -100, 2**53, -(2**53), 2**53 + 2, 2**62, 2**63 - 2, -(2**63) + 1),
    Kind.DOUBLE: (0.0, 1.0, 0.1, -1.5, 100.25, 2.0**53, 1e17, 5e-324, -3e60),
    Kind.STRING: ("", "a", "ab", "b", "é", "日本", "～", "😀", "straße", "x y", "-7"),
    Kind.TIMESTAMP: (0, 1_459_069_200_000_000, 1_700_000_000_123_456, -86_400_000_000),
    Kind.DATE: (date(1970, 1, 1), date(2024, 2, 29), date(2016, 3, 27), date(1900, 1, 1)),
    Kind.BOOLEAN: (True, False),
}
SPECIALS: dict[Kind, tuple[Value, ...]] = {
    Kind.DOUBLE: (NAN, INFINITY, -INFINITY, -0.0, 0.0),
    Kind.STRING: ("", "😀", "～", "12", "9223372036854775808"),
    Kind.INT: (0, 2**31 - 1, -(2**31)),
    Kind.BIGINT: (0, 2**63 - 1, -(2**63)),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """What a column's rows and thresholds are drawn from."""

    column: Column
    values: tuple[Value, ...]

    def value(self, rng: Random) -> Value:
        """Return a value for a row."""
        special = SPECIALS.get(self.column.type.kind, ())
        return rng.choice(special) if special and rng.random() < 0.12 else rng.choice(self.values)

    def constant(self, rng: Random) -> Expression:
        """Return a constant to compare the column with, sometimes of another type."""
        special = SPECIALS.get(self.column.type.kind, ())
        value = rng.choice(special) if special and rng.random() < 0.15 else rng.choice(self.values)
        if rng.random() < 0.25:
            return _foreign(rng, value, self.column.type)
        return written(value, self.column.type)


def random_pool(rng: Random, column: Column) -> Pool:
    """Return a pool of two or three anchors and their neighbours."""
    of = column.type
    known = _decimal_anchors(of) if of.kind is Kind.DECIMAL else ANCHORS[of.kind]
    anchors = rng.sample(known, min(len(known), rng.choice((2, 2, 3))))
    values = [value for anchor in anchors for value in (anchor, *neighbours(anchor, of))]
    return Pool(column=column, values=tuple(values))


def neighbours(value: Value, of: SqlType) -> tuple[Value, ...]:
    """Return the nearest smaller and larger values of a type.

    >>> neighbours(2**53, SqlType(Kind.BIGINT))
    (9007199254740991, 9007199254740993)
    """
    match value:
        case bool():
            return (not value,)
        case int() if of.is_integer:
            return tuple(near for near in (value - 1, value + 1) if fit_integer(near, of) is not None)
        case int():
            return value - 1, value + 1
        case float():
            return math.nextafter(value, -INFINITY), math.nextafter(value, INFINITY)
        case Decimal():
            units = int(value.scaleb(of.scale, _WIDE))
            return tuple(
                _decimal(near, of) for near in (units - 1, units + 1) if abs(near) < 10**of.precision
            )
        case str():
            return value[:-1], value + "a"
        case date():
            return value - timedelta(days=1), value + timedelta(days=1)
    return ()


def written(value: Value, of: SqlType) -> Expression:
    """Return a value of a column's type as the constant that text would have."""
    if of.kind is Kind.TIMESTAMP and isinstance(value, int):
        return Literal(Instant(value))
    if isinstance(value, Decimal) and of.scale == 0 and abs(value) < INTEGER_BOUNDS[Kind.BIGINT]:
        return Literal(int(value))
    return Literal(value)


def _foreign(rng: Random, value: Value, of: SqlType) -> Expression:
    """Return a constant of another type, about as large."""
    match value:
        case bool() | str():
            return Literal(value)
        case int() if of.is_integer:
            # 2^53 + 1 as a double is 2^53; with a half it is a decimal, between two whole numbers.
            half = Decimal(f"{value}.5")
            options = (Literal(float(value)), Literal(half), Literal(max(value, -(2**63) + 1)))
            return rng.choice(options)
        case int():
            midnight = date(1970, 1, 1) + timedelta(microseconds=value)
            return rng.choice((Literal(midnight), Quoted(Literal(Instant(value)))))
        case float() if math.isfinite(value) and abs(value) < 2**62:
            return rng.choice((Literal(round(value)), Literal(Decimal(f"{round(value)}.25"))))
        case Decimal() if abs(value) < 2**31:
            return rng.choice(
                (Literal(int(value)), Literal(Decimal(f"{int(value)}.5")), Literal(float(value)))
            )
        case date():
            days = (value - date(1970, 1, 1)) // timedelta(microseconds=1)
            return rng.choice((Quoted(Literal(value)), Literal(Instant(days + rng.choice((-1, 0, 1))))))
    return written(value, of)


def _decimal_anchors(of: SqlType) -> Sequence[Value]:
    largest = 10**of.precision - 1
    return [_decimal(min(units, largest - 1), of) for units in (0, 1, 50, 10**of.scale, largest - 1)]


def _decimal(units: int, of: SqlType) -> Decimal:
    return Decimal((1 if units < 0 else 0, tuple(map(int, str(abs(units)))), -of.scale))
