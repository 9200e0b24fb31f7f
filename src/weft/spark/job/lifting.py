"""Aggregate functions over stretches of sorted rows, with the results of Spark's `groupBy().agg`.

NULLs are skipped, NaN is the greatest number, strings compare by their bytes, and decimals are exact.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from weft.aggregates import (
    GREATEST,
    LEAST,
    MOMENTS,
    Combine,
    Partial,
    Primitive,
    arrow_type,
    combine,
    decode,
    to_arrow,
)
from weft.aggregates.chosen import EARLIEST, LATEST
from weft.aggregates.logic import BIT_AND, BIT_OR, BIT_XOR, MULTIPLY
from weft.aggregates.moments import COMOMENTS, SHAPE
from weft.arrays import Bools, Numbers, Rows
from weft.spark.job.batch_groups import Slot
from weft.types import BIGINT, BOOLEAN, DOUBLE, MAX_PRECISION, DataType, Kind

_RANKED = (Kind.STRING, Kind.BINARY, Kind.DECIMAL)
_MOMENTS = ("count", "avg", "var_pop")
_EXTREMES = {
    "min": Primitive(("min",), (), LEAST, (BIGINT,)),
    "max": Primitive(("max",), (), GREATEST, (BIGINT,)),
}
_SUM_DIGITS = 10
"""Digits that Spark's sum of decimals has more than its argument."""


