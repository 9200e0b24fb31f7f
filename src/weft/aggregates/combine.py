"""Combine partials over ranges of rows, for all due windows at once.

A range `[lo, hi)` selects the rows of one group that lie in one window; ranges may overlap and must not be
empty. Each function here has a slow twin in the tests.
"""

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from weft.aggregates.partial import Mask, Objects, Partial
from weft.aggregates.primitive import Combine

Rows = npt.NDArray[np.intp]
_EXPANDED_ROWS = 4_000_000
"""How many (window, row) pairs are spelled out at a time where no running form exists."""


def combine(how: Combine, partial: Partial, lo: Rows, hi: Rows) -> Partial:
    """Return one combined partial per range."""
    if len(lo) == 0:
        return partial.take(lo)
    fields = _COMBINERS[how](partial, lo, hi)
    valid = None if partial.valid is None else _any_valid(partial.valid, lo, hi)
    return Partial(fields, valid, partial.types)


def _any_valid(valid: Mask, lo: Rows, hi: Rows) -> Mask:
    seen = np.concatenate(([0], np.cumsum(valid)))
    return seen[hi] > seen[lo]


def _reduce(ufunc: np.ufunc, values: Objects, lo: Rows, hi: Rows) -> Objects:
    """Apply a ufunc to each range; reduceat wants the bounds interleaved and a row past the end."""
    padded = np.append(values, values[-1:])
    bounds = np.empty(2 * len(lo), dtype=np.intp)
    bounds[0::2], bounds[1::2] = lo, hi
    reduced: Objects = ufunc.reduceat(padded, bounds)[::2]
    return reduced


def _add(partial: Partial, lo: Rows, hi: Rows) -> tuple[Objects, ...]:
    values = partial.fields[0]
    if values.dtype == np.int64:
        # Prefix sums are exact for integers: whatever wraps around in the running sum wraps back.
        running = np.concatenate(([0], np.cumsum(values)))
        return (running[hi] - running[lo],)
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
    """Merge (count, mean, variance) in two passes: the mean first, then deviations from it (Chan et al.)."""
    count, mean, variance = partial.fields
    total = np.concatenate(([0], np.cumsum(count)))
    counts = total[hi] - total[lo]
    divisor = np.where(counts == 0, 1, counts)
    with np.errstate(all="ignore"):
        means = _reduce(np.add, count / 1.0 * mean, lo, hi) / divisor
        squares = np.empty(len(lo))
        for some in _chunks(hi - lo):
            squares[some] = _squares(count, mean, variance, means[some], lo[some], hi[some])
        return counts, means, squares / divisor


def _squares(count: Objects, mean: Objects, variance: Objects, means: Objects, lo: Rows, hi: Rows) -> Objects:
    lengths = hi - lo
    starts = np.cumsum(lengths) - lengths
    rows = np.arange(lengths.sum()) + np.repeat(lo - starts, lengths)
    deviation = mean[rows] - np.repeat(means, lengths)
    terms = np.where(count[rows] > 0, count[rows] * (variance[rows] + deviation * deviation), 0.0)
    added: Objects = np.add.reduceat(terms, starts)
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
