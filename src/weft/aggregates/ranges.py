"""Ranges of bags: what the bags of each range hold together, without merging them.

Windows overlap, so that merging the bags of each takes as long as all windows are long. Sketches are read
off the bags as they are: the k-th value of a range by descending a tree of all elements (Grossi, Gupta and
Vitter, High-order entropy-compressed text indexes, 2003), one level for all ranges at a time.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from weft.aggregates.bags import Bags, Numbers, Rows

_ELEMENTS = 1 << 22
"""Maximum number of elements that are merged together, but for those of one range."""


@dataclass(frozen=True, eq=False)
class Ranges:
    """A column of ranges of bags."""

    source: Bags
    lo: Rows
    hi: Rows

    def __len__(self) -> int:
        return len(self.lo)

    def __getitem__(self, rows: Rows | slice) -> "Ranges":
        """Return some ranges, in the order of `rows`."""
        return Ranges(self.source, self.lo[rows], self.hi[rows])

    def over(self, lo: Rows, hi: Rows) -> "Ranges":
        """Return ranges of ranges, where each begins where the one before it ends."""
        return Ranges(self.source, self.lo[lo], self.hi[hi - 1])

    @property
    def begins(self) -> Numbers:
        """Where the elements of each range begin."""
        return self.source.begins[self.lo]

    @property
    def ends(self) -> Numbers:
        """Where the elements of each range end."""
        return self.source.begins[self.hi]

    @property
    def totals(self) -> Numbers:
        """How many values each range holds, repeated ones included."""
        through = np.concatenate(([0], np.cumsum(self.source.counts)))
        totals: Numbers = through[self.ends] - through[self.begins]
        return totals

    def merged(self) -> Iterator[Bags]:
        """Yield the bags that ranges hold together, in pieces of bounded size."""
        passed = np.cumsum(self.ends - self.begins)
        begin = 0
        while begin < len(self):
            before = int(passed[begin - 1]) if begin else 0
            end = max(begin + 1, int(np.searchsorted(passed, before + _ELEMENTS, side="right")))
            yield self.source.merged(self.lo[begin:end], self.hi[begin:end])
            begin = end

    def codes_at(self, rank: Numbers) -> Numbers:
        """Return the codes of the values with some ranks, counted from 0; several columns at once.

        Elements are in the order of rows, then by the upper bits of their codes: those with a bit follow
        those without.

            codes        2 0 | 3 1 2        bit 1     0 1 | 2 3 2        bit 0     0 | 1 | 2 2 | 3
        """
        first = int(self.begins.min(initial=np.iinfo(np.int64).max))
        span = slice(first, max(first, int(self.ends.max(initial=0))))
        codes, counts = self.source.codes[span], self.source.counts[span]
        shape = rank.shape[1:]
        begin, end = (
            np.broadcast_to((own - first).reshape(-1, *(1 for _ in shape)), rank.shape)
            for own in (self.begins, self.ends)
        )
        repeated = bool((counts != 1).any())
        rank, found = rank.copy(), np.zeros(rank.shape, dtype=np.int64)
        for bit in reversed(range(max(len(self.source.dictionary) - 1, 0).bit_length())):
            without = (codes >> bit) & 1 == 0
            places = _sums(without)
            lower_begin, lower_end = places[begin], places[end]
            if repeated:
                through = _sums(np.where(without, counts, 0))
                lower = through[end] - through[begin]
            else:
                lower = lower_end - lower_begin
            upper = rank >= lower
            rank -= np.where(upper, lower, 0)
            found |= upper.astype(np.int64) << bit
            begin = np.where(upper, places[-1] + begin - lower_begin, lower_begin)
            end = np.where(upper, places[-1] + end - lower_end, lower_end)
            codes = np.concatenate((codes[without], codes[~without]))
            if repeated:
                counts = np.concatenate((counts[without], counts[~without]))
        return found


def _sums(values: npt.NDArray[np.bool_] | Numbers) -> Numbers:
    """Return the sums of all values before each place, and of all."""
    sums = np.zeros(len(values) + 1, dtype=np.int64)
    np.cumsum(values, out=sums[1:])
    return sums
