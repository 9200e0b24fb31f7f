"""Expressions that evaluate in Python with SQL's NULLs and render themselves to SQL.

Here are columns and literals; `arithmetic`, `conditions` and `functions` hold the rest. Every error
(division by zero, overflow, bad cast) is NULL. Weft's text is ordinary SQL; Spark's text uses the `try_`
functions, since plain Spark raises where Weft gives NULL.
"""

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import StrEnum

from tests.oracle.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    NULL,
    STRING,
    TIMESTAMP,
    Kind,
    Row,
    SqlType,
    Value,
    as_decimal,
    common_type,
    decimal_type,
    fit_integer,
)


class Dialect(StrEnum):
    """Whose SQL an expression is written in."""

    WEFT = "weft"
    SPARK = "spark"


class Expression(ABC):
    """A typed SQL expression."""

    __slots__ = ()

    @property
    @abstractmethod
    def type(self) -> SqlType:
        """The type of its value."""

    @abstractmethod
    def evaluate(self, row: Row) -> Value:
        """Return its value for a row; None is NULL."""

    @abstractmethod
    def text(self, dialect: Dialect) -> str:
        """Write it in a dialect."""

    def children(self) -> "tuple[Expression, ...]":
        """Return the expressions directly below."""
        return ()

    def sql(self) -> str:
        """Write it in Weft's language."""
        return self.text(Dialect.WEFT)

    def spark_sql(self) -> str:
        """Write it for plain Spark."""
        return self.text(Dialect.SPARK)


def walk(expression: Expression) -> Iterator[Expression]:
    """Yield the expression and everything below it."""
    yield expression
    for child in expression.children():
        yield from walk(child)


@dataclass(frozen=True, slots=True)
class Column(Expression):
    """A column of the stream."""

    name: str
    of: SqlType

    @property
    def type(self) -> SqlType:
        return self.of

    def evaluate(self, row: Row) -> Value:
        return row[self.name]

    def text(self, dialect: Dialect) -> str:
        return self.name


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Instant:
    """Marks a literal's microseconds as a TIMESTAMP, not a BIGINT."""

    microseconds: int


@dataclass(frozen=True, slots=True)
class Literal(Expression):
    """A constant; its type is the one that Spark reads from its text."""

    value: Value | Instant

    @property
    def type(self) -> SqlType:
        match self.value:
            case None:
                return NULL
            case bool():
                return BOOLEAN
            case int():
                return INT if fit_integer(self.value, INT) is not None else BIGINT
            case float():
                return DOUBLE
            case Decimal():
                _, digits, exponent = self.value.as_tuple()
                scale = -int(exponent)
                return decimal_type(max(len(digits), scale), scale)
            case str():
                return STRING
            case Instant():
                return TIMESTAMP
            case date():
                return DATE
        raise TypeError(f"no literal of {self.value!r}")

    def evaluate(self, row: Row) -> Value:
        return self.value.microseconds if isinstance(self.value, Instant) else self.value

    def text(self, dialect: Dialect) -> str:
        match self.value:
            case None:
                return "NULL"
            case bool():
                return str(self.value).upper()
            case float():
                return _double_text(self.value)
            case Decimal():
                return f"{self.value:f}"
            case str():
                if re.search(r"['\\]", self.value):
                    raise ValueError(f"string literals here have no quote or backslash: {self.value!r}")
                return f"'{self.value}'"
            case Instant():
                at = EPOCH + timedelta(microseconds=self.value.microseconds)
                return f"TIMESTAMP '{at.replace(tzinfo=None).isoformat(' ', 'microseconds')}'"
            case date():
                return f"DATE '{self.value.isoformat()}'"
            case _:
                return str(self.value)


def _double_text(value: float) -> str:
    """Write a double so that it is read as one: with an exponent (1.5 alone is a DECIMAL)."""
    if not math.isfinite(value):
        name = "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        return f"CAST('{name}' AS DOUBLE)"
    text = repr(value)
    return text if "e" in text else f"{text}E0"


def operand_decimal(operand: Expression) -> SqlType:
    """Return an operand's type as a decimal: a whole literal is as narrow as its digits."""
    if isinstance(operand, Literal) and isinstance(operand.value, int):
        return decimal_type(len(str(abs(operand.value))), 0)
    return as_decimal(operand.type)


def operands_type(left: Expression, right: Expression) -> SqlType:
    """Return the type in which the two sides of a comparison meet."""
    kinds = {left.type.kind, right.type.kind}
    if Kind.DECIMAL in kinds and kinds <= {Kind.DECIMAL, Kind.INT, Kind.BIGINT}:
        return common_type(operand_decimal(left), operand_decimal(right))
    return common_type(left.type, right.type)
