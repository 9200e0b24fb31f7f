"""Scalar expressions: the allow-listed tree between query text and Spark columns.

A tree is a value: equal expressions compare equal, wherever they are in the query (spans are not compared).
Planning looks trees up again and again, so a call computes its hash once, when it is made.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from enum import StrEnum

from weft.errors import Span
from weft.types import DataType

Scalar = None | bool | int | float | Decimal | str | bytes | date | datetime


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the joined row: `price` of the stream, `close.cp` of a table."""

    name: str
    type: DataType
    span: Span | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant."""

    value: Scalar
    type: DataType
    span: Span | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        return f"'{self.value}'" if isinstance(self.value, str) else str(self.value)


@dataclass(frozen=True, slots=True)
class Call:
    """An allow-listed operator or function applied to arguments."""

    function: str
    args: "tuple[Expression, ...]"
    type: DataType
    span: Span | None = field(default=None, compare=False, repr=False)
    _hash: int = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash((self.function, self.args, self.type)))

    def __hash__(self) -> int:
        return self._hash

    def __str__(self) -> str:
        if self.function == "cast":
            return f"cast({self.args[0]} as {self.type})"
        if self.function == "subscript":
            return f"{self.args[0]}[{self.args[1]}]"
        if self.function == "field" and isinstance(self.args[1], Literal):
            return f"{self.args[0]}.{self.args[1].value!s}"
        if len(self.args) == 2 and not self.function[0].isalpha():
            return f"({self.args[0]} {self.function} {self.args[1]})"
        return f"{self.function}({', '.join(map(str, self.args))})"


class SlotKind(StrEnum):
    """What a slot of the output stage refers to."""

    KEY = "key"
    AGGREGATE = "aggregate"
    WINDOW_START = "window_start"
    WINDOW_END = "window_end"
    GROUPING = "grouping_id"
    """Which keys are absent, as bits: the last key's is the lowest."""
    PARAMETER = "parameter"
    """A constant that differs by query, where queries are alike otherwise."""


@dataclass(frozen=True, slots=True)
class Slot:
    """A value known after aggregation: a key, an aggregate, a bound of the window, a query's own constant."""

    kind: SlotKind
    index: int
    type: DataType
    span: Span | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        return f"{self.kind}{self.index}"


Expression = Column | Literal | Call | Slot


def walk(expression: Expression) -> Iterator[Expression]:
    """Yield the expression and everything below it, parents first."""
    stack = [expression]
    while stack:
        node = stack.pop()
        yield node
        if isinstance(node, Call):
            stack.extend(reversed(node.args))


def columns(expression: Expression) -> frozenset[str]:
    """Return the names of the columns that an expression reads."""
    return frozenset(node.name for node in walk(expression) if isinstance(node, Column))
