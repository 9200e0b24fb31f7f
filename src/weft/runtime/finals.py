"""Final aggregation: all due windows of a program at once, whatever the number of queries.

Rows of a relation are sorted by group and slice, so a window of a group is a range of rows, found by binary
search; aggregates combine over those ranges (weft.aggregates.combine).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from weft.aggregates import Partial, Primitive, aggregate, combine, empty
from weft.errors import InternalError
from weft.runtime.programs import Program
from weft.runtime.state import RelationState

Times = npt.NDArray[np.int64]
Rows = npt.NDArray[np.intp]
_PAIRS = 2_000_000
"""How many (window, group) pairs are looked at in one go."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Windows:
    """Due windows: whose they are, and when."""

    query: npt.NDArray[np.int32]
    start: Times
    end: Times

    def __len__(self) -> int:
        return len(self.end)

    def take(self, rows: Rows) -> "Windows":
        """Return some of the windows."""
        return Windows(query=self.query[rows], start=self.start[rows], end=self.end[rows])


@dataclass(frozen=True, slots=True)
class Finals:
    """Results before the SELECT's own arithmetic, and the partials they were made from."""

    table: pa.Table
    """Columns query, window_start, window_end, key0…, aggregate0…"""
    operations: int
    overflows: npt.NDArray[np.int32]
    """The query of each result that does not fit its type, and is NULL."""


def finals(
    state: RelationState, primitives: Sequence[Primitive], program: Program, due: Windows
) -> Iterator[Finals]:
    """Yield the results of the due windows of a program, in bounded pieces."""
    state.settle()
    pieces = _ungrouped(state, due) if not state.groups.grouped else _grouped(state, due)
    for window, group, lo, hi in pieces:
        if len(lo):
            yield _lowered(state, primitives, program, due.take(window), group, lo, hi)
    if program.emit_empty:
        yield from _empties(state, primitives, program, due)


def _ungrouped(state: RelationState, due: Windows) -> Iterator[tuple[Rows, Rows, Rows, Rows]]:
    lo, hi = np.searchsorted(state.start, due.start), np.searchsorted(state.start, due.end)
    held = np.flatnonzero(hi > lo)
    yield held, np.zeros(len(held), dtype=np.intp), lo[held], hi[held]


def _grouped(state: RelationState, due: Windows) -> Iterator[tuple[Rows, Rows, Rows, Rows]]:
    """Search (group, slice) as one number: the group's rank, then the slice's."""
    if not len(state.start):
        return
    slices, groups = np.unique(state.start), np.unique(state.group)
    stride = len(slices) + 1
    place = np.searchsorted(groups, state.group) * stride + np.searchsorted(slices, state.start)
    step = max(1, _PAIRS // len(groups))
    offsets = np.arange(len(groups))[:, None] * stride
    for begin in range(0, len(due), step):
        first = np.searchsorted(slices, due.start[begin : begin + step])
        last = np.searchsorted(slices, due.end[begin : begin + step])
        lo, hi = np.searchsorted(place, offsets + first), np.searchsorted(place, offsets + last)
        group, window = np.nonzero(hi > lo)
        yield window + begin, groups[group], lo[group, window], hi[group, window]


def _lowered(
    state: RelationState, primitives: Sequence[Primitive], program: Program,
    due: Windows, group: Rows, lo: Rows, hi: Rows,
) -> Finals:  # fmt: skip
    combined: dict[int, Partial] = {}
    for place in {place for _, places, _ in program.aggregates for place in places}:
        primitive = primitives[place]
        combined[place] = combine(primitive, state.partials[primitive], lo, hi)
    keys = state.groups.values(group) if program.keys else None
    columns = [] if keys is None else [keys.column(place).combine_chunks() for place in program.keys]
    return _finished(program, due, columns, combined, int((hi - lo).sum()))


def _empties(
    state: RelationState, primitives: Sequence[Primitive], program: Program, due: Windows
) -> Iterator[Finals]:
    """Yield a row for each window without one (EMIT EMPTY; such a query has no keys)."""
    bare = np.searchsorted(state.start, due.end) == np.searchsorted(state.start, due.start)
    windows = due.take(np.flatnonzero(bare))
    if len(windows):
        places = {place for _, places, _ in program.aggregates for place in places}
        combined = {place: empty(primitives[place], len(windows)) for place in places}
        yield _finished(program, windows, [], combined, 0)


def _finished(
    program: Program, due: Windows, keys: list[pa.Array], combined: dict[int, Partial], operations: int
) -> Finals:
    moment = pa.timestamp("us", "UTC")
    columns: dict[str, pa.Array] = {
        "query": pa.array(due.query),
        "window_start": pa.array(due.start).cast(moment),
        "window_end": pa.array(due.end).cast(moment),
    }
    columns |= {f"key{place}": key for place, key in enumerate(keys)}
    overflows = [np.empty(0, dtype=np.int32)]
    for place, (name, places, type) in enumerate(program.aggregates):
        function = aggregate(name)
        if function is None:
            raise InternalError(f"no aggregate {name}")
        lowered = function.lower([combined[one] for one in places], type)
        columns[f"aggregate{place}"] = lowered
        if function.can_overflow and lowered.null_count:
            overflows.append(due.query[combined[places[0]].valid_mask() & np.asarray(lowered.is_null())])
    return Finals(pa.table(columns), operations, np.concatenate(overflows))
