"""Combine partials over ranges of rows, for all due windows at once.

A range `[lo, hi)` selects the rows of one group that lie in one window; ranges may overlap and must not be
empty. Each function here has a slow twin in the tests.

Short ranges are reduced row by row. Where long ranges overlap much, rows are added up beforehand, outward
from places between them, and a range is the sum of two totals: up to such a place, and from it. Which place
depends on the range: the levels have places at all odd multiples of 1, 2, 4, … rows, and the highest level at
which a range has one is taken. Nothing is ever subtracted, so large values cannot swallow small ones, and
minimum and maximum work alike.

    rows       0 1 2 3 4 5 6 7
    level 1    0|1 2|3 4|5 6|7        [4, 6) is 4 and 5
    level 2    01|23   45|67          [1, 3) is 1 and 2
    level 3    0123|4567              [1, 7) is 123 and 456
"""

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from weft.aggregates.partial import Mask, Objects, Partial, concatenate
from weft.aggregates.primitive import Combine, Primitive

Rows = npt.NDArray[np.intp]
_EXPANDED_ROWS = 4_000_000
"""How many (window, row) pairs are spelled out at a time where no running form exists."""
_WORTH_PIECES = 4
"""How many times the rows of all ranges must outnumber the pieces that they would be put together from."""
_SHORT = 4
"""Up to this average length, ranges are reduced row by row."""


def combine(primitive: Primitive, partial: Partial, lo: Rows, hi: Rows) -> Partial:
    """Return one combined partial per range."""
    if len(lo) == len(partial) and _follow(lo, hi, len(partial)):
        return partial
    lengths = hi - lo
    if len(lo) == 0 or int(lengths.max()) == 1:
        return partial.take(lo)
    if primitive.combine is Combine.MOMENTS and _overlap_much(len(partial), lengths):
        return _by_pieces(primitive, partial, lo, hi)
    return _directly(primitive, partial, lo, hi)


def _overlap_much(rows: int, lengths: Rows) -> bool:
    """Say whether ranges have so many rows that pieces are fewer by far."""
    return int(lengths.sum()) > _WORTH_PIECES * (rows + 2 * len(lengths) * int(lengths.max()).bit_length())


def _by_pieces(primitive: Primitive, partial: Partial, lo: Rows, hi: Rows) -> Partial:
    """Combine ranges of pieces whose lengths are powers of two: at most two of each."""
    ranges, pieces, which = np.arange(len(lo)), [], []
    lo, hi, level = lo.copy(), hi.copy(), partial
    while len(ranges):
        # What begins a range at an odd place, or ends it after an even one, is in no larger piece of it.
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
    fields = _COMBINERS[primitive.combine](partial, lo, hi)
    valid = None if partial.valid is None else _any_valid(partial.valid, lo, hi)
    return Partial(fields, valid, partial.types)


def _any_valid(valid: Mask, lo: Rows, hi: Rows) -> Mask:
    if _follow(lo, hi, len(valid)):
        return np.logical_or.reduceat(valid, lo)
    seen = _running(valid)
    return seen[hi] > seen[lo]


def _follow(lo: Rows, hi: Rows, rows: int) -> bool:
    """Say whether each range begins where the one before it ends, up to the last row."""
    return len(lo) > 0 and int(hi[-1]) == rows and np.array_equal(lo[1:], hi[:-1])


def _running(values: npt.NDArray[np.int64] | Mask) -> npt.NDArray[np.int64]:
    """Return the sums of all values before each row, and of all."""
    sums = np.empty(len(values) + 1, dtype=np.int64)
    sums[0] = 0
    np.cumsum(values, out=sums[1:])
    return sums


def _reduce(ufunc: np.ufunc, values: Objects, lo: Rows, hi: Rows) -> Objects:
    """Apply a ufunc to each range."""
    if _follow(lo, hi, len(values)):
        in_turn: Objects = ufunc.reduceat(values, lo)
        return in_turn
    lengths = hi - lo
    if int(lengths.sum()) > _SHORT * len(lo) and len(values) > 1:
        return _by_levels(ufunc, values, lo, hi - 1)
    # reduceat wants the bounds interleaved and a row past the end.
    padded = np.append(values, values[-1:])
    bounds = np.empty(2 * len(lo), dtype=np.intp)
    bounds[0::2], bounds[1::2] = lo, hi
    reduced: Objects = ufunc.reduceat(padded, bounds)[::2]
    return reduced


def _by_levels(ufunc: np.ufunc, values: Objects, first: Rows, last: Rows) -> Objects:
    """Apply a ufunc to ranges, given by their first and last rows, as two totals each."""
    highest = int((last - first).max()).bit_length() + 1
    level = np.minimum(np.frexp((first ^ last).astype(np.float64))[1], highest)
    reduced = values[first]
    for each in np.unique(level[level > 0]).tolist():
        half = 1 << (each - 1)
        ranges = np.flatnonzero(level == each)
        halves = np.append(values, np.broadcast_to(values[-1:], -len(values) % half)).reshape(-1, half)
        before = ufunc.accumulate(halves[:, ::-1], axis=1)[:, ::-1].reshape(-1)
        after = ufunc.accumulate(halves, axis=1).reshape(-1)
        reduced[ranges] = ufunc(before[first[ranges]], after[last[ranges]])
    return reduced


