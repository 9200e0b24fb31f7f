"""Bags of windows: elements are sorted once, by key and value, and each window picks its own from them.

What is picked stays in order, so that nothing is sorted again, however much windows overlap: for each window
one pass over the elements of its ask says which are in it, and those that are equal are added up.

    elements    key      a a a a b b b        all slices and fragments of a span of time, in order
                value    1 1 2 3 1 2 2
                slice    0 2 1 2 0 0 1
    window of slices 0 and 1    a 1, a 2, b 1, b 2 twice
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from weft.aggregates import Bags, Partial, Primitive
from weft.arrays import spelled_out
from weft.predicates import Formula
from weft.state.signatures import Fragments
from weft.state.sorted_runs import ShardsByKey
from weft.state.store import Combined, DueWindows

Times = npt.NDArray[np.int64]
Rows = npt.NDArray[np.intp]
Bools = npt.NDArray[np.bool_]
_MOST_ELEMENTS = 1 << 22
"""Maximum number of elements picked together, but for those of one window."""


class Elements:
    """The elements of all shards' bags of one primitive, by key, then by their own order and value."""

    def __init__(self, shards: ShardsByKey, primitive: Primitive) -> None:
        whole: Bags = shards.partial(primitive).fields[0]
        owner = whole.owner
        sorting = np.lexsort(
            (whole.codes, *(() if whole.order is None else (whole.order,)), shards.key[owner])
        )
        owner = owner[sorting]
        self.bags, self.primitive = whole, primitive
        self.sorting = sorting
        self.start, self.key, self.fragment = shards.start[owner], shards.key[owner], shards.fragment[owner]
        distinct = np.ones(len(sorting), dtype=bool)
        for column in (self.key, whole.codes[sorting], None if whole.order is None else whole.order[sorting]):
            if column is not None:
                changed = column[1:] != column[:-1]
                distinct[1:] = changed if column is self.key else distinct[1:] | changed
        self.number = np.cumsum(distinct, dtype=np.int64)
        """The same for elements of one key that are equal."""

    def where(self, counting: Bools, since: int, until: int) -> "Picked":
        """Return the elements of fragments that count, of slices that begin in a span of time."""
        inside = counting[self.fragment]
        inside &= (self.start >= since) & (self.start < until)
        rows = np.flatnonzero(inside)
        return Picked(elements=self, rows=rows, start=self.start[rows])


@dataclass(frozen=True, slots=True, kw_only=True)
class Picked:
    """Elements that satisfy an ask's predicate."""

    elements: Elements
    rows: Rows
    start: Times

    def window(self, since: int, until: int, keys: Rows) -> Bags:
        """Return the bag of each of some keys, in order, in one window."""
        elements, whole = self.elements, self.elements.bags
        rows = self._of_keys(self.rows[(self.start >= since) & (self.start < until)], keys)
        number = elements.number[rows]
        first = np.ones(len(rows), dtype=bool)
        np.not_equal(number[1:], number[:-1], out=first[1:])
        firsts = np.flatnonzero(first)
        of_first = rows[firsts]
        source = elements.sorting[rows]
        weights = None if whole.weights is None else _added(whole.weights[source], firsts)
        mine = elements.sorting[of_first]
        return replace(
            whole,
            begins=np.searchsorted(elements.key[of_first], np.append(keys, keys[-1:] + 1)).astype(np.int64),
            codes=whole.codes[mine],
            counts=_added(whole.counts[source], firsts),
            order=None if whole.order is None else whole.order[mine],
            weights=weights,
        )

    def _of_keys(self, rows: Rows, keys: Rows) -> Rows:
        """Return the rows of some keys: other keys of a window may be in another piece."""
        key = self.elements.key[rows]
        lo, hi = np.searchsorted(key, keys), np.searchsorted(key, keys, side="right")
        return rows if int((hi - lo).sum()) == len(rows) else rows[spelled_out(lo, hi - lo)]


def _added(values: npt.NDArray[Any], firsts: Rows) -> npt.NDArray[Any]:
    if not len(firsts):
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
    asks: dict[int, list[Picked]] = {}
    every = np.arange(len(fragments))

    def picked(ask: int) -> list[Picked]:
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
