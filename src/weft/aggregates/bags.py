"""Bags: for each row, the values that a group has seen, and how often.

All bags of a column are kept in one piece. A value is a code, its place in a dictionary of distinct values in
order, so that values of every type compare, merge and count as small whole numbers.

    bags         {a: 2, c: 1}   {}   {b: 4}
    begins       0              2    2       3
    codes        0  2                1
    counts       2  1                4                dictionary  a b c

Where elements have an order of their own (an event time), a bag is sorted by that, then by value; where they
have weights, those of equal elements are added up.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from weft.aggregates.decimal_words import unscaled

Rows = npt.NDArray[np.intp]
Numbers = npt.NDArray[np.int64]
Codes = npt.NDArray[np.int32]
_MOST_CODES = 1 << 62
_WORTH_FORGETTING = 4
"""How many times the values in use those of a dictionary must be before some are forgotten."""


@dataclass(frozen=True, eq=False)
class Bags:
    """A column of bags."""

    begins: Numbers
    """Where the elements of each bag begin, and where those of the last end."""
    codes: Codes
    """Each element's value, as its place in the dictionary."""
    counts: Numbers
    """How often a bag has each of its elements."""
    dictionary: pa.Array
    """Distinct values, in Spark's order."""
    order: Numbers | None = None
    """What elements are sorted by before their values, if anything."""
    weights: npt.NDArray[Any] | None = None
    """What is added up for each element beside its count, if anything."""

    def __len__(self) -> int:
        return len(self.begins) - 1

    @property
    def sizes(self) -> Numbers:
        """How many distinct elements each bag has."""
        return np.diff(self.begins)

    @cached_property
    def owner(self) -> Rows:
        """The bag of each element."""
        return np.repeat(np.arange(len(self)), self.sizes)

    def __getitem__(self, rows: Rows | slice) -> "Bags":
        """Return some bags, in the order of `rows`."""
        if isinstance(rows, slice):
            begin, end, step = rows.indices(len(self))
            if step == 1:
                begins = self.begins[begin : max(begin, end) + 1]
                return self._elements(slice(int(begins[0]), int(begins[-1])), begins - begins[0])
            rows = np.arange(begin, end, step)
        rows = np.asarray(rows)
        if rows.dtype == bool:
            rows = np.flatnonzero(rows)
        sizes = self.sizes[rows]
        begins = np.concatenate(([0], np.cumsum(sizes)))
        return self._elements(
            np.arange(begins[-1]) + np.repeat(self.begins[rows] - begins[:-1], sizes), begins
        )

    def _elements(self, elements: Rows | slice, begins: Numbers) -> "Bags":
        return replace(
            self,
            begins=begins,
            codes=self.codes[elements],
            counts=self.counts[elements],
            order=None if self.order is None else self.order[elements],
            weights=None if self.weights is None else self.weights[elements],
        )

    def only(self, kept: npt.NDArray[np.bool_]) -> "Bags":
        """Return the bags with some of their elements."""
        if kept.all():
            return self
        begins = np.concatenate(([0], np.cumsum(kept)))[self.begins]
        return self._elements(np.flatnonzero(kept), begins)

    def added(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the sum of a value of each element, for each bag."""
        added = np.zeros(len(self), dtype=values.dtype)
        filled = np.flatnonzero(self.sizes)
        if len(filled):
            with np.errstate(all="ignore"):
                added[filled] = np.add.reduceat(values, self.begins[filled])
        return added

    def values(self, codes: Rows) -> pa.Array:
        """Return the values of some codes; a negative one is NULL."""
        return self.dictionary.take(pa.array(codes, mask=codes < 0))

    def merged(self, lo: Rows, hi: Rows) -> "Bags":
        """Return a bag for each range of bags: what all of these hold together."""
        sizes = self.begins[hi] - self.begins[lo]
        begins = np.concatenate(([0], np.cumsum(sizes)))
        elements = np.arange(begins[-1]) + np.repeat(self.begins[lo] - begins[:-1], sizes)
        return bags(
            np.repeat(np.arange(len(lo)), sizes), len(lo), self.codes[elements], self.dictionary,
            counts=self.counts[elements],
            order=None if self.order is None else self.order[elements],
            weights=None if self.weights is None else self.weights[elements],
        )  # fmt: skip

    @classmethod
    def empty(cls, rows: int, type: pa.DataType) -> "Bags":
        """Return bags that hold nothing."""
        return cls(
            begins=np.zeros(rows + 1, dtype=np.int64), codes=np.empty(0, dtype=np.int32),
            counts=np.empty(0, dtype=np.int64), dictionary=pa.array([], type),
        )  # fmt: skip

    @classmethod
    def joined(cls, columns: Sequence["Bags"]) -> "Bags":
        """Return the bags of all columns, one after the other.

        A store joins bags in every batch, so that values that are gone are forgotten here.
        """
        if len(columns) == 1:
            return columns[0]
        dictionary, codes = _one_dictionary(columns)
        ends = np.cumsum([0, *(int(bags.begins[-1]) for bags in columns)])
        begins = [bags.begins[:-1] + end for bags, end in zip(columns, ends.tolist(), strict=False)]
        return cls(
            begins=np.concatenate([*begins, ends[-1:]]),
            codes=codes,
            counts=np.concatenate([bags.counts for bags in columns]),
            dictionary=dictionary,
            order=_side_by_side([(len(bags.codes), bags.order) for bags in columns]),
            weights=_side_by_side([(len(bags.codes), bags.weights) for bags in columns]),
        ).compact()

    def compact(self) -> "Bags":
        """Return the same bags without values that none of them holds, if those are many."""
        used = np.zeros(len(self.dictionary), dtype=bool)
        used[self.codes] = True
        kept = np.flatnonzero(used)
        if len(kept) * _WORTH_FORGETTING > len(used):
            return self
        renamed = (np.cumsum(used) - 1).astype(np.int32)
        return replace(self, codes=renamed[self.codes], dictionary=self.dictionary.take(pa.array(kept)))

    def to_arrow(self) -> pa.Array:
        """Return a list of elements for each bag."""
        fields = {"value": self.dictionary.take(pa.array(self.codes)), "count": pa.array(self.counts)}
        if self.order is not None:
            fields["order"] = pa.array(self.order)
        if self.weights is not None:
            # Exact whole numbers may be wider than any Arrow integer.
            wide = self.weights.dtype == object
            fields["weight"] = (
                pa.array(map(str, self.weights), pa.string()) if wide else pa.array(self.weights)
            )
        elements = pa.StructArray.from_arrays(list(fields.values()), list(fields))
        return pa.LargeListArray.from_arrays(pa.array(self.begins), elements)

    @classmethod
    def from_arrow(cls, column: pa.ChunkedArray) -> "Bags":
        """Return the bags whose elements are given."""
        lists = column.combine_chunks()
        lists = lists.chunk(0) if isinstance(lists, pa.ChunkedArray) else lists
        begins = np.asarray(lists.offsets).astype(np.int64)
        elements = lists.values.slice(int(begins[0]), int(begins[-1] - begins[0]))
        own = {field.name: elements.field(index) for index, field in enumerate(elements.type)}
        codes, dictionary = encoded(own["value"])
        return cls(
            begins=begins - begins[0], codes=codes, counts=np.asarray(own["count"]), dictionary=dictionary,
            order=np.asarray(own["order"]) if "order" in own else None,
            weights=_weights(own["weight"]) if "weight" in own else None,
        )  # fmt: skip


def bags(
    owner: Rows, rows: int, codes: Codes, dictionary: pa.Array, *,
    counts: Numbers | None = None, order: Numbers | None = None, weights: npt.NDArray[Any] | None = None,
) -> Bags:  # fmt: skip
    """Return bags of elements given in any order; those that are equal become one.

    `owner` is the bag of each element.
    """
    sorting = _sorting(owner, codes, len(dictionary), order)
    owner, codes = owner[sorting], codes[sorting]
    order = None if order is None else order[sorting]
    new = np.ones(len(codes), dtype=bool)
    new[1:] = (owner[1:] != owner[:-1]) | (codes[1:] != codes[:-1])
    if order is not None:
        new[1:] |= order[1:] != order[:-1]
    firsts = np.flatnonzero(new)
    if counts is None:
        counts = np.diff(firsts, append=len(codes))
    else:
        counts = np.add.reduceat(counts[sorting], firsts) if len(firsts) else counts[:0]
    if weights is not None:
        if weights.dtype == np.int64 and np.abs(weights.astype(np.float64)).sum() >= 1 << 62:
            weights = weights.astype(object)
        with np.errstate(all="ignore"):
            weights = np.add.reduceat(weights[sorting], firsts) if len(firsts) else weights[:0]
    return Bags(
        begins=np.searchsorted(owner[firsts], np.arange(rows + 1)).astype(np.int64),
        codes=codes[firsts].astype(np.int32, copy=False),
        counts=counts.astype(np.int64, copy=False),
        dictionary=dictionary,
        order=None if order is None else order[firsts],
        weights=weights,
    )


def encoded(values: pa.Array) -> tuple[Codes, pa.Array]:
    """Return each value's place among the distinct values in order, and these; there must be no NULL."""
    if pa.types.is_floating(values.type):
        # There is one zero.
        values = pc.add(values, pa.scalar(0.0, values.type))
    known = values.dictionary_encode()
    sorting = np.asarray(pc.array_sort_indices(known.dictionary)).astype(np.intp)
    ranks = np.empty(len(sorting), dtype=np.int32)
    ranks[sorting] = np.arange(len(sorting), dtype=np.int32)
    indices = np.asarray(known.indices)
    return (ranks[indices] if len(ranks) else indices), known.dictionary.take(pa.array(sorting))


def whole_or_double(sums: pa.ChunkedArray) -> npt.NDArray[Any]:
    """Return sums of weights as doubles, or exactly as whole numbers; 0 for NULL."""
    if pa.types.is_decimal(sums.type):
        return unscaled(sums.combine_chunks().cast(pa.decimal128(38, 0)))
    return np.asarray(pc.fill_null(sums, 0))


def _weights(stored: pa.Array) -> npt.NDArray[Any]:
    if not pa.types.is_string(stored.type):
        return np.asarray(stored)
    return np.array([*map(int, stored.to_pylist()), None], dtype=object)[:-1]


def _one_dictionary(columns: Sequence[Bags]) -> tuple[pa.Array, Codes]:
    """Return one dictionary for all, and the codes of all elements in it."""
    first = columns[0].dictionary
    if all(own.dictionary is first for own in columns):
        return first, np.concatenate([own.codes for own in columns])
    ranks, dictionary = encoded(pa.concat_arrays([own.dictionary for own in columns]))
    cuts = np.cumsum([len(own.dictionary) for own in columns])[:-1]
    renamed = np.split(ranks, cuts)
    codes = [
        names[own.codes] if len(names) else own.codes for names, own in zip(renamed, columns, strict=True)
    ]
    return dictionary, np.concatenate(codes)


def _side_by_side(columns: Sequence[tuple[int, npt.NDArray[Any] | None]]) -> npt.NDArray[Any] | None:
    """Return columns one after the other; those that are None have no elements, or all are None."""
    given = [column for _, column in columns if column is not None]
    return np.concatenate(given) if given else None


def _sorting(owner: Rows, codes: Codes, values: int, order: Numbers | None) -> Rows:
    """Return the order of elements: by bag, then by their own order, then by value."""
    if order is not None:
        return np.lexsort((codes, order, owner))
    whole = owner.astype(np.int64) * max(values, 1) + codes
    if len(whole) < 2 or (whole[1:] >= whole[:-1]).all():
        return np.arange(len(whole))
    bits = len(whole).bit_length()
    if int(whole.max(initial=0)) << bits < _MOST_CODES:
        # Sorting numbers that contain their index is several times as fast as sorting indices.
        return np.sort((whole << bits) | np.arange(len(whole))) & ((1 << bits) - 1)
    return np.argsort(whole, kind="stable")
