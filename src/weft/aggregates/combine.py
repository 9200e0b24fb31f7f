"""Combine partials over ranges of rows, for all due windows at once.

A range `[lo, hi)` selects the rows of one group that lie in one window; ranges may overlap and must not be
empty. Each function here has a slow twin in the tests.

Short ranges are reduced row by row. Where long ranges overlap much, rows are accumulated beforehand, outward
from cuts between them, and a range is the sum of two totals: up to a cut inside it, and from that cut. Levels
1, 2, 3, … have their cuts at the odd multiples of 1, 2, 4, … rows, and a range uses the highest level with a
cut inside it. Nothing is ever subtracted, so large values cannot swallow small ones, and minimum and maximum
work in the same way.

    rows       0 1 2 3 4 5 6 7
    level 1    0|1 2|3 4|5 6|7        [4, 6) is 4 and 5
    level 2    01|23   45|67          [1, 3) is 1 and 2
    level 3    0123|4567              [1, 7) is 123 and 456
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from weft.aggregates.bags import Bags
from weft.aggregates.partial import (
    Combine,
    Field,
    Mask,
    Objects,
    Partial,
    Primitive,
    Rows,
    RunningForm,
    arrow_type,
    concatenate,
)
from weft.aggregates.ranges import Ranges
from weft.types import DataType

_EXPANDED_ROWS = 4_000_000
"""How many (window, row) pairs are expanded at a time where there is no running form."""
_WORTH_PIECES = 4
"""How many times the rows of all ranges must outnumber the pieces that the ranges consist of."""
_SHORT = 4
"""Up to this average length, ranges are reduced row by row."""


def combine(primitive: Primitive, partial: Partial, lo: Rows, hi: Rows) -> Partial:
    """Return one combined partial per range."""
    if len(lo) == len(partial) and follow(lo, hi, len(partial)):
        return partial
    lengths = hi - lo
    if len(lo) == 0 or int(lengths.max()) == 1:
        return partial.take(lo)
    pieces = len(partial) + 2 * len(lengths) * int(lengths.max()).bit_length()
    if primitive.combine.in_pieces and int(lengths.sum()) > _WORTH_PIECES * pieces:
        return _by_pieces(primitive, partial, lo, hi)
    return _directly(primitive, partial, lo, hi)


def merged(primitive: Primitive, partial: Partial, lo: Rows, hi: Rows) -> Partial:
    """Return one combined partial per range, as a store keeps it."""
    return kept(primitive, combine(primitive, partial, lo, hi))


def materialized(primitive: Primitive, partial: Partial) -> Partial:
    """Return partials that are ranges of bags as merged bags, which are not bounded again."""
    field = partial.fields[0]
    if not isinstance(field, Ranges):
        return partial
    return combine(primitive, replace(partial, fields=(field.source,)), field.lo, field.hi)


def kept(primitive: Primitive, partial: Partial) -> Partial:
    """Return partials as a store keeps them: sketches are bounded."""
    return replace(partial, fields=primitive.combine.kept(partial.fields))


def _by_pieces(primitive: Primitive, partial: Partial, lo: Rows, hi: Rows) -> Partial:
    """Combine ranges of pieces whose lengths are powers of two: at most two of each."""
    ranges, pieces, which = np.arange(len(lo)), [], []
    lo, hi, level = lo.copy(), hi.copy(), partial
    while len(ranges):
        # An odd first row, or an even last one, is in no larger piece of its range.
        left, right = (lo & 1) == 1, (hi & 1) == 1
        hi[right] -= 1
        taken = np.concatenate([lo[left], hi[right]])
        pieces.append(level.take(taken))
        which.append(np.concatenate([ranges[left], ranges[right]]))
        lo, hi = (lo + 1) >> 1, hi >> 1
        more = np.flatnonzero(lo < hi)
        ranges, lo, hi = ranges[more], lo[more], hi[more]
        if len(ranges):
            begins = np.arange(0, len(level), 2)
            ends = np.minimum(begins + 2, len(level))
            level = _directly(primitive, level, begins, ends)
    of = np.concatenate(which)
    order = np.argsort(of, kind="stable")
    begins = np.flatnonzero(np.diff(of[order], prepend=-1))
    ends = np.append(begins[1:], len(of))
    return _directly(primitive, concatenate(pieces).take(order), begins, ends)


def _directly(primitive: Primitive, partial: Partial, lo: Rows, hi: Rows) -> Partial:
    fields = primitive.combine.merge(partial, lo, hi)
    valid = partial.valid
    if valid is not None and follow(lo, hi, len(valid)):
        valid = np.logical_or.reduceat(valid, lo)
    elif valid is not None:
        seen = _running(valid)
        valid = seen[hi] > seen[lo]
    return Partial(fields, valid, partial.types)


def follow(lo: Rows, hi: Rows, rows: int) -> bool:
    """Say whether each range begins where the previous one ends, up to the last row."""
    return len(lo) > 0 and int(hi[-1]) == rows and np.array_equal(lo[1:], hi[:-1])


def _running(values: npt.NDArray[np.int64] | Mask) -> npt.NDArray[np.int64]:
    """Return the sums of all values before each row, and of all."""
    sums = np.empty(len(values) + 1, dtype=np.int64)
    sums[0] = 0
    np.cumsum(values, out=sums[1:])
    return sums


def reduce_ranges(ufunc: np.ufunc, values: Objects, lo: Rows, hi: Rows) -> Objects:
    """Apply a ufunc to each range."""
    if follow(lo, hi, len(values)):
        return ufunc.reduceat(values, lo)
    lengths = hi - lo
    if int(lengths.sum()) > _SHORT * len(lo) and len(values) > 1:
        return _by_levels(ufunc, values, lo, hi - 1)
    # reduceat wants the bounds interleaved and a row past the end.
    padded = np.append(values, values[-1:])
    bounds = np.empty(2 * len(lo), dtype=np.intp)
    bounds[0::2], bounds[1::2] = lo, hi
    return ufunc.reduceat(padded, bounds)[::2]


def _by_levels(ufunc: np.ufunc, values: Objects, first: Rows, last: Rows) -> Objects:
    """Apply a ufunc to ranges, given by their first and last rows, as two totals each."""
    highest = int((last - first).max()).bit_length() + 1
    level = np.minimum(np.frexp((first ^ last).astype(np.float64))[1], highest)
    reduced = values[first]
    for used in np.unique(level[level > 0]).tolist():
        half = 1 << (used - 1)
        ranges = np.flatnonzero(level == used)
        halves = np.append(values, np.broadcast_to(values[-1:], -len(values) % half)).reshape(-1, half)
        before = ufunc.accumulate(halves[:, ::-1], axis=1)[:, ::-1].reshape(-1)
        after = ufunc.accumulate(halves, axis=1).reshape(-1)
        reduced[ranges] = ufunc(before[first[ranges]], after[last[ranges]])
    return reduced


def expanded(lo: Rows, hi: Rows) -> Iterator[tuple[slice, Rows, Rows]]:
    """Yield ranges in pieces of bounded size: which these are, the rows of all, where each begins there."""
    # Runs of ranges with at most _EXPANDED_ROWS rows (or one range).
    passed = np.cumsum(hi - lo) // _EXPANDED_ROWS
    cuts = [0, *(np.flatnonzero(np.diff(passed)) + 1).tolist(), len(lo)]
    for part in (slice(begin, end) for begin, end in pairwise(cuts)):
        lengths = hi[part] - lo[part]
        starts = np.cumsum(lengths) - lengths
        yield part, np.arange(lengths.sum()) + np.repeat(lo[part] - starts, lengths), starts


class Folded(Combine):
    """Partials merged by one ufunc."""

    def __init__(self, name: str, running: RunningForm, *, rounds: bool = False) -> None:
        self.name, self.running, self.rounds = name, running, rounds

    def merge(self, partial: Partial, lo: Rows, hi: Rows) -> tuple[Field, ...]:
        """Return what the ufunc makes of each range."""
        assert self.running is not None
        values = partial.fields[0]
        nothing = self.running.nothing_double if values.dtype == np.float64 else self.running.nothing_integer
        with np.errstate(all="ignore"):
            return (
                reduce_ranges(self.running.ufunc, np.where(partial.valid_mask(), values, nothing), lo, hi),
            )


class Add(Combine):
    """Sums and counts."""

    name, invertible, rounds = "add", True, True
    running = RunningForm(np.add, 0.0, 0)

    def merge(self, partial: Partial, lo: Rows, hi: Rows) -> tuple[Field, ...]:
        """Return the sum of each range."""
        values = partial.fields[0]
        if values.dtype == np.int64 and not follow(lo, hi, len(values)):
            # What overflows in a running total of integers is undone by the subtraction.
            running = _running(values)
            return (running[hi] - running[lo],)
        with np.errstate(all="ignore"):
            return (reduce_ranges(np.add, values, lo, hi),)


class Extreme(Combine):
    """The least values, or the greatest ones."""

    def __init__(self, name: str, running: RunningForm, *, last: bool) -> None:
        self.name, self.running, self._last = name, running, last

    def merge(self, partial: Partial, lo: Rows, hi: Rows) -> tuple[Field, ...]:
        """Return the least or the greatest value of each range."""
        assert self.running is not None
        ufunc, last = self.running.ufunc, self._last
        values, valid = partial.fields[0], partial.valid_mask()
        if values.dtype == object:
            # Strings and decimals are compared by their rank.
            known, ranks = np.unique(values, return_inverse=True)
            best = reduce_ranges(ufunc, np.where(valid, ranks, -1 if last else len(known)), lo, hi)
            return (known[np.clip(best, 0, len(known) - 1)],)
        # Never the result: fmin ignores NaN, which is the greatest of Spark's doubles.
        is_double = values.dtype == np.float64
        neutral = self.running.nothing_double if is_double else self.running.nothing_integer
        return (reduce_ranges(ufunc, np.where(valid, values, neutral), lo, hi),)


class Bagged(Combine):
    """Bags of values, for aggregates that no number of fixed size is enough for."""

    name, never_null = "bag", True

    def merge(self, partial: Partial, lo: Rows, hi: Rows) -> tuple[Field, ...]:
        """Return what the bags of each range hold together."""
        return (partial.fields[0].merged(lo, hi),)

    def empty(self, types: tuple[DataType, ...], rows: int) -> tuple[Field, ...]:
        """Return bags that hold nothing."""
        return (Bags.empty(rows, arrow_type(types[0])),)


_INTEGERS = np.iinfo(np.int64)
ADD = Add()
LEAST = Extreme("least", RunningForm(np.fmin, np.nan, int(_INTEGERS.max)), last=False)
GREATEST = Extreme("greatest", RunningForm(np.maximum, -np.inf, int(_INTEGERS.min)), last=True)
BAG = Bagged()
