"""Bags of windows: elements are sorted once, by key and value, and each window picks its own from them.

What is picked stays in order, so that nothing is sorted again, however much windows overlap: for each window
one pass over the elements of its ask says which are in it, and those that are equal are added up.

    elements    key      a a a a b b b        all slices and fragments of a span of time, in order
                value    1 1 2 3 1 2 2
                slice    0 2 1 2 0 0 1
    window of slices 0 and 1    a 1, a 2, b 1, b 2 twice
"""

from collections.abc import Iterator, Sequence
from copy import copy
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from weft.aggregates import Bags, Partial, Primitive
from weft.arrays import Bools, Ids, Rows, as_one, in_order, spelled_out
from weft.predicates import Formula
from weft.state.signatures import Fragments
from weft.state.sorted_runs import ShardsByKey
from weft.state.store import Combined, DueWindows

_MOST_ELEMENTS = 1 << 22
"""Maximum number of elements picked together, but for those of one window."""


class Elements:
    """The elements of all shards' bags of one primitive, by key, then by their own order and value.

    All columns are laid out in that order, so that picking reads memory from front to back.
    """

    def __init__(self, shards: ShardsByKey, primitive: Primitive) -> None:
        whole: Bags = shards.partial(primitive).fields[0]
        sorting = _in_order(shards.key, whole)
        owner = whole.owner[sorting]
        self.primitive, self.dictionary = primitive, whole.dictionary
        self.starts, slices = np.unique(shards.start, return_inverse=True)
        """The distinct starts of slices."""
        self.slice = slices.astype(np.int32)[owner]
        self.key, self.fragment = shards.key[owner], shards.fragment[owner]
        self.codes, self.counts = whole.codes[sorting], whole.counts[sorting]
        self.order = None if whole.order is None else whole.order[sorting]
        self.weights = None if whole.weights is None else whole.weights[sorting]
        new = np.ones(len(sorting), dtype=bool)
        new[1:] = (self.key[1:] != self.key[:-1]) | (self.codes[1:] != self.codes[:-1])
        if self.order is not None:
            new[1:] |= self.order[1:] != self.order[:-1]
        self.number = np.cumsum(new, dtype=np.int32)
        """The same for elements of one key that are equal."""

    def where(self, counting: Bools, since: int, until: int) -> "Elements":
        """Return the elements of fragments that count, of slices that begin in a span of time."""
        inside = self._between(since, until)
        if not counting.all():
            inside &= counting[self.fragment]
        return self if inside.all() else self._picked(np.flatnonzero(inside))

    def _between(self, since: int, until: int) -> Bools:
        first, last = np.searchsorted(self.starts, [since, until])
        inside: Bools = (self.slice >= np.int32(first)) & (self.slice < np.int32(last))
        return inside

    def _picked(self, rows: Rows) -> "Elements":
        picked = copy(self)
        for name in ("slice", "key", "fragment", "codes", "counts", "number", "order", "weights"):
            column = getattr(self, name)
            setattr(picked, name, None if column is None else column[rows])
        return picked

    def window(self, since: int, until: int, keys: npt.NDArray[np.integer]) -> Bags:
        """Return the bag of each of some keys, in order, in one window."""
        rows = self._of_keys(np.flatnonzero(self._between(since, until)), keys)
        number = self.number[rows]
        new = np.ones(len(rows), dtype=bool)
        np.not_equal(number[1:], number[:-1], out=new[1:])
        firsts = np.flatnonzero(new)
        mine = rows if len(firsts) == len(rows) else rows[firsts]
        begins = np.searchsorted(self.key[mine], np.append(keys, keys[-1:] + 1))
        return Bags(
            begins=begins.astype(np.int64, copy=False),
            codes=self.codes[mine],
            counts=_added(self.counts[rows], firsts),
            dictionary=self.dictionary,
            order=None if self.order is None else self.order[mine],
            weights=None if self.weights is None else _added(self.weights[rows], firsts),
        )

    def _of_keys(self, rows: Rows, keys: npt.NDArray[np.integer]) -> Rows:
        """Return the rows of some keys: other keys of a window may be in another piece."""
        key = self.key[rows]
        lo, hi = np.searchsorted(key, keys), np.searchsorted(key, keys, side="right")
        return rows if int((hi - lo).sum()) == len(rows) else rows[spelled_out(lo, hi - lo)]


def _in_order(keys: Ids, whole: Bags) -> Rows:
    """Return the order of elements by key, then by their own order and value."""
    key = keys[whole.owner]
    if whole.order is not None:
        return np.lexsort((whole.codes, whole.order, key))
    return in_order(as_one((key, whole.codes), len(key)))[0]


def _added(values: npt.NDArray[Any], firsts: Rows) -> npt.NDArray[Any]:
    """Return the sums of stretches of values, given where each begins."""
    if len(firsts) == len(values):
        return values
    with np.errstate(all="ignore"):
        added: npt.NDArray[Any] = np.add.reduceat(values, firsts)
    return added


def with_bags(
    fragments: Fragments, shards: ShardsByKey, due: DueWindows, predicates: Sequence[Formula],
    bagged: Sequence[Primitive], pieces: Iterator[Combined],
) -> Iterator[Combined]:  # fmt: skip
    """Yield windows whose other partials are combined, with their bags, in pieces of bounded size."""
    columns = [Elements(shards, primitive) for primitive in bagged]
    asks: dict[int, list[Elements]] = {}
    every = np.arange(len(fragments))

    def picked(ask: int) -> list[Elements]:
        if ask not in asks:
            asks.clear()
            counting = fragments.bits([predicates[int(due.predicate[ask])]], every)[0]
            span = int(due.since[ask]), int(due.until[ask])
            asks[ask] = [column.where(counting, *span) for column in columns]
        return asks[ask]

    for piece in pieces:
        if not len(piece.ask):
            continue
        order = np.lexsort((piece.key, piece.end, piece.ask))
        ask, key, end = piece.ask[order], piece.key[order], piece.end[order]
        begins = np.flatnonzero(np.append(True, (ask[1:] != ask[:-1]) | (end[1:] != end[:-1])))
        bounds = np.append(begins, len(order)).tolist()
        held, size, first = [[] for _ in columns], 0, 0  # type: list[list[Bags]], int, int
        for begin, stop in pairwise(bounds):
            until = int(end[begin])
            since = until - int(due.range_us[ask[begin]])
            for bags, source in zip(held, picked(int(ask[begin])), strict=True):
                bags.append(source.window(since, until, key[begin:stop]))
                size += len(bags[-1].codes)
            if size >= _MOST_ELEMENTS or stop == bounds[-1]:
                yield _piece(piece, order[first:stop], bagged, held)
                held, size, first = [[] for _ in columns], 0, stop


def _piece(
    piece: Combined, rows: Rows, bagged: Sequence[Primitive], held: Sequence[Sequence[Bags]]
) -> Combined:
    """Return some rows of a piece, with the bags of the windows in them."""
    partials = {own: partial.take(rows) for own, partial in piece.partials.items()}
    partials |= {
        primitive: Partial((Bags.joined(bags),), None, primitive.types)
        for primitive, bags in zip(bagged, held, strict=True)
    }
    share = len(rows) / max(1, len(piece.ask))
    return Combined(
        ask=piece.ask[rows], key=piece.key[rows], end=piece.end[rows], partials=partials,
        operations=round(piece.operations * share),
    )  # fmt: skip
