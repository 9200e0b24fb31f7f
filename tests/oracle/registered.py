"""Functions registered from Python."""

from collections.abc import Callable
from dataclasses import dataclass

from tests.oracle.expressions import Dialect, Expression
from tests.oracle.types import BIGINT, BOOLEAN, Row, SqlType, Value


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """A Python function under the name that queries call it by."""

    name: str
    type: SqlType
    call: Callable[..., Value]


@dataclass(frozen=True, slots=True)
class Called(Expression):
    """`name(argument, …)`."""

    function: Function
    arguments: tuple[Expression, ...]

    @property
    def type(self) -> SqlType:
        return self.function.type

    def evaluate(self, row: Row) -> Value:
        return self.function.call(*(argument.evaluate(row) for argument in self.arguments))

    def text(self, dialect: Dialect) -> str:
        return f"{self.function.name}({', '.join(one.text(dialect) for one in self.arguments)})"

    def children(self) -> tuple[Expression, ...]:
        return self.arguments


def _make() -> tuple[Function, Function]:
    # Local functions travel to Spark's workers by value, so the workers need not find this module.
    def midcap(symbol: str | None) -> bool | None:
        return None if symbol is None else len(symbol) % 2 == 1

    def grade(volume: int | None) -> int | None:
        return None if volume is None or volume % 5 == 0 else volume % 7

    return (
        Function(name="midcap", type=BOOLEAN, call=midcap),
        Function(name="grade", type=BIGINT, call=grade),
    )


MIDCAP, GRADE = _make()
"""True, false or NULL of a string; a number or NULL of a BIGINT."""
