"""What an aggregate function is: lifted from rows to primitives, which combine, and lowered to its value."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from weft.aggregates.partial import Partial, Primitive
from weft.expression import Expression
from weft.types import DataType

Arguments = tuple[Expression, ...]
Types = tuple[DataType, ...]
Partials = Sequence[Partial]
Scalar = bool | int | float | str
Constant = Scalar | tuple[Scalar, ...]
Constants = tuple[Constant, ...]
"""The constants that a call has after its arguments, such as the 0.95 of percentile(x, 0.95)."""
REQUIRED: Final = object()
"""Stands for the default of a constant that has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConstantRule:
    """A constant that an aggregate takes."""

    takes: str
    """What it must be, in words."""
    check: Callable[[object], bool]
    """Whether a value is one; of an array, whether each of its elements is."""
    default: object = REQUIRED
    many: bool = False
    """Whether an array of such constants is taken, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregate:
    """An aggregate function."""

    name: str
    result: Callable[[Types, Constants], DataType | None]
    """The result's type for the arguments' types, or None where the function does not apply."""
    lift: Callable[[Arguments, Constants], tuple[Primitive, ...]]
    """The primitives that determine it."""
    lower: Callable[[Partials, DataType, Constants], pa.Array]
    """Its values, given the combined primitives and the result's type."""
    takes: str
    """The arguments it applies to, in words."""
    least: int = 1
    """Minimum number of arguments."""
    most: int = 1
    """Maximum number of arguments."""
    constants: tuple[ConstantRule, ...] = ()
    """The constants that follow the arguments."""
    distinct: str | None = None
    """The name of the aggregate over distinct values, if DISTINCT can be written."""
    sketch: str | None = None
    """The name of the aggregate that approximates it from partials of bounded size, if there is one."""
    weighted: bool = False
    """Whether a last argument sum(y) may say what values weigh."""
    by_time: bool = False
    """Whether the event time, and all columns to settle ties by, are given as further arguments."""
    within_group: bool = False
    """Whether its argument is given by WITHIN GROUP (ORDER BY …)."""
    can_overflow: bool = False
    """Whether it may be NULL for values that are not NULL."""
