"""Final aggregation: all due windows of a program at once, whatever the number of queries.

A window's result for a key combines the shards that lie in the window and whose fragment satisfies the
query's predicate (STS 4.3.2, Algorithm 2, and 5). There are two ways to find it, with the same results:
running totals (totals.py) for plain numbers, and ranges for everything else. Shards sorted by key, fragment
and slice make a window of a fragment a range of rows, found by binary search; aggregates combine over those
ranges, and then over the fragments of a key (weft.aggregates.combine).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from weft.aggregates import Partial, Primitive, aggregate, combine, empty
from weft.errors import InternalError
from weft.predicates import Formula
from weft.runtime.programs import Program
from weft.runtime.state import RelationState
from weft.runtime.totals import Combined, has_totals, totals

Times = npt.NDArray[np.int64]
Rows = npt.NDArray[np.intp]
_PAIRS = 2_000_000
"""How many (window, group) pairs are looked at in one go."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Windows:
    """Due windows: whose they are, when, and of which rows."""

    query: npt.NDArray[np.int32]
    start: Times
    end: Times
    predicate: npt.NDArray[np.int32]
    """Which of the predicates that are given beside the windows."""

    def __len__(self) -> int:
        return len(self.end)

    def take(self, rows: Rows) -> "Windows":
        """Return some of the windows."""
        return Windows(
            query=self.query[rows], start=self.start[rows], end=self.end[rows], predicate=self.predicate[rows]
        )


@dataclass(frozen=True, slots=True)
class Finals:
    """Results before the SELECT's own arithmetic, and the partials they were made from."""

    table: pa.Table
    """Columns query, window_start, window_end, key0…, aggregate0…"""
    operations: int
    """How many shards were combined: one for each window that a shard is part of."""
    overflows: npt.NDArray[np.int32]
    """The query of each result that does not fit its type, and is NULL."""


def finals(
    state: RelationState, program: Program, due: Windows, predicates: Sequence[Formula]
) -> Iterator[Finals]:
    """Yield the results of the due windows of a program, in bounded pieces."""
    if not len(due):
        return
    bare, held = np.ones(len(due), dtype=bool), due
    if program.emit_empty:
        # Windows in a gap may be millions: only those that hold a slice are worth a look.
        filled = _holding(state.starts(), due)
        held = due.take(filled)
    for piece in _combined(state, program.primitives, held, predicates) if len(held) else ():
        if len(piece.window):
            if program.emit_empty:
                bare[filled[piece.window]] = False
            keys = state.groups.values(piece.key) if program.keys else None
            columns = [] if keys is None else [keys.column(place).combine_chunks() for place in program.keys]
            yield _finished(program, held.take(piece.window), columns, piece.partials, piece.operations)
    if program.emit_empty:
        yield from _empty(program, due, np.flatnonzero(bare))


def _holding(slices: Times, due: Windows) -> Rows:
    """Return which windows hold a slice."""
    return np.flatnonzero(np.searchsorted(slices, due.end) > np.searchsorted(slices, due.start))


def _empty(program: Program, due: Windows, bare: Rows) -> Iterator[Finals]:
    """Yield the results of windows without a row; their queries have no keys."""
    for begin in range(0, len(bare), _PAIRS):
        windows = due.take(bare[begin : begin + _PAIRS])
        nothing = {one: empty(one, len(windows)) for one in program.primitives}
        yield _finished(program, windows, [], nothing, 0)


def _combined(
    state: RelationState, primitives: Sequence[Primitive], due: Windows, predicates: Sequence[Formula]
) -> Iterator[Combined]:
    # Totals need no order and look at each row once: they are faster for a single window, too.
    if all(map(has_totals, primitives)):
        return totals(state, primitives, due.start, due.end, due.predicate, predicates)
    return ranges(state, primitives, due, predicates)


def ranges(
    state: RelationState, primitives: Sequence[Primitive], due: Windows, predicates: Sequence[Formula]
) -> Iterator[Combined]:
    """Yield the combined partials of windows, each over the fragments that satisfy its predicate.

    A group is a key and a fragment. (group, slice) is searched as one number: the group's rank, then the
    slice's.
    """
    rows = state.by_group(primitives)
    if not len(rows):
        return
    changes = (np.diff(rows.key, prepend=-1) != 0) | (np.diff(rows.fragment, prepend=-1) != 0)
    begins = np.flatnonzero(changes)
    key, fragment = rows.key[begins], rows.fragment[begins].astype(np.intp)
    slices = state.starts()
    stride = len(slices) + 1
    place = (np.cumsum(changes) - 1) * stride + np.searchsorted(slices, rows.start)
    first, last = np.searchsorted(slices, due.start), np.searchsorted(slices, due.end)
    asked, which = np.unique(due.predicate, return_inverse=True)
    formulas = [predicates[one] for one in asked]
    step = max(1, _PAIRS // len(begins))
    for begin in range(0, len(due), step):
        some, number = np.unique(which[begin : begin + step], return_inverse=True)
        bits = state.fragments.bits([formulas[one] for one in some], fragment)
        window, group = np.nonzero(bits[number])
        window += begin
        lo = np.searchsorted(place, group * stride + first[window])
        hi = np.searchsorted(place, group * stride + last[window])
        held = np.flatnonzero(hi > lo)
        yield _over_fragments(
            primitives, rows.partials, window[held], key[group[held]].astype(np.intp), lo[held], hi[held]
        )


def _over_fragments(
    primitives: Sequence[Primitive],
    partials: dict[Primitive, Partial],
    window: Rows,
    key: Rows,
    lo: Rows,
    hi: Rows,
) -> Combined:
    """Combine ranges of rows, and then those of one window and key."""
    changes = (np.diff(window, prepend=-1) != 0) | (np.diff(key, prepend=-1) != 0)
    begins = np.flatnonzero(changes)
    ends = np.append(begins[1:], len(window))
    combined = {}
    for primitive in primitives:
        partial = combine(primitive, partials[primitive], lo, hi)
        if len(begins) < len(window):
            partial = combine(primitive, partial, begins, ends)
        combined[primitive] = partial
    operations = int((hi - lo).sum())
    return Combined(window=window[begins], key=key[begins], partials=combined, operations=operations)


def _finished(
    program: Program, due: Windows, keys: list[pa.Array], combined: dict[Primitive, Partial], operations: int
) -> Finals:
    moment = pa.timestamp("us", "UTC")
    columns: dict[str, pa.Array] = {
        "query": pa.array(due.query),
        "window_start": pa.array(due.start).cast(moment),
        "window_end": pa.array(due.end).cast(moment),
    }
    columns |= {f"key{place}": key for place, key in enumerate(keys)}
    overflows = [np.empty(0, dtype=np.int32)]
    for place, (name, primitives, type) in enumerate(program.aggregates):
        function = aggregate(name)
        if function is None:
            raise InternalError(f"no aggregate {name}")
        lowered = function.lower([combined[one] for one in primitives], type)
        columns[f"aggregate{place}"] = lowered
        if function.can_overflow and lowered.null_count:
            valid = combined[primitives[0]].valid_mask()
            overflows.append(due.query[valid & np.asarray(lowered.is_null())])
    return Finals(pa.table(columns), operations, np.concatenate(overflows))