@dataclass(frozen=True, slots=True)
class Groups:
    """Rows in an order in which those of a group are adjacent."""

    order: Rows
    begins: Rows
    """Where each group begins in that order."""

    @property
    def ends(self) -> Rows:
        """Where each group ends in that order."""
        return np.append(self.begins[1:], len(self.order))

    @property
    def sizes(self) -> Numbers:
        """How many rows each group has."""
        return np.diff(self.begins, append=len(self.order)).astype(np.int64)

    @property
    def firsts(self) -> Rows:
        """The first row of each group."""
        return self.order[self.begins]

    def added(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the sum of each group."""
        with np.errstate(all="ignore"):
            return np.add.reduceat(values[self.order], self.begins)


class Values:
    """A column of values to aggregate, in the forms that aggregates need, each computed once."""

    def __init__(self, column: pa.Array, type: DataType) -> None:
        self._column, self.type = column, type

    @cached_property
    def valid(self) -> npt.NDArray[np.bool_] | None:
        """Which values are not NULL; None where all are."""
        return np.asarray(pc.is_valid(self._column)) if self._column.null_count else None

    @cached_property
    def numbers(self) -> npt.NDArray[Any]:
        """The values as numbers, or as the ranks of their kind; anything for NULL."""
        if self.type.kind not in _RANKED:
            return decode(self._column, self.type)
        ranks = np.empty(len(self._ordered[1]), dtype=np.int64)
        ranks[self._ordered[1]] = np.arange(len(ranks))
        return ranks[np.asarray(self._ordered[0].indices)] if len(ranks) else np.zeros(len(self._column), int)

    @cached_property
    def _ordered(self) -> tuple[pa.DictionaryArray, Rows]:
        """The distinct values, and their order."""
        kind = pa.binary() if self.type.kind is Kind.STRING else self._column.type
        encoded = self._column.cast(kind).dictionary_encode(null_encoding="encode")
        return encoded, np.asarray(pc.array_sort_indices(encoded.dictionary)).astype(np.intp)

    def known(self) -> Bools:
        """Return which values are not NULL."""
        return np.ones(len(self._column), dtype=bool) if self.valid is None else self.valid

    def ranks(self) -> npt.NDArray[Any]:
        """Return the values as numbers in their order, all the same for NULL."""
        return self.numbers if self.valid is None else np.where(self.valid, self.numbers, 0)

    def restored(self, numbers: npt.NDArray[Any], valid: npt.NDArray[np.bool_]) -> pa.Array:
        """Return the values that numbers stand for."""
        if self.type.kind not in _RANKED:
            return to_arrow(numbers, valid, self.type)
        encoded, order = self._ordered
        indices = pa.array(order[np.where(valid, numbers, 0)] if len(order) else numbers, mask=~valid)
        values = encoded.dictionary.take(indices)
        return values.view(pa.string()) if self.type.kind is Kind.STRING else values

    def sums(self, groups: Groups) -> pa.Array:
        """Return the sum of each group: NULL where all values are NULL."""
        if self.type.kind is not Kind.DECIMAL:
            type = DOUBLE if self.type.is_fractional else BIGINT
            return to_arrow(groups.added(self.numbers), self.seen(groups), type)
        # Limbs of wide decimals have few digits, whatever their precision (see `_wide_limbs`).
        digits = min(self.type.precision + _SUM_DIGITS, MAX_PRECISION)
        wider = DataType(Kind.DECIMAL, digits, self.type.scale)
        values = self._column.cast(arrow_type(wider)).take(pa.array(groups.order))
        numbers = np.repeat(np.arange(len(groups.begins)), groups.sizes)
        table = pa.table({"group": numbers, "value": values})
        added = table.group_by("group", use_threads=False).aggregate([("value", "sum")])
        return added["value_sum"].combine_chunks().cast(arrow_type(wider))

    def counts(self, groups: Groups) -> Numbers:
        """Return how many values of each group are not NULL."""
        return groups.sizes if self.valid is None else groups.added(self.valid.astype(np.int64))

    def seen(self, groups: Groups) -> npt.NDArray[np.bool_]:
        """Return whether a group has a value that is not NULL."""
        return self.counts(groups) > 0

    def extremes(self, name: str, groups: Groups) -> pa.Array:
        """Return the least or the greatest value of each group: NULL where all values are NULL."""
        best = combine(_EXTREMES[name], self._partial(groups), groups.begins, groups.ends)
        return self.restored(best.fields[0], best.valid_mask())

    def moments(self, groups: Groups) -> list[pa.Array]:
        """Return count, mean and variance of each group."""
        own = self._partial(groups)
        count, value = own.valid_mask().astype(np.int64), own.fields[0]
        with np.errstate(all="ignore"):
            fields = count, value, value - value
        primitive = Primitive(_MOMENTS, (), MOMENTS, (BIGINT, DOUBLE, DOUBLE))
        combined = combine(primitive, Partial(fields, None, primitive.types), groups.begins, groups.ends)
        counts, *moments = combined.fields
        return [pa.array(counts), *(to_arrow(moment, counts > 0, DOUBLE) for moment in moments)]

    def _partial(self, groups: Groups) -> Partial:
        valid = None if self.valid is None else self.valid[groups.order]
        return Partial((self.numbers[groups.order],), valid, (self.type,))


Fields = tuple[npt.NDArray[Any], ...]


def _combined(slot: Slot, values: Sequence[Values], groups: Groups) -> list[pa.Array]:
    """Return what the partials of single rows are together, for each group."""
    if slot.lifts[-1] in _CHOSEN:
        return _chosen(slot, values, groups)
    combine_by, of_row = _ROWS[slot.lifts]
    counts = slot.lifts[0].startswith("count")
    types = (BIGINT, *(DOUBLE for _ in slot.lifts[1:])) if counts else slot.types
    combined = _combine(slot, combine_by, of_row(values), values[0].known(), types, groups)
    mask = combined.valid_mask()
    masks = [np.ones_like(mask) if counts and place == 0 else mask for place in range(len(types))]
    parts = zip(combined.fields, masks, types, strict=True)
    return [to_arrow(field, own, type) for field, own, type in parts]


def _combine(
    slot: Slot, combine_by: Combine, fields: Fields, valid: Bools, types: tuple[DataType, ...], groups: Groups
) -> Partial:
    rows = Partial(tuple(field[groups.order] for field in fields), valid[groups.order], types)
    return combine(Primitive(slot.lifts, (), combine_by, types), rows, groups.begins, groups.ends)


def _chosen(slot: Slot, values: Sequence[Values], groups: Groups) -> list[pa.Array]:
    """Return the columns of the row that is chosen in each group."""
    first, *others = values
    types = (*(type for own in others for type in (own.type, BOOLEAN)), first.type)
    fields = (*(column for own in others for column in (own.ranks(), own.known())), first.ranks())
    combined = _combine(slot, _CHOSEN[slot.lifts[-1]], fields, first.known(), types, groups)
    mask, arrays = combined.valid_mask(), list[pa.Array]()
    for own, value, known in zip(others, combined.fields[:-1:2], combined.fields[1:-1:2], strict=True):
        arrays += [own.restored(value, mask & known.astype(bool)), pa.array(mask & known.astype(bool))]
    return [*arrays, first.restored(combined.fields[-1], mask)]


def _folded(values: Sequence[Values]) -> Fields:
    return (values[0].numbers,)


def _shaped(values: Sequence[Values]) -> Fields:
    """Return each row as count, mean, variance, skewness and kurtosis: the last is the least there is."""
    number = values[0].numbers
    with np.errstate(all="ignore"):
        nothing = number - number
    return values[0].known().astype(np.int64), number, nothing, nothing, nothing - 3


def _paired(values: Sequence[Values]) -> Fields:
    """Return each row as count, means, variances and covariance."""
    x, y = (own.numbers for own in values)
    with np.errstate(all="ignore"):
        nothing = x - x, y - y, (x - x) * (y - y)
    return (values[0].known().astype(np.int64), x, y, *nothing)


_ROWS: Mapping[tuple[str, ...], tuple[Combine, Callable[[Sequence[Values]], Fields]]] = {
    ("bit_and",): (BIT_AND, _folded),
    ("bit_or",): (BIT_OR, _folded),
    ("bit_xor",): (BIT_XOR, _folded),
    ("product",): (MULTIPLY, _folded),
    ("count", "mean", "var_pop", "skewness", "kurtosis"): (SHAPE, _shaped),
    ("count.0", "mean.0", "mean.1", "var_pop.0", "var_pop.1", "covar_pop"): (COMOMENTS, _paired),
}
"""Lifts by which the partials of single rows are combined."""
_CHOSEN: Mapping[str, Combine] = {"earliest.0": EARLIEST, "latest.0": LATEST}
"""The last lifts of primitives that keep one row."""


def lifted(slot: Slot, values: Sequence[Values], groups: Groups) -> list[pa.Array]:
    """Return what Spark's aggregates of a slot are for each group; the weights, for a bag."""
    first = values[0]
    if slot.is_bag:
        return [own.sums(groups) for own in values[slot.grouped_by :]]
    if slot.lifts == _MOMENTS:
        return first.moments(groups)
    if slot.lifts in _ROWS or slot.lifts[-1] in _CHOSEN:
        return _combined(slot, values, groups)
    arrays = []
    for lift in slot.lifts:
        if lift == "count":
            arrays.append(pa.array(first.counts(groups)))
        else:
            arrays.append(first.sums(groups) if lift == "sum" else first.extremes(lift, groups))
    return arrays
