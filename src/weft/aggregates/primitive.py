"""Primitives: the mergeable partial aggregates that Spark computes and blocks keep.

An aggregate is *lifted* from rows to primitives by Spark, primitives are *combined* over slices by Weft,
and the combined primitives are *lowered* to the aggregate's value.
"""

from dataclasses import dataclass
from enum import StrEnum

from weft.expression import Expression
from weft.types import DataType


class Combine(StrEnum):
    """How the partials of a primitive merge."""

    ADD = "add"
    LEAST = "least"
    GREATEST = "greatest"
    MOMENTS = "moments"
    """(count, mean, variance): merged as one, because sums of squares lose the digits that matter."""

    @property
    def invertible(self) -> bool:
        """Whether a partial can be subtracted from a total."""
        return self is Combine.ADD


@dataclass(frozen=True, slots=True)
class Primitive:
    """One partial aggregate, kept once per group for all queries that use it."""

    lifts: tuple[str, ...]
    """Spark's native aggregate functions that compute the partial's fields from rows."""
    argument: Expression | None
    """The expression they are computed over; None stands for the row itself."""
    combine: Combine
    types: tuple[DataType, ...]
    """The type of each field."""

    @property
    def order_free(self) -> bool:
        """Whether merging in any order gives the same value, bit for bit."""
        rounds = any(type.is_fractional for type in self.types)
        return not (rounds and self.combine in (Combine.ADD, Combine.MOMENTS))

    def __str__(self) -> str:
        name = "moments" if self.combine is Combine.MOMENTS else self.lifts[0]
        return f"{name}({'*' if self.argument is None else self.argument})"
