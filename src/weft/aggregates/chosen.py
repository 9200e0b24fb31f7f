"""Values of one row of a group: the first, the last, that with the least or greatest of something else."""

import numpy as np
import pyarrow as pa

from weft.aggregates.aggregate import Aggregate, Arguments, ConstantRule, Constants, Partials, Types
from weft.aggregates.combine import LEAST, reduce_ranges
from weft.aggregates.partial import Combine, Field, Partial, Primitive, Rows, to_arrow
from weft.expression import Call, Expression, Literal
from weft.types import BOOLEAN, NULL, DataType, Kind


class Chosen(Combine):
    """One row of each group: the least or the greatest by its columns, one after the other.

    The fields are each column but the first as a value and whether it is not NULL, and then the first. NULL
    is less than any value; a row whose first column is NULL is never chosen.
    """

    def __init__(self, name: str, *, last: bool) -> None:
        self.name, self._last = name, last

    def merge(self, partial: Partial, lo: Rows, hi: Rows) -> tuple[Field, ...]:
        """Return the chosen row of each range."""
        *others, first = partial.fields
        sorting = np.lexsort([_ranks(column) for column in (*_by_importance(others)[::-1], first)])
        ranks = np.empty(len(sorting), dtype=np.int64)
        ranks[sorting] = np.arange(len(sorting))
        never = -1 if self._last else len(sorting)
        ranks = np.where(partial.valid_mask(), ranks, never)
        best = reduce_ranges(np.maximum if self._last else np.minimum, ranks, lo, hi)
        row = sorting[np.clip(best, 0, len(sorting) - 1)]
        return tuple(field[row] for field in partial.fields)


def _by_importance(fields: list[Field]) -> list[Field]:
    """Return whether each column is known before its value: NULL is less than any."""
    pairs = zip(fields[::2], fields[1::2], strict=True)
    return [column for value, known in pairs for column in (known, value)]


def _ranks(column: Field) -> Field:
    return np.unique(column, return_inverse=True)[1] if column.dtype == object else column


EARLIEST = Chosen("earliest", last=False)
LATEST = Chosen("latest", last=True)


def _chosen(combine: Chosen, columns: Arguments) -> Primitive:
    """Return the primitive that keeps the chosen row; its last column is what is asked for."""
    first, *others = columns
    name, types = combine.name, [first.type]
    lifts = [f"{name}.0"]
    for place, column in reversed(list(enumerate(others, 1))):
        types[:0] = [column.type, BOOLEAN]
        lifts[:0] = [f"{name}.{place}", f"{name}_known.{place}"]
    return Primitive(tuple(lifts), columns, combine, tuple(types))


def _value(partials: Partials, type: DataType, constants: Constants) -> pa.Array:
    """Return the last column of the chosen rows."""
    *_, value, known, _first = partials[0].fields
    return to_arrow(value, partials[0].valid_mask() & known.astype(bool), type)


def _by(name: str, combine: Chosen) -> Aggregate:
    def lift(arguments: Arguments, constants: Constants) -> tuple[Primitive, ...]:
        value, by = arguments
        return (_chosen(combine, (by, value)),)

    return Aggregate(
        name=name, result=_plain, lift=lift, lower=_value, least=2, most=2,
        takes="a value, and what it is chosen by",
    )  # fmt: skip


def _plain(types: Types, constants: Constants) -> DataType | None:
    return None if any(type.kind is Kind.OTHER or type.is_nested for type in types) else types[0]


def _in_time(name: str, combine: Chosen) -> Aggregate:
    def lift(arguments: Arguments, constants: Constants) -> tuple[Primitive, ...]:
        value, time, *ties = arguments
        if constants[0]:
            time = _where_known(time, value)
        return (_chosen(combine, (time, *ties, value)),)

    ignoring = ConstantRule(takes="true or false", check=lambda value: isinstance(value, bool), default=False)
    return Aggregate(
        name=name, result=lambda types, constants: _plain(types[:1], constants), lift=lift, lower=_value,
        takes="a number, string, boolean, date or time", constants=(ignoring,), by_time=True,
    )  # fmt: skip


def _where_known(value: Expression, other: Expression) -> Expression:
    unknown = Call("is_null", (other,), BOOLEAN)
    return Call("case", (unknown, Literal(None, NULL), value), value.type)


def _any_value(partials: Partials, type: DataType, constants: Constants) -> pa.Array:
    return to_arrow(partials[0].fields[0], partials[0].valid_mask(), type)


CHOSEN: tuple[Aggregate, ...] = (
    _in_time("first", EARLIEST),
    _in_time("last", LATEST),
    _by("min_by", EARLIEST),
    _by("max_by", LATEST),
    Aggregate(
        name="any_value", result=_plain, lower=_any_value, takes="a number, string, boolean, date or time",
        lift=lambda arguments, _: (Primitive(("min",), arguments, LEAST, (arguments[0].type,)),),
    ),
)  # fmt: skip
"""Aggregates that return a value of one row."""