def _add(partial: Partial, lo: Rows, hi: Rows) -> tuple[Objects, ...]:
    values = partial.fields[0]
    if values.dtype == np.int64 and not _follow(lo, hi, len(values)):
        # Whatever wraps around in a running total of integers wraps back.
        running = _running(values)
        return (running[hi] - running[lo],)
    with np.errstate(all="ignore"):
        return (_reduce(np.add, values, lo, hi),)


def _extreme(ufunc: np.ufunc, last: bool) -> Callable[[Partial, Rows, Rows], tuple[Objects, ...]]:
    def extreme(partial: Partial, lo: Rows, hi: Rows) -> tuple[Objects, ...]:
        values, valid = partial.fields[0], partial.valid_mask()
        if values.dtype == object:
            # Strings and decimals are compared by their rank.
            known, ranks = np.unique(values, return_inverse=True)
            best = _reduce(ufunc, np.where(valid, ranks, -1 if last else len(known)), lo, hi)
            return (known[np.clip(best, 0, len(known) - 1)],)
        filler = _filler(values.dtype, last)
        return (_reduce(ufunc, np.where(valid, values, filler), lo, hi),)

    return extreme


def _filler(dtype: npt.DTypeLike, last: bool) -> float | int:
    """Return a value that never wins; NaN is what fmin passes over and the greatest of Spark's doubles."""
    if dtype == np.float64:
        return -np.inf if last else np.nan
    return int(np.iinfo(np.int64).min if last else np.iinfo(np.int64).max)


def _moments(partial: Partial, lo: Rows, hi: Rows) -> tuple[Objects, ...]:
    """Merge (count, mean, variance): the mean first, then deviations from it (Chan et al.)."""
    count, mean, variance = partial.fields
    total = np.concatenate(([0], np.cumsum(count)))
    counts = total[hi] - total[lo]
    means, squares = np.empty(len(lo)), np.empty(len(lo))
    pivots = mean[_first_counted(count, lo)]
    with np.errstate(all="ignore"):
        for some in _chunks(hi - lo):
            rows, starts = _spelled_out(lo[some], hi[some])
            counted = counts[some] / 1.0, pivots[some]
            means[some], squares[some] = _deviations(
                count[rows], mean[rows], variance[rows], starts, *counted
            )
        return counts, means, squares / np.where(counts == 0, 1, counts)


def _first_counted(count: Objects, lo: Rows) -> Rows:
    """Return, for each range, its first row that counts anything (any row, where none does)."""
    places = np.where(count > 0, np.arange(len(count)), len(count) - 1)
    first: Rows = np.minimum.accumulate(places[::-1])[::-1][lo]
    return first


def _spelled_out(lo: Rows, hi: Rows) -> tuple[Rows, Rows]:
    """Return the rows of all ranges one after the other, and where each range begins among them."""
    lengths = hi - lo
    starts = np.cumsum(lengths) - lengths
    return np.arange(lengths.sum()) + np.repeat(lo - starts, lengths), starts


def _deviations(
    count: Objects, mean: Objects, variance: Objects, starts: Rows, total: Objects, pivot: Objects
) -> tuple[Objects, Objects]:
    """Return the mean of each range and the sum of squared deviations from it.

    Means are added up as distances from one of them, so that a constant has no variance at all; what error
    the mean still has is taken out of the squares.
    """
    lengths = np.diff(np.append(starts, len(count)))
    total = np.where(total == 0, 1, total)
    means = pivot + _weighed(mean - np.repeat(pivot, lengths), count, starts) / total
    deviation = mean - np.repeat(means, lengths)
    squares = _weighed(variance + deviation * deviation, count, starts)
    slip = _weighed(deviation, count, starts)
    return means, np.maximum(squares - slip * slip / total, 0.0)


def _weighed(values: Objects, count: Objects, starts: Rows) -> Objects:
    added: Objects = np.add.reduceat(np.where(count > 0, count * values, 0.0), starts)
    return added


def _chunks(lengths: Rows) -> list[slice]:
    """Cut the ranges into runs of at most _EXPANDED_ROWS rows (or one range)."""
    passed = np.cumsum(lengths) // _EXPANDED_ROWS
    cuts = [0, *(np.flatnonzero(np.diff(passed)) + 1).tolist(), len(lengths)]
    return [slice(begin, end) for begin, end in pairwise(cuts)]


_COMBINERS: dict[Combine, Callable[[Partial, Rows, Rows], tuple[Objects, ...]]] = {
    Combine.ADD: _add,
    Combine.LEAST: _extreme(np.fmin, last=False),
    Combine.GREATEST: _extreme(np.maximum, last=True),
    Combine.MOMENTS: _moments,
}
